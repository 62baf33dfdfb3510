//! Small files that promise much (goal R13 of docs/reliability.md): refused at once, with little memory, in
//! an address space of 2 GiB.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test's failure is its report")]

use std::fs;
use std::io::{Cursor, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use ebm_fuzz::{Bench, Refusal, Target, target};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The goal is 100 ms; a loaded machine gets ten times as long.
const TIME: Duration = Duration::from_secs(1);
const MEMORY_KIB: u64 = 64 << 10;
const ADDRESS_SPACE: u64 = 2 << 30;

/// The largest resident size since [`forget_peak`] and the present one, in KiB.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("VmHWM:"), field("VmRSS:"))
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Has the parser read the bytes, and holds it to the goal.
fn refused(name: &str, bytes: &[u8]) {
    let bench = Bench::new(known(name)).unwrap();
    let refusal = measured(name, || bench.read(bytes));
    assert!(refusal.is_err(), "{name}: a bomb of {} bytes was taken", bytes.len());
}

/// The answer to a file that is `len` bytes long but takes no room, after its first `bytes`.
fn answer_to_sparse(name: &str, bytes: &[u8], len: u64) -> Result<(), Refusal> {
    let bench = Bench::new(known(name)).unwrap();
    let file = fs::File::create(bench.path()).unwrap();
    (&file).write_all(bytes).unwrap();
    file.set_len(len).unwrap();
    measured(name, || bench.read_there())
}

fn known(name: &str) -> Target {
    target(name).unwrap_or_else(|| panic!("no target {name}"))
}

fn measured(name: &str, read: impl FnOnce() -> Result<(), Refusal>) -> Result<(), Refusal> {
    forget_peak();
    let (_, before) = memory();
    let start = Instant::now();
    let answer = read();
    let (time, (peak, _)) = (start.elapsed(), memory());
    let more = peak.saturating_sub(before);
    eprintln!(
        "{name}: {time:.1?}, {more} KiB: {:.90}",
        answer.as_ref().err().map_or("taken".into(), ToString::to_string)
    );
    assert!(time < TIME, "{name}: {time:?}");
    assert!(more < MEMORY_KIB, "{name}: {more} KiB");
    answer
}

fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn npy(kind: &str, shape: &str, zeros: usize) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + zeros, 0);
    bytes
}

/// The first seed of a target with some of its bytes replaced.
fn changed(name: &str, find: &[u8], offset: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = (known(name).seeds)().swap_remove(0);
    let at = bytes.windows(find.len()).position(|window| window == find).unwrap() + offset;
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// One test, so that nothing else of this process takes memory meanwhile.
#[test]
fn bombs_are_refused_at_once_and_with_little_memory() {
    let Some(prlimit) = ebm_testing::system::prlimit() else { return };
    let limited = Command::new(prlimit)
        .args(["--pid", &std::process::id().to_string(), &format!("--as={ADDRESS_SPACE}")])
        .status();
    assert!(limited.unwrap().success());

    // Arrays that are larger than memory.
    let poses = |count: usize| npy("<f8", &format!("({count}, 3)"), 24 * count);
    let huge = npy("|u1", "(1152921504606846976, 64, 64, 3)", 0);
    refused("biwi-npz", &zip(&[("image.npy", &huge), ("pose.npy", &poses(1))]));
    refused("zip", &zip(&[("zeros", &vec![0; 256 << 20])]));

    // Nesting as deep as the file is long.
    let deep = "[".repeat(100_000);
    for text in [
        deep.clone(),
        format!("{{\"images\":{deep}"),
        format!("{{\"annotations\":[{{\"segmentation\":{deep}"),
        "{\"images\":".repeat(20_000),
    ] {
        refused("coco", text.as_bytes());
    }
    for name in ["coco-results", "face-split", "metrics", "state"] {
        refused(name, format!("{deep}\n").as_bytes());
    }
    for name in ["detection-config", "face-config", "tracking-config", "toy-config", "manifest"] {
        refused(name, format!("a = {deep}").as_bytes());
    }

    // Entities within entities, nesting, and more elements than an annotation has.
    let laughs =
        "<!DOCTYPE annotation [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><annotation>&b;</annotation>";
    let many = format!("<annotation>{}</annotation>", "<a/>".repeat(1_000_000));
    for text in [laughs, &"<annotation>".repeat(100_000), &many] {
        refused("voc", text.as_bytes());
    }

    // 65500² pixels in a JPEG's frame.
    refused("jpeg", &changed("jpeg", &[0xff, 0xc0], 5, &[0xff, 0xdc, 0xff, 0xdc]));
    // 16000² in the headers of a BMP and of a WebP's picture.
    refused("bmp", &changed("bmp", b"BM", 18, &[0x80, 0x3e, 0, 0, 0x80, 0x3e, 0, 0]));
    refused("webp", &changed("webp", &[0x9d, 0x01, 0x2a], 3, &[0x80, 0x3e, 0x80, 0x3e]));

    // A header of 450 MB, of which the file has nothing or everything.
    let header = 450_000_000u64.to_le_bytes();
    refused("safetensors", &[&header[..], &[b'{'; 1000]].concat());
    assert!(answer_to_sparse("safetensors", &header, 450_000_100).is_err());

    // Longer than any file of its kind.
    for target in ebm_fuzz::targets() {
        assert!(answer_to_sparse(target.name, b"", 1 << 38).is_err(), "{}", target.name);
    }
}
