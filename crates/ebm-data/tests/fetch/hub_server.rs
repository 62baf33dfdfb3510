//! The Hugging Face Hub on loopback: repositories, commits, and large files that lie on another host.
#![allow(dead_code, reason = "two test programs use it, each a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::server::{Reply, Request, Server};

/// A file of a commit.
#[derive(Clone)]
pub struct Kept {
    pub content: Vec<u8>,
    pub large: bool,
}

/// What the Hub has.
#[derive(Default)]
pub struct State {
    /// The files of each commit.
    commits: Vec<BTreeMap<String, Kept>>,
    /// The commit of each repository's branch.
    branches: BTreeMap<String, usize>,
    private: Vec<String>,
    /// Large files by hash.
    blobs: BTreeMap<String, Vec<u8>>,
    parts: BTreeMap<String, Vec<u8>>,
}

/// How it behaves.
#[derive(Default)]
pub struct Rules {
    /// What is to be sent with every question to the Hub itself.
    pub token: Option<&'static str>,
    /// Bytes of a part of a large file; else they come in one piece.
    pub chunk: Option<u64>,
    /// Answers before it does, where it likes.
    pub interfere: Option<Interfere>,
}

/// Whether it has answered.
pub type Interfere = Box<dyn Fn(&Request, &mut Reply) -> bool + Send + Sync>;

/// The Hub, and the host of its large files.
pub struct TestHub {
    pub hub: Server,
    pub storage: Server,
    state: Arc<Mutex<State>>,
}

const NOTHING: &str = "Content-Length: 0";

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub fn git_id(content: &[u8]) -> String {
    let head = format!("blob {}\0", content.len());
    hex(&Sha1::new().chain_update(head).chain_update(content).finalize())
}

fn commit_name(commit: usize) -> String {
    format!("{commit:040x}")
}

fn answer(reply: &mut Reply, status: &str, value: &Value) {
    let text = value.to_string();
    reply.head(status, &["Content-Type: application/json", &format!("Content-Length: {}", text.len())]);
    reply.body(text.as_bytes());
}

impl TestHub {
    pub fn start(rules: Rules) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let rules = Arc::new(rules);
        let ours = rules.clone();
        let storage = Server::start(move |request, reply| {
            if !ours.interfere.as_ref().is_some_and(|answers| answers(request, reply)) {
                shared.lock().unwrap().store(request, reply);
            }
        });
        let (shared, address) = (state.clone(), storage.address.clone());
        let hub = Server::start(move |request, reply| {
            if rules.interfere.as_ref().is_some_and(|answers| answers(request, reply)) {
                return;
            }
            let bearer = rules.token.map(|token| format!("Bearer {token}"));
            if bearer.is_some() && request.authorization != bearer {
                return answer(
                    reply,
                    "401 Unauthorized",
                    &json!({ "error": "Invalid username or password." }),
                );
            }
            shared.lock().unwrap().answer(&rules, &address, request, reply);
        });
        Self { hub, storage, state }
    }

    /// The files of a branch.
    pub fn files(&self, branch: &str) -> BTreeMap<String, Kept> {
        let state = self.state.lock().unwrap();
        state.commits[state.branches[branch]].clone()
    }

    /// A repository with these files.
    pub fn put(&self, branch: &str, files: &[(&str, &[u8])]) {
        let mut state = self.state.lock().unwrap();
        let file = |(name, content): &(&str, &[u8])| {
            let large = name.ends_with(".safetensors");
            ((*name).to_owned(), Kept { content: content.to_vec(), large })
        };
        for (_, content) in files.iter().filter(|(name, _)| name.ends_with(".safetensors")) {
            state.blobs.insert(sha256(content), content.to_vec());
        }
        state.commits.push(files.iter().map(file).collect());
        let commit = state.commits.len() - 1;
        state.branches.insert(branch.to_owned(), commit);
    }

    pub fn is_private(&self, repo: &str) -> bool {
        self.state.lock().unwrap().private.iter().any(|private| private == repo)
    }

    pub fn commits(&self) -> usize {
        self.state.lock().unwrap().commits.len()
    }

    /// Bytes that were put into the storage.
    pub fn stored(&self) -> usize {
        let puts = self.storage.requests().into_iter().filter(|request| request.method == "PUT");
        puts.map(|request| request.body.len()).sum()
    }

    /// That nobody but the Hub has seen a token.
    pub fn assert_discreet(&self) {
        assert!(self.storage.requests().iter().all(|request| request.authorization.is_none()));
    }
}

