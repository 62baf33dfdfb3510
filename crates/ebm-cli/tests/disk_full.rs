//! A disk that is full at any byte of any file (goal R8 of docs/reliability.md): a limit on the size of
//! files, as whole processes.

use crate::common::program::said;
use crate::common::training::Case;
use crate::downloads::{get, workplace};
use crate::server::Server;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ebm_testing::files;
use ebm_testing::system::prlimit;

const RESOURCES: i32 = 6;

/// Runs the command under a `prlimit` on the size of files.
fn limited(prlimit: &Path, command: &Command, bytes: u64) -> Output {
    let mut limited = Command::new(prlimit);
    limited.arg(format!("--fsize={bytes}")).arg(command.get_program()).args(command.get_args());
    limited.output().unwrap()
}

/// Returns `count` limits, in equal ratios, up to one byte less than `largest`.
fn limits(count: usize, largest: u64) -> impl Iterator<Item = u64> {
    let last = (largest - 1) as f64;
    (0..count).map(move |i| last.powf(i as f64 / (count - 1) as f64).round() as u64)
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in files::below(from) {
        files::write(to, &name, &bytes);
    }
}

#[test]
fn a_training_goes_on_from_its_checkpoint_when_there_is_space_again() {
    let Some(prlimit) = prlimit() else { return };
    let case = Case::new(4, 2);
    let whole = case.uninterrupted();
    let largest = |dir: &str| files::below(&case.path(dir)).values().map(Vec::len).max().unwrap() as u64;
    let (largest, largest_kept) = (largest("whole"), largest("whole/checkpoints"));
    // As if it had been stopped after its first checkpoint.
    let started = case.path("started");
    copy(&case.path("whole"), &started);
    fs::remove_file(started.join("ebm.safetensors")).unwrap();
    fs::remove_dir_all(started.join("checkpoints/step-00000004")).unwrap();
    for limit in limits(16, largest) {
        let run = format!("full-{limit}");
        copy(&started, &case.path(&run));
        let output = limited(&prlimit, &case.train(&run, true), limit);
        assert_eq!(output.status.code(), Some(RESOURCES), "{limit}: {}", said(&output));
        assert!(said(&output).contains("no space for"), "{limit}: {}", said(&output));
        let output = case.train(&run, true).output().unwrap();
        assert!(output.status.success(), "{limit}: {}", said(&output));
        // Where only the model file did not fit, the last checkpoint did.
        let step = if limit < largest_kept { 2 } else { 4 };
        assert!(said(&output).contains(&format!("going on from step {step}")), "{limit}: {}", said(&output));
        assert!(case.branch(&run) == whole, "{limit}");
        fs::remove_dir_all(case.path(&run)).unwrap();
    }
}

#[test]
fn a_download_has_its_final_name_only_when_it_is_whole() {
    let Some(prlimit) = prlimit() else { return };
    let content: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bytes = content.clone();
    let server = Server::start(move |request, reply| reply.good(request, &bytes));
    for limit in limits(64, content.len() as u64) {
        let dir = workplace(&server.url("x"), &content);
        let (mut get, file) = (get(dir.path(), &["set"]), dir.path().join("datasets/set/x.bin"));
        let output = limited(&prlimit, &get, limit);
        assert_eq!(output.status.code(), Some(RESOURCES), "{limit}: {}", said(&output));
        assert!(!file.exists(), "{limit}");
        let output = get.output().unwrap();
        assert!(output.status.success(), "{limit}: {}", said(&output));
        assert!(fs::read(file).unwrap() == content, "{limit}");
    }
}
