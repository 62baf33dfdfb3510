//! What happens when nothing goes wrong: verification, first use, mirrors, offline, two at a time.

use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::fetch::{Entry, Error, FetchOptions, Manifest, Pin, State, embedded, get};

use crate::server::Server;
use crate::{assert_whole, content, fetch, names, options, pinned, sha256, unpinned};

#[test]
fn a_file_in_its_place_is_verified_and_not_fetched() {
    let whole = content(70_000);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| reply.good(request, &bytes));
    let dir = tempfile::tempdir().unwrap();
    let entry = pinned(server.url("x"), &whole);
    let hash = sha256(&whole);
    let (state, _) = fetch(&entry, dir.path(), &options());
    assert_eq!(state.unwrap(), State::Fetched { sha256: hash.clone(), trusted: false });
    // What a kill after the renaming would have left.
    for leftover in ["x.bin.part", "x.bin.part.meta", "x.bin.lock"] {
        std::fs::write(dir.path().join(leftover), "").unwrap();
    }
    assert_eq!(fetch(&entry, dir.path(), &options()).0.unwrap(), State::Verified { sha256: hash });
    assert_eq!(server.requests().len(), 1);
    assert_whole(dir.path(), &whole);
    let file = dir.path().join("x.bin");
    for (bytes, word) in [(&whole[1..], "69999"), (&content(70_001)[1..], "SHA-256")] {
        std::fs::write(&file, bytes).unwrap();
        let text = fetch(&entry, dir.path(), &options()).0.unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
        assert!(std::fs::read(&file).unwrap() == bytes, "a user's file is left alone");
    }
}

#[test]
fn the_first_download_is_recorded_and_holds() {
    let whole = content(5000);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| reply.good(request, &bytes));
    let dir = tempfile::tempdir().unwrap();
    let entry = unpinned(server.url("x"));
    assert_eq!(entry.pin(), Pin::FirstUse);
    let hash = sha256(&whole);
    let (state, _) = fetch(&entry, dir.path(), &options());
    assert_eq!(state.unwrap(), State::Fetched { sha256: hash.clone(), trusted: true });
    let record = std::fs::read_to_string(dir.path().join("x.bin.sha256")).unwrap();
    assert_eq!(record, format!("{hash}  x.bin\n"));
    assert_eq!(fetch(&entry, dir.path(), &options()).0.unwrap(), State::Verified { sha256: hash });
    std::fs::write(dir.path().join("x.bin"), "other").unwrap();
    let (state, _) = fetch(&entry, dir.path(), &options());
    assert!(matches!(state, Err(Error::WrongHash { .. })), "{state:?}");
}

#[test]
fn a_file_put_there_by_hand_is_recorded_and_the_published_digits_count() {
    let whole = content(5000);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.bin"), &whole).unwrap();
    let hash = sha256(&whole);
    let by_hand = |prefix: &str| Entry {
        urls: Vec::new(),
        by_hand: Some("fetch it".into()),
        sha256_prefix: Some(prefix.into()),
        ..unpinned(String::new())
    };
    let (state, _) = fetch(&by_hand("00000000"), dir.path(), &options());
    assert!(matches!(state, Err(Error::WrongHash { .. })), "{state:?}");
    let (state, _) = fetch(&by_hand(&hash[..8]), dir.path(), &options());
    assert_eq!(state.unwrap(), State::Recorded { sha256: hash });
}

#[test]
fn a_second_address_stands_in() {
    let whole = content(5000);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| match request.path.as_str() {
        "/gone" => reply.head("404 Not Found", &["Content-Length: 0"]),
        _ => reply.good(request, &bytes),
    });
    let dir = tempfile::tempdir().unwrap();
    let mut entry = pinned(server.url("gone"), &whole);
    let (state, _) = fetch(&entry, dir.path(), &options());
    assert!(matches!(state, Err(Error::Status { status: 404, .. })), "{state:?}");
    entry.urls.push(server.url("x"));
    fetch(&entry, dir.path(), &options()).0.unwrap();
    assert_whole(dir.path(), &whole);
}