impl State {
    /// The host of large files.
    fn store(&mut self, request: &Request, reply: &mut Reply) {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        match (request.method.as_str(), path) {
            ("GET", _) => match self.blobs.get(path.trim_start_matches("/cdn/")) {
                Some(content) => reply.good(request, content),
                None => reply.head("404 Not Found", &[NOTHING]),
            },
            ("PUT", _) if query.starts_with("part=") => {
                self.parts.insert(request.path.clone(), request.body.clone());
                reply.head("200 OK", &[&format!("ETag: \"{}\"", sha256(&request.body)), NOTHING]);
            }
            ("PUT", _) => {
                let oid = path.trim_start_matches("/lfs/").to_owned();
                if sha256(&request.body) != oid {
                    return reply.head("400 Bad Request", &[NOTHING]);
                }
                self.blobs.insert(oid, request.body.clone());
                reply.head("200 OK", &[NOTHING]);
            }
            _ => {
                let told: Value = serde_json::from_slice(&request.body).unwrap();
                let oid = told["oid"].as_str().unwrap();
                if path == "/verify" {
                    let size = self.blobs.get(oid).map(Vec::len);
                    let right = size.is_some() && told["size"].as_u64() == size.map(|size| size as u64);
                    return reply.head(if right { "200 OK" } else { "422 No" }, &[NOTHING]);
                }
                let mut content = Vec::new();
                for part in told["parts"].as_array().unwrap() {
                    let bytes = &self.parts[&format!("/lfs/{oid}?part={}", part["partNumber"])];
                    assert_eq!(part["etag"], format!("\"{}\"", sha256(bytes)));
                    content.extend(bytes);
                }
                assert_eq!(sha256(&content), oid);
                self.blobs.insert(oid.to_owned(), content);
                reply.head("200 OK", &[NOTHING]);
            }
        }
    }

