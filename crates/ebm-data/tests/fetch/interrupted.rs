//! R9 in one process: the connection drops at random offsets, each time in another run.

use ebm_data::fetch::{Error, State};
use ebm_seed::Key;
use rand::Rng as _;

use crate::server::Server;
use crate::{assert_whole, content, fetch, names, options, pinned};

const LEN: usize = 8 << 20;
const DROPS: usize = 20;

#[test]
fn twenty_drops_cost_no_byte_twice() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes, "\"a\"");
        let cut = Key::new(9).index(request.number as u64).rng().random_range(0..=body.len().min(1 << 19));
        reply.body(if request.number < DROPS { &body[..cut] } else { body });
    });
    let dir = tempfile::tempdir().unwrap();
    let entry = pinned(server.url("x"), &whole);
    let mut once = options();
    once.attempts = 1;
    for drop in 0..DROPS {
        let (state, _) = fetch(&entry, dir.path(), &once);
        assert!(matches!(state, Err(Error::GaveUp { .. })), "drop {drop}: {state:?}");
        assert!(!dir.path().join("x.bin").exists(), "the final name is there unverified");
    }
    let (state, _) = fetch(&entry, dir.path(), &once);
    assert!(matches!(state, Ok(State::Fetched { trusted: false, .. })), "{state:?}");
    assert_whole(dir.path(), &whole);
    let again = server.sent() - LEN as u64;
    assert_eq!(again, 0, "{again} bytes were sent again");
}

#[test]
fn progress_starts_the_count_of_attempts_anew() {
    let whole = content(LEN);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes, "\"a\"");
        reply.body(&body[..body.len().min((1 << 20) + 1)]);
    });
    let dir = tempfile::tempdir().unwrap();
    let (state, retries) = fetch(&pinned(server.url("x"), &whole), dir.path(), &options());
    assert!(state.is_ok() && retries == 7, "{state:?}, {retries}");
    assert_whole(dir.path(), &whole);
}

#[test]
fn a_tampered_part_is_not_taken_for_the_file() {
    let whole = content(LEN / 8);
    let bytes = whole.clone();
    let server = Server::start(move |request, reply| {
        let body = reply.good_head(request, &bytes, "\"a\"");
        reply.body(if request.number == 0 { &body[..1000] } else { body });
    });
    let dir = tempfile::tempdir().unwrap();
    let entry = pinned(server.url("x"), &whole);
    let mut once = options();
    once.attempts = 1;
    fetch(&entry, dir.path(), &once).0.unwrap_err();
    assert_eq!(names(dir.path()), ["x.bin.part", "x.bin.part.meta"]);
    std::fs::write(dir.path().join("x.bin.part"), [7; 1000]).unwrap();
    let (state, retries) = fetch(&entry, dir.path(), &options());
    assert!(state.is_ok() && retries == 1, "{state:?}");
    assert_whole(dir.path(), &whole);
    // Nobody knows what this is a part of.
    std::fs::remove_file(dir.path().join("x.bin")).unwrap();
    std::fs::write(dir.path().join("x.bin.part"), [7; 1000]).unwrap();
    std::fs::write(dir.path().join("x.bin.part.meta"), "{").unwrap();
    let (state, retries) = fetch(&entry, dir.path(), &options());
    assert!(state.is_ok() && retries == 0, "{state:?}");
    assert_whole(dir.path(), &whole);
}
