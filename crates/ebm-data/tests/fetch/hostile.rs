//! R10: ten servers that misbehave. Each ends in the right file or a typed error, and never in a wrong file.

use std::time::{Duration, Instant};

use ebm_data::fetch::{Error, FetchOptions, State};

use crate::server::Server;
use crate::{assert_whole, content, fetch, names, options, pinned, unpinned};

const LEN: usize = 300_000;

fn fetched(state: Result<State, Error>) -> bool {
    matches!(state.unwrap(), State::Fetched { .. })
}

fn last(state: Result<State, Error>) -> (u32, Error) {
    let Err(Error::GaveUp { attempts, last }) = state else { panic!("not given up: {state:?}") };
    (attempts, *last)
}

#[test]
fn a_short_body_is_completed() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes, "\"a\"");
        let cut = if request.number < 3 { body.len() / 2 } else { body.len() };
        reply.body(&body[..cut]);
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, retries) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
    assert!(fetched(state));
    assert_eq!((retries, server.sent()), (3, LEN as u64), "no byte is sent twice");
    assert_whole(dir.path(), &whole);
}

#[test]
fn a_body_that_stays_short_is_given_up_and_kept() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes, "\"a\"");
        reply.body(&body[..body.len().min(1000)]);
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, _) = fetch(&unpinned(server.url("x")), dir.path(), &options());
    let (attempts, error) = last(state);
    assert_eq!((attempts, server.requests().len()), (5, 5));
    assert!(
        matches!(error, Error::ShortBody { expected, actual: 5000, .. } if expected == LEN as u64),
        "{error}"
    );
    assert_eq!(names(dir.path()), ["x.bin.part", "x.bin.part.meta"]);
}

#[test]
fn a_long_body_is_refused() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |_, reply| {
        reply.head("200 OK", &["Transfer-Encoding: chunked"]);
        reply.chunk(&bytes);
        reply.chunk(b"more");
        reply.chunk(b"");
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, _) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
    assert!(matches!(state, Err(Error::LongBody { expected, .. }) if expected == LEN as u64), "{state:?}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn another_size_than_the_manifests_is_refused_before_the_body() {
    let whole = content(LEN);
    let bytes = whole[1..].to_vec();
    let server = Server::start(move |request, reply| reply.good(request, &bytes));
    let dir = tempfile::tempdir().unwrap();
    let (state, _) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
    let Err(error @ Error::Size { .. }) = state else { panic!("{state:?}") };
    let text = error.to_string();
    assert!(text.contains("299999") && text.contains("300000") && text.contains(&server.address), "{text}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn the_whole_file_instead_of_a_range_is_taken_from_the_start() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        reply.head("200 OK", &["ETag: \"a\"", &format!("Content-Length: {LEN}")]);
        reply.body(&bytes[..if request.number == 0 { LEN / 2 } else { LEN }]);
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, _) = fetch(&unpinned(server.url("x")), dir.path(), &options());
    assert!(fetched(state));
    assert_eq!(server.requests()[1].range, Some(LEN / 2));
    assert!(std::fs::read(dir.path().join("x.bin")).unwrap() == whole);
}