    /// The Hub itself.
    fn answer(&mut self, rules: &Rules, storage: &str, request: &Request, reply: &mut Reply) {
        let path = request.path.split('?').next().unwrap().trim_start_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let told = || serde_json::from_slice::<Value>(&request.body).unwrap();
        match (request.method.as_str(), &parts[..]) {
            ("POST", ["api", "repos", "create"]) => {
                let told = told();
                let text = |key: &str| told[key].as_str().unwrap();
                let repo = format!("{}/{}", text("organization"), text("name"));
                let branch = format!("{repo}@main");
                if self.branches.contains_key(&branch) {
                    return answer(
                        reply,
                        "409 Conflict",
                        &json!({ "error": "You already created this model" }),
                    );
                }
                if told["private"] == true {
                    self.private.push(repo);
                }
                self.commits.push(BTreeMap::new());
                self.branches.insert(branch, self.commits.len() - 1);
                answer(reply, "200 OK", &json!({ "url": "a page" }));
            }
            ("POST", ["api", "models", owner, name, "branch", branch]) => {
                let main = self.branches[&format!("{owner}/{name}@main")];
                let known = self.branches.insert(format!("{owner}/{name}@{branch}"), main);
                reply.head(if known.is_some() { "409 Conflict" } else { "201 Created" }, &[NOTHING]);
            }
            ("POST", ["api", "models", owner, name, "preupload", revision]) => {
                let Some(commit) = self.branches.get(&format!("{owner}/{name}@{revision}")) else {
                    return answer(reply, "404 Not Found", &json!({ "error": "Repository not found" }));
                };
                let known = &self.commits[*commit];
                let mode = |file: &Value| {
                    let path = file["path"].as_str().unwrap();
                    let large = path.ends_with(".safetensors");
                    let id = |kept: &Kept| if large { sha256(&kept.content) } else { git_id(&kept.content) };
                    let mode = if large { "lfs" } else { "regular" };
                    assert!(STANDARD.decode(file["sample"].as_str().unwrap()).unwrap().len() <= 512);
                    json!({ "path": path, "uploadMode": mode, "shouldIgnore": false, "oid": known.get(path).map(id) })
                };
                let modes: Vec<Value> = told()["files"].as_array().unwrap().iter().map(mode).collect();
                answer(reply, "200 OK", &json!({ "files": modes }));
            }
            ("POST", [_, _, "info", "lfs", "objects", "batch"]) => {
                let object = |object: &Value| {
                    let (oid, size) = (object["oid"].as_str().unwrap(), object["size"].as_u64().unwrap());
                    if self.blobs.contains_key(oid) {
                        return json!({ "oid": oid, "size": size });
                    }
                    let href = format!("{storage}/lfs/{oid}");
                    let mut header = json!({});
                    if let Some(chunk) = rules.chunk {
                        header["chunk_size"] = json!(chunk.to_string());
                        for part in 1..=size.div_ceil(chunk) {
                            header[format!("{part:05}")] = json!(format!("{href}?part={part}"));
                        }
                    }
                    let verify = json!({ "href": format!("{storage}/verify") });
                    let actions = json!({ "upload": { "href": href, "header": header }, "verify": verify });
                    json!({ "oid": oid, "size": size, "actions": actions })
                };
                let objects: Vec<Value> = told()["objects"].as_array().unwrap().iter().map(object).collect();
                answer(reply, "200 OK", &json!({ "transfer": "basic", "objects": objects }));
            }
            ("POST", ["api", "models", owner, name, "commit", revision]) => {
                let branch = format!("{owner}/{name}@{revision}");
                let mut files = self.commits[self.branches[&branch]].clone();
                for line in String::from_utf8(request.body.clone()).unwrap().lines() {
                    let line: Value = serde_json::from_str(line).unwrap();
                    let value = &line["value"];
                    let text = |key: &str| value[key].as_str().unwrap().to_owned();
                    match line["key"].as_str().unwrap() {
                        "header" => assert!(!text("summary").is_empty()),
                        "file" => {
                            let content = STANDARD.decode(text("content")).unwrap();
                            files.insert(text("path"), Kept { content, large: false });
                        }
                        "lfsFile" => {
                            let Some(content) = self.blobs.get(&text("oid")).cloned() else {
                                return answer(
                                    reply,
                                    "400 Bad Request",
                                    &json!({ "error": "a blob is missing" }),
                                );
                            };
                            files.insert(text("path"), Kept { content, large: true });
                        }
                        other => panic!("{other}"),
                    }
                }
                self.commits.push(files);
                self.branches.insert(branch, self.commits.len() - 1);
                let id = commit_name(self.commits.len() - 1);
                let page = format!("https://huggingface.co/{owner}/{name}/commit/{id}");
                answer(reply, "200 OK", &json!({ "success": true, "commitOid": id, "commitUrl": page }));
            }
            ("GET", ["api", "models", owner, name, "revision", revision]) => {
                let Some(commit) = self.commit(&format!("{owner}/{name}"), revision) else {
                    return answer(reply, "404 Not Found", &json!({ "error": "Repository not found" }));
                };
                let file = |(path, kept): (&String, &Kept)| {
                    let size = kept.content.len();
                    let lfs = json!({ "sha256": sha256(&kept.content), "size": size, "pointerSize": 134 });
                    let lfs = kept.large.then_some(lfs);
                    json!({ "rfilename": path, "size": size, "blobId": git_id(&kept.content), "lfs": lfs })
                };
                let files: Vec<Value> = self.commits[commit].iter().map(file).collect();
                answer(reply, "200 OK", &json!({ "sha": commit_name(commit), "siblings": files }));
            }
            ("GET", [owner, name, "resolve", revision, file @ ..]) => {
                let commit = self.commit(&format!("{owner}/{name}"), revision);
                let kept = commit.and_then(|commit| self.commits[commit].get(&file.join("/")));
                let (Some(commit), Some(kept)) = (commit, kept) else {
                    return reply.head("404 Not Found", &[NOTHING]);
                };
                let named = format!("X-Repo-Commit: {}", commit_name(commit));
                if !kept.large {
                    let tag = format!("ETag: \"{}\"", git_id(&kept.content));
                    reply.head("200 OK", &[&named, &tag, &format!("Content-Length: {}", kept.content.len())]);
                    reply.body(&kept.content);
                    return;
                }
                let hash = sha256(&kept.content);
                let headers = [
                    named,
                    format!("X-Linked-ETag: \"{hash}\""),
                    format!("X-Linked-Size: {}", kept.content.len()),
                    format!("Location: {storage}/cdn/{hash}"),
                    NOTHING.to_owned(),
                ];
                reply.head("302 Found", &headers.each_ref().map(String::as_str));
            }
            _ => reply.head("404 Not Found", &[NOTHING]),
        }
    }

    fn commit(&self, repo: &str, revision: &str) -> Option<usize> {
        let known = self.branches.get(&format!("{repo}@{revision}")).copied();
        known.or_else(|| (0..self.commits.len()).find(|commit| commit_name(*commit) == revision))
    }
}
