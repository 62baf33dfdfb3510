//! Files at addresses: broken, busy, lying and silent servers, and none.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::fetch::{Entry, FetchOptions, Manifest, State, embedded, get_entry};

use crate::server::Server;
use crate::{FETCHED, assert_whole, content, fetch, names, options, pinned, sha256, trusted, unpinned};

const LEN: usize = 300_000;

#[test]
fn a_broken_download_goes_on_in_this_process_and_in_the_next() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes);
        reply.body(if request.number < 6 { &body[..body.len() / 2] } else { body });
    });
    let dir = tempfile::tempdir().unwrap();
    let entry = pinned(server.url("x"), &whole);
    let twice = options();
    let error = fetch(&entry, dir.path(), &twice).0.unwrap_err();
    assert!(matches!(error, Error::Network(..)) && error.to_string().contains("run again"), "{error}");
    assert_eq!(names(dir.path()), ["x.bin.part"]);
    let (state, retries) = fetch(&entry, dir.path(), &twice);
    assert_eq!((state.unwrap(), retries), (State::There(FETCHED, sha256(&whole)), 1));
    assert_eq!(server.sent(), LEN as u64, "no byte is sent twice");
    assert_whole(dir.path(), &whole);
    assert_eq!(fetch(&entry, dir.path(), &twice).0.unwrap(), State::There("verified", sha256(&whole)));
    assert_eq!(server.requests().len(), 7, "what is there is not fetched");
}

#[test]
fn halves_of_two_files_are_no_file() {
    // With a hash they are told by it; without one nothing is taken up again.
    for known in [true, false] {
        let (old, new) = (content(LEN), content(LEN + 1)[1..].to_vec());
        let bytes = new.clone();
        let server = Server::start(move |request, reply| {
            let first = request.number == 0;
            let body = reply.good_head(request, if first { &old } else { &bytes });
            reply.body(&body[..if first { LEN / 2 } else { body.len() }]);
        });
        let dir = tempfile::tempdir().unwrap();
        let entry = if known { pinned(server.url("x"), &new) } else { unpinned(server.url("x")) };
        let state = fetch(&entry, dir.path(), &options()).0.unwrap();
        match known {
            true => assert_eq!(state, State::There(FETCHED, sha256(&new))),
            false => assert!(trusted(&state, &sha256(&new)), "{state:?}"),
        }
        assert!(std::fs::read(dir.path().join("x.bin")).unwrap() == new);
        assert_eq!(server.requests()[1].range, known.then_some(LEN / 2));
    }
}

#[test]
fn a_wrong_hash_is_told_and_leaves_nothing() {
    let (whole, mut wrong) = (content(LEN), content(LEN));
    wrong[LEN / 2] ^= 1;
    let (expected, actual) = (sha256(&whole), sha256(&wrong));
    let server = Server::start(move |request, reply| reply.good(request, &wrong));
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("x");
    let text = fetch(&pinned(url.clone(), &whole), dir.path(), &options()).0.unwrap_err().to_string();
    for part in [expected.as_str(), &actual, &url, "x.bin", "mend the manifest"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    assert_eq!((names(dir.path()), server.requests().len()), (vec![], 1));
    // A user's own file is left alone.
    std::fs::write(dir.path().join("x.bin"), content(LEN + 1)).unwrap();
    let text = fetch(&pinned(url, &whole), dir.path(), &options()).0.unwrap_err().to_string();
    assert!(text.contains("300001") && text.contains("move it away"), "{text}");
    assert!(std::fs::read(dir.path().join("x.bin")).unwrap() == content(LEN + 1));
}

#[test]
fn an_address_that_has_gone_is_told() {
    let whole = content(5000);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| match request.path.as_str() {
        "/gone" => reply.head("404 Not Found", &["Content-Length: 0"]),
        _ => reply.good(request, &bytes),
    });
    let dir = tempfile::tempdir().unwrap();
    let entry = pinned(server.url("gone"), &whole);
    let error = fetch(&entry, dir.path(), &options()).0.unwrap_err();
    assert!(matches!(error, Error::Failure(..)), "{error}");
    assert!(
        error.to_string().contains(&format!("{} answers 404: there is no such file", server.url("gone"))),
        "{error}"
    );
    assert_eq!((names(dir.path()), server.requests().len()), (vec![], 1));
    fetch(&pinned(server.url("x"), &whole), dir.path(), &options()).0.unwrap();
    assert_whole(dir.path(), &whole);
}

#[test]
fn a_busy_server_is_asked_again_when_it_says() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| match (request.path.as_str(), request.number) {
        ("/later", _) => reply.head("429 Too Many Requests", &["Retry-After: 3600", "Content-Length: 0"]),
        (_, 0) => reply.head("429 Too Many Requests", &["Retry-After: 1", "Content-Length: 0"]),
        (_, 1) => reply.head("503 Service Unavailable", &["Content-Length: 0"]),
        _ => reply.good(request, &bytes),
    });
    let (dir, start) = (tempfile::tempdir().unwrap(), Instant::now());
    let (state, retries) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
    assert_eq!((state.unwrap(), retries), (State::There(FETCHED, sha256(&whole)), 2));
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_whole(dir.path(), &whole);
    let dir = tempfile::tempdir().unwrap();
    let (state, retries) = fetch(&pinned(server.url("later"), &whole), dir.path(), &options());
    let error = state.unwrap_err().to_string();
    assert!(error.contains("asks to wait 3600 s") && retries == 0, "{error}");
}

