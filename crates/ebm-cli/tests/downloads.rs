//! `ebm data get` as a user runs it, from a server on loopback: killed, twice at once, from manifests.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::program::{command, said};
use crate::server::Server;
use ebm_base::Key;
use ebm_testing::files;
use rand::{Rng as _, RngCore as _};
use sha2::{Digest as _, Sha256};

/// Returns how often the download is killed; `EBM_DOWNLOAD_KILLS` may ask for more.
fn kills_wanted() -> usize {
    std::env::var("EBM_DOWNLOAD_KILLS").map_or(20, |text| text.parse().unwrap())
}

/// Largest number of bytes that are downloaded again after a kill.
const AGAIN: u64 = 1 << 20;

/// `ebm data get` with its folders under `dir`.
pub fn get(dir: &Path, args: &[&str]) -> Command {
    let mut command = command(&[&["data", "get"], args].concat());
    command.arg("--datasets").arg(dir.join("datasets")).arg("--weights").arg(dir.join("weights"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(mut command: Command) -> Output {
    command.output().unwrap()
}

fn printed(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn content() -> Vec<u8> {
    // Each kill comes within the next MiB.
    let mut bytes = vec![0; kills_wanted() * AGAIN as usize + (4 << 20)];
    Key::new(1).split("content").rng().fill_bytes(&mut bytes);
    bytes
}

/// A folder whose `datasets/set.toml` knows the file at `url`.
pub fn workplace(url: &str, content: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("datasets")).unwrap();
    let sha256: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    let manifest = format!(
        "name = \"set\"\ntitle = \"Set\"\npage = \"p\"\nlicence = \"free\"\ncitation = \"c\"\n\
         [[file]]\npath = \"set/x.bin\"\nurl = \"{url}\"\nsize = {}\nsha256 = \"{sha256}\"\n",
        content.len()
    );
    std::fs::write(dir.path().join("datasets/set.toml"), manifest).unwrap();
    dir
}

#[test]
fn twenty_kills_and_the_file_is_right() {
    let whole = content();
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        // Slow enough that a kill comes in the middle; the socket's buffers are what a kill may lose.
        for chunk in reply.good_head(request, &bytes).chunks(1 << 16) {
            if !reply.body(chunk) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let dir = workplace(&server.url("x"), &whole);
    let place = dir.path().join("datasets/set/x.bin");
    let mut rng = Key::new(2).split("kills").rng();
    let mut kills = 0;
    while kills < kills_wanted() && !place.exists() {
        let (before, mut child) = (server.sent(), get(dir.path(), &["set"]).spawn().unwrap());
        let wanted = before + rng.random_range(1..1 << 20);
        while server.sent() < wanted && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if place.exists() {
            assert!(std::fs::read(&place).unwrap() == whole, "the final name was there unverified");
        }
        kills += 1;
    }
    let output = finish(get(dir.path(), &["set"]));
    assert!(output.status.success(), "{}", said(&output));
    assert!(std::fs::read(&place).unwrap() == whole);
    assert_eq!(files::names(place.parent().unwrap()), ["x.bin"], "leftovers");
    let again = server.sent() - whole.len() as u64;
    eprintln!("{kills} kills, {again} bytes sent again");
    assert_eq!(kills, kills_wanted());
    assert!(again <= kills as u64 * AGAIN, "{again} bytes were sent again in {kills} kills");
}

#[test]
fn the_second_process_is_told_who_is_first() {
    let whole = content();
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes);
        reply.body(&body[..1000]);
        std::thread::sleep(Duration::from_millis(1500));
        reply.body(&body[1000..]);
    });
    let dir = workplace(&server.url("x"), &whole);
    let first = get(dir.path(), &["set"]).spawn().unwrap();
    while server.sent() < 1000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    let second = finish(get(dir.path(), &["set"]));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(second.status.code(), Some(1));
    let (errors, id) = (said(&second), first.id());
    assert!(errors.contains(&format!("process {id} is writing here")), "{errors}");
    assert!(first.wait_with_output().unwrap().status.success());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_files_of_a_list_are_fetched_one_by_one() {
    const COUNT: usize = 101;
    let server = Server::start(|request, reply| reply.good(request, request.path.clone().as_bytes()));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join("datasets").join(name);
    std::fs::create_dir_all(path("set")).unwrap();
    let manifest = |sums: &str| {
        let head = "name = \"set\"\ntitle = \"Set\"\npage = \"p\"\nlicence = \"free\"\ncitation = \"c\"";
        let list = format!("[[list]]\nsums = \"{sums}\"\npath = \"set/x\"\nurl = \"{}\"\n", server.url("x"));
        std::fs::write(path("set.toml"), format!("{head}\n{list}")).unwrap();
    };
    manifest("set/sums");
    let hash = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let sums: String = (0..COUNT).map(|i| format!("{}  a/{i}\n", hash(&format!("/x/a/{i}")))).collect();
    std::fs::write(path("set/sums"), &sums).unwrap();
    let output = finish(get(dir.path(), &["set"]));
    assert!(output.status.success(), "{}", said(&output));
    assert!(printed(&output).ends_with("set: 101 of 101 files are there\n"), "{}", printed(&output));
    assert_eq!(std::fs::read(path("set/x/a/7")).unwrap(), b"/x/a/7");
    assert_eq!(server.requests().len(), COUNT);

    // What is gone is named; what is another file is refused.
    std::fs::remove_file(path("set/x/a/7")).unwrap();
    let output = finish(get(dir.path(), &["set", "--offline"]));
    assert_eq!(output.status.code(), Some(3));
    assert!(printed(&output).contains("x/a/7: missing") && printed(&output).contains("100 of 101"));
    std::fs::write(path("set/sums"), sums.replace(&hash("/x/a/7"), &hash("other"))).unwrap();
    assert_eq!(finish(get(dir.path(), &["set"])).status.code(), Some(3));
    for (sums, wrong) in
        [("a hash and a name", "set/sums, line 1"), (&format!("{}  ../y", hash("")), "stay in its folder")]
    {
        std::fs::write(path("set/sums"), sums).unwrap();
        let output = finish(get(dir.path(), &["set"]));
        assert_eq!(output.status.code(), Some(3));
        assert!(said(&output).contains(wrong), "{}", said(&output));
    }
}

#[test]
fn what_is_to_be_fetched_by_hand_is_said_and_the_codes_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let output = finish(get(dir.path(), &["biwi", "--offline"]));
    assert_eq!(output.status.code(), Some(3));
    let page = printed(&output);
    for part in ["biwi/BIWI_train.npz: missing", "https://github.com/shamangary/FSA-Net", "how:", "to:"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let output = finish(get(dir.path(), &["weights", "--offline"]));
    assert_eq!(printed(&output).matches("would be fetched without --offline").count(), 3);
    let output = finish(get(dir.path(), &["../coco"]));
    let errors = said(&output);
    assert!(errors.contains("there is no manifest ../coco; there are coco, utkface"), "{errors}");
    // A wrong file in place of the right one is a defect of the data.
    let server = Server::start(|request, reply| reply.good(request, b"wrong"));
    let dir = workplace(&server.url("x"), b"right");
    let output = finish(get(dir.path(), &["set"]));
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).contains("SHA-256"), "{}", said(&output));
}
