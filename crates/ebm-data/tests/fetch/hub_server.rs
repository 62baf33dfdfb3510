//! The Hugging Face Hub on loopback: repositories, commits, and large files that lie at another port.
#![allow(dead_code, reason = "three test programs use it, each a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::server::{Reply, Request, Server};

/// The files of a commit, and what each `owner/name@branch` is at.
#[derive(Default)]
struct State {
    commits: Vec<BTreeMap<String, Vec<u8>>>,
    branches: BTreeMap<String, usize>,
}

/// Whether it has answered, in place of the Hub.
pub type Interfere = fn(&Request, &mut Reply) -> bool;

/// The Hub, and the host of its large files: those that end in `.safetensors`.
pub struct TestHub {
    pub hub: Server,
    pub storage: Server,
    state: Arc<Mutex<State>>,
}

const NOTHING: &str = "Content-Length: 0";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

fn git_id(content: &[u8]) -> String {
    let head = format!("blob {}\0", content.len());
    hex(&Sha1::new().chain_update(head).chain_update(content).finalize())
}

fn is_large(name: &str) -> bool {
    name.ends_with(".safetensors")
}

pub fn answer(reply: &mut Reply, status: &str, value: &Value) {
    let text = value.to_string();
    reply.head(status, &["Content-Type: application/json", &format!("Content-Length: {}", text.len())]);
    reply.body(text.as_bytes());
}

impl TestHub {
    /// One that wants `token` with every question to the Hub itself, if there is one.
    pub fn start(token: Option<&'static str>, interfere: Interfere) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let storage = Server::start(move |request, reply| {
            let state = shared.lock().unwrap();
            let named = |content: &&Vec<u8>| request.path == format!("/cdn/{}", sha256(content));
            match state.commits.iter().flat_map(BTreeMap::values).find(named) {
                _ if interfere(request, reply) => {}
                Some(content) => reply.good(request, content),
                None => reply.head("404 Not Found", &[NOTHING]),
            }
        });
        // Another port of the same host is another server, which must not see the token.
        let (shared, other) = (state.clone(), storage.address.clone());
        let hub = Server::start(move |request, reply| {
            let bearer = token.map(|token| format!("Bearer {token}"));
            if interfere(request, reply) {
            } else if bearer.is_some() && request.authorization != bearer {
                answer(reply, "401 Unauthorized", &json!({ "error": "Invalid username or password." }));
            } else {
                shared.lock().unwrap().answer(&other, request, reply);
            }
        });
        Self { hub, storage, state }
    }

    /// A commit with these files on a branch, `owner/name@branch`.
    pub fn put(&self, branch: &str, files: &[(&str, &[u8])]) {
        let mut state = self.state.lock().unwrap();
        state.commits.push(files.iter().map(|(name, content)| ((*name).into(), content.to_vec())).collect());
        let commit = state.commits.len() - 1;
        state.branches.insert(branch.to_owned(), commit);
    }

    /// That nobody but the Hub has seen a token.
    pub fn assert_discreet(&self) {
        assert!(self.storage.requests().iter().all(|request| request.authorization.is_none()));
    }
}

impl State {
    fn answer(&self, storage: &str, request: &Request, reply: &mut Reply) {
        let path = request.path.split('?').next().unwrap().trim_start_matches('/');
        match &path.split('/').collect::<Vec<_>>()[..] {
            ["api", "models", owner, name, "revision", revision] => {
                let Some(commit) = self.branches.get(&format!("{owner}/{name}@{revision}")) else {
                    return answer(reply, "404 Not Found", &json!({ "error": "Repository not found" }));
                };
                let file = |(path, content): (&String, &Vec<u8>)| {
                    let size = content.len();
                    let lfs = is_large(path).then(|| json!({ "sha256": sha256(content), "size": size }));
                    json!({ "rfilename": path, "size": size, "blobId": git_id(content), "lfs": lfs })
                };
                let files: Vec<Value> = self.commits[*commit].iter().map(file).collect();
                answer(reply, "200 OK", &json!({ "sha": format!("{commit:040x}"), "siblings": files }));
            }
            [_, _, "resolve", revision, file @ ..] => {
                let commit = usize::from_str_radix(revision, 16).ok();
                let name = file.join("/").replace("%20", " ").replace("%23", "#");
                match commit.and_then(|commit| self.commits.get(commit)?.get(&name)) {
                    Some(content) if is_large(&name) => {
                        let location = format!("Location: {storage}/cdn/{}", sha256(content));
                        reply.head("302 Found", &[&location, NOTHING]);
                    }
                    // As the Hub answers for small files: at another place of its own.
                    Some(_) => {
                        reply.head("307 Temporary Redirect", &[&format!("Location: /small/{path}"), NOTHING])
                    }
                    None => reply.head("404 Not Found", &[NOTHING]),
                }
            }
            ["small", _, _, "resolve", revision, file @ ..] => {
                let commit = usize::from_str_radix(revision, 16).unwrap();
                reply.good(request, &self.commits[commit][&file.join("/")]);
            }
            _ => reply.head("404 Not Found", &[NOTHING]),
        }
    }
}