#[test]
fn offline_lists_and_asks_nobody() {
    let whole = content(5000);
    let server = Server::start(|_, reply| reply.head("500 Oops", &[]));
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("images")).unwrap();
    let text = format!(
        "name = \"a\"\ntitle = \"\"\npage = \"\"\nlicence = \"\"\ncitation = \"\"\n\
         [[file]]\npath = \"x.bin\"\nurls = [\"{}\"]\n[[file]]\npath = \"y.bin\"\nby_hand = \"go there\"\n\
         [[file]]\npath = \"images\"\nby_hand = \"unpack\"\nentries = 2\n",
        server.url("x")
    );
    let manifest = Manifest::parse("a.toml".as_ref(), &text).unwrap();
    let mut options = options();
    options.offline = true;
    let list = || get(&manifest, dir.path(), &options, &mut |_| {});
    let error = list().unwrap_err();
    assert!(error.to_string().contains("holds 0 files where at least 2 are expected: unpack"), "{error}");
    for name in ["images/1", "images/2", "x.bin"] {
        std::fs::write(dir.path().join(name), &whole).unwrap();
    }
    let there: Vec<bool> = list().unwrap().iter().map(|outcome| outcome.state.is_there()).collect();
    assert_eq!(there, [true, false, true]);
    std::fs::remove_file(dir.path().join("x.bin")).unwrap();
    let states: Vec<State> = list().unwrap().into_iter().map(|outcome| outcome.state).collect();
    assert_eq!(states[..2], [State::Missing, State::ByHand { instruction: "go there".into() }]);
    assert!(server.requests().is_empty());
}

#[test]
fn two_at_once_are_one_download() {
    let whole = content(1 << 20);
    let bytes = whole.clone();
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes, "\"a\"");
        reply.body(&body[..1000]);
        // The rest comes when the other has been turned away.
        wait.lock().unwrap().recv().unwrap();
        reply.body(&body[1000..]);
    });
    let dir = tempfile::tempdir().unwrap();
    let entry = pinned(server.url("x"), &whole);
    let mut patient = options();
    patient.stall = Duration::from_secs(10);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| fetch(&entry, dir.path(), &patient).0);
        while server.sent() < 1000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let start = Instant::now();
        let (second, _) = fetch(&entry, dir.path(), &patient);
        assert!(start.elapsed() < Duration::from_secs(1));
        let Err(Error::Locked { holder, .. }) = second else { panic!("{second:?}") };
        assert_eq!(holder, std::process::id().to_string());
        go.send(()).unwrap();
        assert!(matches!(first.join().unwrap(), Ok(State::Fetched { .. })));
    });
    assert_eq!(server.requests().len(), 1);
    assert!(matches!(fetch(&entry, dir.path(), &patient).0, Ok(State::Verified { .. })));
    assert_whole(dir.path(), &whole);
}

#[test]
fn a_disk_that_is_too_small_is_told_before() {
    let server = Server::start(|_, reply| {
        reply.head("200 OK", &[&format!("Content-Length: {}", u64::MAX / 4)]);
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, _) = fetch(&unpinned(server.url("x")), dir.path(), &options());
    let Err(Error::DiskFull { needed, free: Some(free), .. }) = state else { panic!("{state:?}") };
    assert!(needed == u64::MAX / 4 && free < needed);
    assert_eq!(names(dir.path()), [""; 0]);
}

/// Annotations that come with the program are COCO's, and of the images that the lists name.
#[test]
fn embedded_annotations_are_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [
        ("coco-person", "val", 348, 348),
        ("coco-person", "train_many", 1648, 9959),
    ];
    for (name, part, images, boxes) in parts {
        let manifest = embedded::find(embedded::DATASETS, name).unwrap().unwrap();
        let path = format!("{name}/{part}.json");
        let entry = manifest.files.iter().find(|entry| entry.path == path).unwrap();
        let offline = FetchOptions { offline: true, ..options() };
        assert_eq!(fetch(entry, dir.path(), &offline).0.unwrap(), State::Missing);
        let hash = entry.sha256.clone().unwrap();
        assert_eq!(fetch(entry, dir.path(), &options()).0.unwrap(), State::Written { sha256: hash.clone() });
        assert_eq!(fetch(entry, dir.path(), &options()).0.unwrap(), State::Verified { sha256: hash });

        let folder = format!("{name}/images");
        let load = LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) };
        let found = CocoDataset::load(&dir.path().join(path), &dir.path().join(&folder), &load).unwrap();
        let count: usize = found.images.iter().map(|image| image.objects.len()).sum();
        assert_eq!((found.images.len(), count), (images, boxes));
        let listed: BTreeSet<&str> = manifest.files.iter().map(|entry| entry.path.as_str()).collect();
        for image in &found.images {
            assert!(listed.contains(format!("{folder}/{}", image.file_name).as_str()), "{}", image.file_name);
        }
    }
}
