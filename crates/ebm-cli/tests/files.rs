//! `ebm` among files that others have left: links, pipes and devices.

use crate::common::program::{command, said};

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Returns the output of a command that must end by itself.
fn ends(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begun) = (command.spawn().unwrap(), Instant::now());
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn outputs_replace_regular_files_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    ebm_data::encode::write_png(&path("x.png"), &ebm_data::Image::new(2, 2, vec![9; 12]).unwrap()).unwrap();
    std::fs::write(path("victim"), "precious").unwrap();
    std::fs::write(path("file"), "old").unwrap();
    symlink("victim", path("link")).unwrap();
    symlink("absent", path("dangling")).unwrap();
    pipe(&path("pipe"));
    for (name, what) in [("link", "a symbolic link"), ("dangling", "a symbolic link"), ("pipe", "a pipe")] {
        let output = ends(command(&["data", "decode"]).arg(path("x.png")).arg(path(name)));
        assert!(!output.status.success() && said(&output).contains(what), "{}", said(&output));
        assert!(!path(name).symlink_metadata().unwrap().is_file(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(path("victim")).unwrap(), "precious");
    assert!(!path("absent").exists());
    let output = ends(command(&["data", "decode"]).arg(path("x.png")).arg(path("file")));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_pipe_or_a_device_is_no_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    pipe(&path("pipe"));
    let (device, out) = (Path::new("/dev/zero"), path("out.safetensors"));
    for (input, what) in [(&*path("pipe"), "a pipe"), (device, "a device")] {
        for words in [["data", "decode"], ["weights", "convert"]] {
            let output = ends(command(&words).arg(input).arg(&out));
            assert!(!output.status.success() && said(&output).contains(what), "{words:?}: {}", said(&output));
            assert!(!out.exists());
        }
    }
}
