//! A disk that is full at any byte of any file (goal R8 of docs/reliability.md): a limit on the size of
//! files, as whole processes.

use crate::common::training;
use crate::server;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ebm_testing::system::prlimit;
use server::Server;
use sha2::{Digest as _, Sha256};
use training::{Case, ebm};

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

/// The sizes of all files below a directory.
fn sizes(dir: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(sizes(&entry.path()));
        } else {
            found.push(entry.metadata().unwrap().len());
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_training_goes_on_from_its_checkpoint_when_there_is_space_again() {
    let Some(prlimit) = prlimit() else { return };
    let case = Case::new(4, 2);
    let whole = case.uninterrupted();
    let largest = |dir: &str| sizes(&case.path(dir)).into_iter().max().unwrap();
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
        assert_eq!(output.status.code(), Some(RESOURCES), "{limit}: {}", text(&output));
        assert!(text(&output).contains("no space for"), "{limit}: {}", text(&output));
        let output = case.train(&run, true).output().unwrap();
        assert!(output.status.success(), "{limit}: {}", text(&output));
        // Where only the model file did not fit, the last checkpoint did.
        let step = if limit < largest_kept { 2 } else { 4 };
        assert!(text(&output).contains(&format!("going on from step {step}")), "{limit}: {}", text(&output));
        assert!(case.branch(&run) == whole, "{limit}");
        fs::remove_dir_all(case.path(&run)).unwrap();
    }
}

#[test]
fn a_download_has_its_final_name_only_when_it_is_whole() {
    let Some(prlimit) = prlimit() else { return };
    let content: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sha256: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    let bytes = content.clone();
    let server = Server::start(move |request, reply| reply.good(request, &bytes));
    for limit in limits(64, content.len() as u64) {
        let dir = tempfile::tempdir().unwrap();
        let [datasets, weights] = ["datasets", "weights"].map(|name| dir.path().join(name));
        fs::create_dir(&datasets).unwrap();
        let manifest = format!(
            "name = \"set\"\ntitle = \"Set\"\npage = \"p\"\nlicence = \"free\"\ncitation = \"c\"\n\
             [[file]]\npath = \"set/x.bin\"\nurl = \"{}\"\nsize = {}\nsha256 = \"{sha256}\"\n",
            server.url("x"),
            content.len()
        );
        fs::write(datasets.join("set.toml"), manifest).unwrap();
        let mut get = ebm(&["data", "get", "set"]);
        get.arg("--datasets").arg(&datasets).arg("--weights").arg(&weights);
        let output = limited(&prlimit, &get, limit);
        assert_eq!(output.status.code(), Some(RESOURCES), "{limit}: {}", text(&output));
        assert!(!datasets.join("set/x.bin").exists(), "{limit}");
        let output = get.output().unwrap();
        assert!(output.status.success(), "{limit}: {}", text(&output));
        assert!(fs::read(datasets.join("set/x.bin")).unwrap() == content, "{limit}");
    }
}
