//! Downloads from servers on loopback: real sockets, scripted answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod downloads;
mod hub;
mod hub_server;
mod server;

use std::path::Path;
use std::time::Duration;

use ebm_base::Key;
use ebm_data::Error;
use ebm_data::fetch::{Entry, Event, FetchOptions, State, get_entry};
use ebm_testing::files::names;
use rand::RngCore as _;
use sha2::{Digest as _, Sha256};

const FETCHED: &str = "fetched and verified";

/// That it was fetched and trusted.
fn trusted(state: &State, hash: &str) -> bool {
    matches!(state, State::There(why, found) if why.contains("fetched and trusted") && found == hash)
}

/// A wait is some milliseconds.
fn options() -> FetchOptions {
    FetchOptions { backoff: Duration::from_millis(2), ..FetchOptions::default() }
}

fn content(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Key::new(len as u64).split("content").rng().fill_bytes(&mut bytes);
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file `x.bin` at `url` that is known to be `content`.
fn pinned(url: String, content: &[u8]) -> Entry {
    Entry { sha256: sha256(content), size: Some(content.len() as u64), ..unpinned(url) }
}

/// A file `x.bin` at `url` of which nothing is known.
fn unpinned(url: String) -> Entry {
    Entry { path: "x.bin".into(), url: Some(url), ..Entry::default() }
}

/// Fetches `entry` into `dir`; how it stands, and how many attempts failed on the way.
fn fetch(entry: &Entry, dir: &Path, options: &FetchOptions) -> (Result<State, Error>, usize) {
    let mut retries = 0;
    let mut report = |event: Event<'_>| retries += usize::from(matches!(event, Event::Retry(..)));
    let outcome = get_entry(entry, dir, options, &mut report).map(|(_, state)| state);
    (outcome, retries)
}

/// That the file is there with this content and nothing beside it.
fn assert_whole(dir: &Path, content: &[u8]) {
    assert!(std::fs::read(dir.join("x.bin")).unwrap() == content, "x.bin has another content");
    assert_eq!(names(dir), ["x.bin"]);
}
