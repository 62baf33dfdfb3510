//! `ebm` among files that others have left or are making: two containers at one folder, links, pipes and
//! devices.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const EBM: &str = env!("CARGO_BIN_EXE_ebm");

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a command says that must end by itself.
fn ends(command: &mut Command) -> Output {
    let (mut child, begun) = (start(command), Instant::now());
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A tar archive of `count` files of 4000 bytes.
fn archive(path: &Path, count: usize) {
    let mut builder = tar::Builder::new(std::fs::File::create(path).unwrap());
    for index in 0..count {
        let mut header = tar::Header::new_gnu();
        header.set_size(4000);
        builder.append_data(&mut header, format!("{}/{index}", index % 7), &[7; 4000][..]).unwrap();
    }
    builder.finish().unwrap();
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// In a container of its own where the system lets users make one: process numbers mean something else there.
fn elsewhere() -> Command {
    let container = ["-Urpf", "--mount-proc"];
    let made = Command::new("unshare").args(container).arg("true").stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return Command::new(EBM);
    }
    let mut command = Command::new("unshare");
    command.args(container).arg(EBM);
    command
}

#[test]
fn of_two_containers_that_unpack_to_one_folder_one_does() {
    const COUNT: usize = 4000;
    let dir = tempfile::tempdir().unwrap();
    let (big, target) = (dir.path().join("big.tar"), dir.path().join("out/t"));
    archive(&big, COUNT);
    let mut first = Command::new(EBM);
    let mut first = start(first.args(["data", "unpack"]).arg(&big).arg(&target));
    while !dir.path().join("out/.t.partial/0").exists() && first.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = ends(elsewhere().args(["data", "unpack"]).arg(&big).arg(&target));
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success(), "{}", said(&first));
    // It may have come late, and found everything there.
    assert!(second.status.success() || said(&second).contains("is writing here"), "{}", said(&second));
    let files: usize = (0..7).map(|k| std::fs::read_dir(target.join(k.to_string())).unwrap().count()).sum();
    assert_eq!(files, COUNT);
    assert_eq!(std::fs::read_dir(dir.path().join("out")).unwrap().count(), 1);
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
        let output = ends(Command::new(EBM).args(["data", "decode"]).arg(path("x.png")).arg(path(name)));
        assert!(!output.status.success() && said(&output).contains(what), "{}", said(&output));
        assert!(!path(name).symlink_metadata().unwrap().is_file(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(path("victim")).unwrap(), "precious");
    assert!(!path("absent").exists());
    let output = ends(Command::new(EBM).args(["data", "decode"]).arg(path("x.png")).arg(path("file")));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_pipe_or_a_device_is_no_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    pipe(&path("pipe"));
    let (device, out) = (Path::new("/dev/zero"), path("out.safetensors"));
    for (input, what) in [(&*path("pipe"), "a pipe"), (device, "a device")] {
        for command in [["data", "unpack"], ["data", "decode"], ["weights", "convert"]] {
            let output = ends(Command::new(EBM).args(command).arg(input).arg(&out));
            assert!(
                !output.status.success() && said(&output).contains(what),
                "{command:?}: {}",
                said(&output)
            );
            assert!(!out.exists());
        }
    }
}