#[test]
fn a_changed_etag_starts_over() {
    // `honest` heeds If-Range and sends the new file whole; the other sends its rest under another tag.
    for honest in [true, false] {
        let (old, new) = (content(LEN), content(LEN + 1)[1..].to_vec());
        let bytes = new.clone();
        let server = Server::start(move |request, reply| {
            if request.number == 0 {
                let body = reply.good_head(request, &old, "\"old\"");
                reply.body(&body[..LEN / 2]);
            } else {
                let mut request = request.clone();
                if !honest {
                    request.if_range = None;
                }
                let body = reply.good_head(&request, &bytes, "\"new\"");
                reply.body(body);
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let (state, _) = fetch(&unpinned(server.url("x")), dir.path(), &options());
        assert!(fetched(state), "honest: {honest}");
        assert_eq!(server.requests()[1].if_range.as_deref(), Some("\"old\""));
        assert!(std::fs::read(dir.path().join("x.bin")).unwrap() == new, "honest: {honest}");
    }
}

#[test]
fn halves_of_two_contents_under_one_tag_are_told_by_the_hash() {
    let (old, new) = (content(LEN), content(LEN + 1)[1..].to_vec());
    let bytes = new.clone();
    let server = Server::start(move |request, reply| {
        let half = request.number == 0;
        let body = reply.good_head(request, if half { &old } else { &bytes }, "\"same\"");
        reply.body(&body[..if half { LEN / 2 } else { body.len() }]);
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, retries) = fetch(&pinned(server.url("x"), &new), dir.path(), &options());
    assert!(fetched(state));
    assert_eq!(retries, 2);
    assert_whole(dir.path(), &new);
}

#[test]
fn busy_servers_are_asked_again_when_they_say() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| match request.number {
        0 => reply.head("429 Too Many Requests", &["Retry-After: 1", "Content-Length: 0"]),
        1 => reply.head("503 Service Unavailable", &["Content-Length: 0"]),
        _ => reply.good(request, &bytes),
    });
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (state, retries) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
    assert!(fetched(state));
    assert!(retries == 2 && start.elapsed() >= Duration::from_secs(1), "{retries}, {:?}", start.elapsed());
    assert_whole(dir.path(), &whole);
}

#[test]
fn a_busy_server_is_given_up_after_five_attempts_or_when_it_asks_for_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|_, reply| reply.head("503 Service Unavailable", &["Content-Length: 0"]));
    let (attempts, error) = last(fetch(&unpinned(server.url("x")), dir.path(), &options()).0);
    assert_eq!((attempts, server.requests().len()), (5, 5));
    assert!(matches!(error, Error::Status { status: 503, .. }), "{error}");
    let server = Server::start(|_, reply| {
        reply.head("429 Too Many Requests", &["Retry-After: 3600", "Content-Length: 0"]);
    });
    let (state, _) = fetch(&unpinned(server.url("x")), dir.path(), &options());
    assert!(matches!(state, Err(Error::RetryLater { wait, .. }) if wait.as_secs() == 3600), "{state:?}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_stall_is_noticed_and_so_is_a_trickle() {
    for trickle in [false, true] {
        let whole = content(LEN);
        let bytes = whole.clone();
        let server = Server::start(move |request, reply| {
            let body = reply.good_head(request, &bytes, "\"a\"");
            if request.number > 0 {
                reply.body(body);
                return;
            }
            for byte in body.chunks(1).take(40) {
                let sent = trickle && reply.body(byte);
                std::thread::sleep(Duration::from_millis(50));
                if trickle && !sent {
                    return;
                }
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let (state, retries) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
        assert!(fetched(state));
        assert_eq!(retries, 1, "trickle: {trickle}");
        assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
        assert_whole(dir.path(), &whole);
    }
}

#[test]
fn silence_before_the_answer_is_a_failed_attempt() {
    let server = Server::start(|_, _| std::thread::sleep(Duration::from_millis(400)));
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    (options.attempts, options.stall) = (2, Duration::from_millis(100));
    let (attempts, error) = last(fetch(&unpinned(server.url("x")), dir.path(), &options).0);
    assert!(attempts == 2 && matches!(error, Error::Network { .. }), "{error}");
}

#[test]
fn a_redirect_away_from_https_is_refused_unasked() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| match request.path.as_str() {
        "/away" => reply.head("302 Found", &["Location: http://192.0.2.1/x", "Content-Length: 0"]),
        "/loop" => reply.head("302 Found", &["Location: /loop", "Content-Length: 0"]),
        "/near" => reply.head("302 Found", &["Location: /x", "Content-Length: 0"]),
        _ => reply.good(request, &bytes),
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, _) = fetch(&unpinned(server.url("away")), dir.path(), &options());
    let Err(error @ Error::Insecure { .. }) = state else { panic!("{state:?}") };
    assert!(
        error.to_string().contains("http://192.0.2.1/x is refused (redirected from http://127.0.0.1:"),
        "{error}"
    );
    let (state, _) = fetch(&unpinned(server.url("loop")), dir.path(), &options());
    assert!(
        matches!(&state, Err(Error::Protocol { detail, .. }) if detail.contains("redirects")),
        "{state:?}"
    );
    let (state, _) = fetch(&unpinned("http://192.0.2.1/x".into()), dir.path(), &options());
    assert!(matches!(state, Err(Error::Insecure { from: None, .. })), "{state:?}");
    assert_eq!(names(dir.path()), [""; 0]);
    assert!(fetched(fetch(&pinned(server.url("near"), &whole), dir.path(), &options()).0));
}

#[test]
fn a_wrong_hash_is_told_and_leaves_nothing() {
    let (whole, mut wrong) = (content(LEN), content(LEN));
    wrong[LEN / 2] ^= 1;
    let expected = crate::sha256(&whole);
    let actual = crate::sha256(&wrong);
    let server = Server::start(move |request, reply| reply.good(request, &wrong));
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("x");
    let (state, _) = fetch(&pinned(url.clone(), &whole), dir.path(), &options());
    let text = state.unwrap_err().to_string();
    for part in [expected.as_str(), &actual, &url, "x.bin"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    assert_eq!(names(dir.path()), [""; 0]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_answer_without_an_end_or_in_another_encoding_is_refused() {
    let server = Server::start(|request, reply| {
        if request.path == "/open" {
            reply.head("200 OK", &[]);
        } else {
            reply.head("200 OK", &["Content-Encoding: gzip", "Content-Length: 3"]);
        }
        reply.body(b"abc");
    });
    let dir = tempfile::tempdir().unwrap();
    for (path, word) in [("open", "tells no length"), ("gzip", "encoding gzip")] {
        let (state, _) = fetch(&unpinned(server.url(path)), dir.path(), &options());
        assert!(matches!(&state, Err(Error::Protocol { detail, .. }) if detail.contains(word)), "{state:?}");
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn a_body_without_a_size_has_a_limit_and_leaves_room() {
    let server = Server::start(|_, reply| {
        reply.head("200 OK", &["Transfer-Encoding: chunked"]);
        while reply.body(b"10000\r\n") && reply.body(&[b'x'; 1 << 16]) && reply.body(b"\r\n") {}
    });
    let dir = tempfile::tempdir().unwrap();
    let entry = unpinned(server.url("x"));
    let limited = FetchOptions { most_unstated: 3 << 20, ..options() };
    let (state, retries) = fetch(&entry, dir.path(), &limited);
    assert!(matches!(state, Err(Error::Unbounded { limit: 3_145_728, .. })), "{state:?}");
    assert_eq!((retries, names(dir.path())), (0, vec![]));
    let full = FetchOptions { keep_free: u64::MAX, ..options() };
    let (state, _) = fetch(&entry, dir.path(), &full);
    assert!(matches!(state, Err(Error::DiskFull { free: Some(_), .. })), "{state:?}");
    assert_eq!(names(dir.path()), [""; 0], "what nobody can go on from");
}

#[test]
fn a_length_that_no_manifest_states_has_the_limit_too() {
    let server = Server::start(|request, reply| reply.good(request, &content(LEN)));
    let dir = tempfile::tempdir().unwrap();
    let limited = FetchOptions { most_unstated: LEN as u64 - 1, ..options() };
    let (state, _) = fetch(&unpinned(server.url("x")), dir.path(), &limited);
    assert!(matches!(state, Err(Error::Unbounded { .. })), "{state:?}");
    assert_eq!((server.requests().len(), names(dir.path())), (1, vec![]));
    let (state, _) = fetch(&pinned(server.url("x"), &content(LEN)), dir.path(), &limited);
    assert!(fetched(state));
}

/// Links and pipes where files of the program belong, and at the file's own place.
#[cfg(unix)]
#[test]
fn what_is_planted_beside_a_file_is_refused_and_its_victim_stays() {
    let server = Server::start(|request, reply| reply.good(request, b"new content"));
    for place in ["x.bin", "x.bin.part", "x.bin.part.meta", "x.bin.sha256", "x.bin.lock"] {
        for kind in ["link", "pipe", "dangling"] {
            let dir = tempfile::tempdir().unwrap();
            let (victim, planted) = (dir.path().join("victim"), dir.path().join("set").join(place));
            std::fs::create_dir(dir.path().join("set")).unwrap();
            std::fs::write(&victim, "precious").unwrap();
            match kind {
                "link" => std::os::unix::fs::symlink(&victim, &planted).unwrap(),
                "pipe" => {
                    rustix::fs::mkfifoat(rustix::fs::CWD, &planted, rustix::fs::Mode::RUSR).unwrap();
                }
                _ => std::os::unix::fs::symlink(dir.path().join("made"), &planted).unwrap(),
            }
            let (state, _) = fetch(&unpinned(server.url("x")), &dir.path().join("set"), &options());
            assert_eq!(std::fs::read(&victim).unwrap(), b"precious", "{place} as a {kind}");
            assert!(!dir.path().join("made").exists(), "{place} as a {kind}");
            // What lies at the file's own place is verified there, through a link too.
            let verified = place == "x.bin" && kind == "link";
            match state {
                Ok(_) => assert!(verified, "{place} as a {kind}"),
                Err(error) => assert!(matches!(error, Error::Io { .. }), "{place} as a {kind}: {error}"),
            }
        }
    }
}