#[test]
fn a_lie_about_the_length_is_found() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| match request.path.as_str() {
        "/longer" => reply.good(request, &content(LEN + 1)),
        "/endless" => {
            reply.head("200 OK", &["Transfer-Encoding: chunked"]);
            while reply.body(b"10000\r\n") && reply.body(&[b'x'; 1 << 16]) && reply.body(b"\r\n") {}
        }
        "/open" => {
            reply.head("200 OK", &[]);
            reply.body(b"abc");
        }
        _ => {
            let body = reply.good_head(request, &bytes);
            reply.body(&body[..body.len().min(1000)]);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    for (entry, word) in [
        (pinned(server.url("longer"), &whole), "300001 bytes where 300000 are stated"),
        (pinned(server.url("endless"), &whole), "more than was promised"),
        (unpinned(server.url("open")), "tells no length"),
        (unpinned(server.url("shorter")), "at byte 1000"),
    ] {
        let text = fetch(&entry, dir.path(), &options()).0.unwrap_err().to_string();
        assert!(text.contains(word) && text.contains(entry.url.as_deref().unwrap()), "{text}");
        assert_eq!(names(dir.path()), [""; 0], "{word}");
    }
}

#[test]
fn silence_is_cut() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let nothing = || std::thread::sleep(Duration::from_secs(20));
    let server = Server::start(move |request, reply| {
        if request.number == 1 {
            nothing();
        }
        let body = reply.good_head(request, &bytes);
        if request.number == 0 {
            reply.body(&body[..1000]);
            nothing();
        }
        reply.body(body);
    });
    let (dir, start) = (tempfile::tempdir().unwrap(), Instant::now());
    let impatient = FetchOptions { stall: Duration::from_millis(500), ..options() };
    let (state, retries) = fetch(&pinned(server.url("x"), &whole), dir.path(), &impatient);
    assert_eq!(state.unwrap(), State::There(FETCHED, sha256(&whole)));
    assert!(retries >= 2 && start.elapsed() < Duration::from_secs(15), "{retries}, {:?}", start.elapsed());
    assert_whole(dir.path(), &whole);
}

#[test]
fn only_https_or_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    for bad in
        ["http://192.0.2.1/x", "http://127.0.0.1.a.org/x", "http://localhost@a.org/", "file:///etc/passwd"]
    {
        let error = fetch(&unpinned(bad.into()), dir.path(), &options()).0.unwrap_err();
        assert!(matches!(error, Error::Data(..)) && error.to_string().contains("only https"), "{error}");
    }
    let error = fetch(&unpinned("http://me:secret@a.org/x".into()), dir.path(), &options()).0.unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn offline_lists_and_asks_nobody() {
    let whole = content(5000);
    let server = Server::start(|_, reply| reply.head("500 Oops", &[]));
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("images")).unwrap();
    let text = format!(
        "name = \"a\"\ntitle = \"\"\npage = \"\"\nlicence = \"\"\ncitation = \"\"\n\
         [[file]]\npath = \"x.bin\"\nurl = \"{}\"\n[[file]]\npath = \"y.bin\"\nby_hand = \"go there\"\n\
         [[file]]\npath = \"images\"\nby_hand = \"unpack\"\nentries = 2\n",
        server.url("x")
    );
    std::fs::write(dir.path().join("a.toml"), text).unwrap();
    let manifest = Manifest::read(&dir.path().join("a.toml")).unwrap();
    let options = FetchOptions { offline: true, ..options() };
    let list = || -> Result<Vec<State>, Error> {
        let state =
            |entry: &Entry| get_entry(entry, dir.path(), &options, &mut |_| {}).map(|(_, state)| state);
        manifest.files.iter().map(state).collect()
    };
    let error = list().unwrap_err();
    assert!(error.to_string().contains("holds 0 files where at least 2 are expected: unpack"), "{error}");
    for name in ["images/1", "images/2", "x.bin"] {
        std::fs::write(dir.path().join(name), &whole).unwrap();
    }
    let by_hand = State::Missing(Some("go there".into()));
    let found = list().unwrap();
    assert!(
        matches!(&found[0], State::There(why, hash) if why.contains("no complete hash is published") && *hash == sha256(&whole))
    );
    assert_eq!(found[1..], [by_hand.clone(), State::Folder(2)]);
    std::fs::remove_file(dir.path().join("x.bin")).unwrap();
    assert_eq!(list().unwrap(), [State::Missing(None), by_hand, State::Folder(2)]);
    assert!(server.requests().is_empty());
}

/// Annotations that come with the program are COCO's, and of the images that the lists name.
#[test]
fn embedded_annotations_are_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [("coco-person", "val", 348, 348), ("coco-person", "train_many", 1648, 9959)];
    for (name, part, images, boxes) in parts {
        let manifest = embedded::find(embedded::DATASETS, name).unwrap().unwrap();
        let path = format!("{name}/{part}.json");
        let entry = manifest.files.iter().find(|entry| entry.path == path).unwrap();
        let offline = FetchOptions { offline: true, ..options() };
        assert_eq!(fetch(entry, dir.path(), &offline).0.unwrap(), State::Missing(None));
        let hash = entry.sha256.clone();
        assert_eq!(fetch(entry, dir.path(), &options()).0.unwrap(), State::There("written", hash.clone()));
        assert_eq!(fetch(entry, dir.path(), &options()).0.unwrap(), State::There("verified", hash));

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
