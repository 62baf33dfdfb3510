//! The Hugging Face Hub, played by a server on loopback as it answers: facts, then a redirect to the content.

use std::collections::BTreeMap;
use std::path::Path;

use ebm_data::fetch::{Entry, Error, FetchOptions, Hub, HubFile, State};

use crate::server::Server;
use crate::{content, fetch, options, sha256, unpinned};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Serves `sent` as a large file whose published hash is that of `published`.
fn hub_of(published: &[u8], sent: &[u8]) -> Server {
    let (tag, size, sent) = (sha256(published), published.len(), sent.to_vec());
    Server::start(move |request, reply| match request.path.as_str() {
        "/timm/net/resolve/main/model.safetensors" => reply.head(
            "302 Found",
            &[
                &format!("X-Repo-Commit: {COMMIT}"),
                &format!("X-Linked-ETag: \"{tag}\""),
                &format!("X-Linked-Size: {size}"),
                "Location: /cdn/content",
                "Content-Length: 0",
            ],
        ),
        "/cdn/content" => {
            // The first answer, after the facts and the redirect, is cut: its reader goes on from there.
            let body = reply.good_head(request, &sent, "\"cdn\"");
            let cut = if request.number == 2 { body.len() / 2 } else { body.len() };
            reply.body(&body[..cut]);
        }
        _ => reply.head("404 Not Found", &["Content-Length: 0"]),
    })
}

fn entry() -> Entry {
    let file = HubFile { repo: "timm/net".into(), revision: "main".into(), file: "model.safetensors".into() };
    Entry { urls: Vec::new(), hub: Some(file), ..unpinned(String::new()) }
}

fn with_hub(server: &Server, home: &Path, more: &[(&str, &str)]) -> FetchOptions {
    let home = home.display().to_string();
    let mut variables = BTreeMap::from([("HF_HOME", home.as_str()), ("HF_ENDPOINT", &server.address)]);
    variables.extend(more.iter().copied());
    let hub = Hub::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()));
    FetchOptions { hub, ..options() }
}

#[test]
fn a_file_lands_in_the_shared_cache_and_in_its_place() {
    let whole = content(300_000);
    let server = hub_of(&whole, &whole);
    let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let online = with_hub(&server, home.path(), &[]);
    let offline = with_hub(&server, home.path(), &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(fetch(&entry(), dir.path(), &offline).0.unwrap(), State::Missing);
    assert!(server.requests().is_empty());
    let hash = sha256(&whole);
    let fetched = State::Fetched { sha256: hash.clone(), trusted: true };
    assert_eq!(fetch(&entry(), dir.path(), &online).0.unwrap(), fetched);
    assert!(std::fs::read(dir.path().join("x.bin")).unwrap() == whole);
    assert_eq!(server.sent(), whole.len() as u64);
    let root = home.path().join("hub/models--timm--net");
    assert_eq!(crate::names(&root.join("blobs")), [hash.as_str()]);
    assert_eq!(std::fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    let pointer = root.join("snapshots").join(COMMIT).join("model.safetensors");
    assert!(std::fs::read(&pointer).unwrap() == whole);
    #[cfg(unix)]
    assert_eq!(std::fs::read_link(&pointer).unwrap(), Path::new("../../blobs").join(&hash));
    // What any program of the Hub has fetched is not fetched again, and checked.
    std::fs::remove_file(dir.path().join("x.bin")).unwrap();
    let asked = server.requests().len();
    let compared = State::Fetched { sha256: hash.clone(), trusted: false };
    assert_eq!(fetch(&entry(), dir.path(), &offline).0.unwrap(), compared);
    assert_eq!(server.requests().len(), asked);
    std::fs::remove_file(dir.path().join("x.bin")).unwrap();
    std::fs::remove_file(dir.path().join("x.bin.sha256")).unwrap();
    std::fs::write(root.join("blobs").join(&hash), "tampered").unwrap();
    let (state, _) = fetch(&entry(), dir.path(), &offline);
    assert!(matches!(&state, Err(Error::WrongHash { expected, .. }) if *expected == hash), "{state:?}");
    assert_eq!(crate::names(dir.path()), [""; 0]);
}

#[test]
fn other_content_than_the_hub_publishes_never_gets_its_name() {
    let (whole, mut wrong) = (content(300_000), content(300_000));
    wrong[7] ^= 1;
    let server = hub_of(&whole, &wrong);
    let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (state, _) = fetch(&entry(), dir.path(), &with_hub(&server, home.path(), &[]));
    assert!(
        matches!(&state, Err(Error::WrongHash { expected, .. }) if *expected == sha256(&whole)),
        "{state:?}"
    );
    let root = home.path().join("hub/models--timm--net");
    assert_eq!(crate::names(&root.join("blobs")), [""; 0]);
    assert!(!root.join("snapshots").exists() && crate::names(dir.path()).is_empty());
}

#[test]
fn a_token_that_no_request_can_carry_is_named_at_once() {
    let server = hub_of(&content(1000), &content(1000));
    let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let with = |token| fetch(&entry(), dir.path(), &with_hub(&server, home.path(), &[("HF_TOKEN", token)])).0;
    let error = with("sec\nret").unwrap_err();
    assert!(matches!(error, Error::Token { .. }) && error.to_string().contains("HF_TOKEN"), "{error}");
    assert!(!error.to_string().contains("sec") && server.requests().is_empty());
    // What a file that it was read from ends with is none of it.
    assert!(with("secret\n").is_ok());
    assert_eq!(server.requests()[0].authorization.as_deref(), Some("Bearer secret"));
}

#[test]
fn the_token_goes_to_the_endpoint_only() {
    let whole = content(1000);
    let cdn = Server::start({
        let whole = whole.clone();
        move |request, reply| reply.good(request, &whole)
    });
    let (tag, location) = (sha256(&whole), format!("Location: {}", cdn.url("content")));
    let server = Server::start(move |request, reply| {
        if request.authorization.as_deref() != Some("Bearer secret") {
            return reply.head("401 Unauthorized", &["Content-Length: 0"]);
        }
        let (commit, tag) = (format!("X-Repo-Commit: {COMMIT}"), format!("X-Linked-ETag: \"{tag}\""));
        reply.head("302 Found", &[&commit, &tag, &location, "Content-Length: 0"]);
    });
    let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (state, _) = fetch(&entry(), dir.path(), &with_hub(&server, home.path(), &[]));
    assert!(matches!(state, Err(Error::Status { status: 401, .. })), "{state:?}");
    let options = with_hub(&server, home.path(), &[("HF_TOKEN", "secret")]);
    assert!(!format!("{options:?}").contains("secret"));
    fetch(&entry(), dir.path(), &options).0.unwrap();
    assert!(cdn.requests().iter().all(|request| request.authorization.is_none()));
    assert!(cdn.requests().len() == 1);
}
