//! Models of the Hub: there and back, and hubs that misbehave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ebm_data::fetch::{Error, FetchOptions, Hub, HubModel, Outgoing, Push, push, snapshot};
use serde_json::json;

use crate::hub_server::{Rules, TestHub, git_id};
use crate::server::{Reply, Request, Server};
use crate::{content, options, sha256};

const LEN: usize = 300_000;

/// A place for a cache, and the way to a hub.
struct Place {
    home: tempfile::TempDir,
    options: FetchOptions,
}

impl Place {
    fn new(server: &Server, more: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().display().to_string();
        let mut variables = BTreeMap::from([("HF_HOME", path.as_str()), ("HF_ENDPOINT", &server.address)]);
        variables.extend(more.iter().copied());
        let hub = Hub::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()));
        Self { options: FetchOptions { hub, ..options() }, home }
    }

    fn hub(&self) -> &Hub {
        self.options.hub.as_ref().unwrap()
    }

    fn fetch(&self, model: &str) -> Result<PathBuf, Error> {
        snapshot(&model.parse().unwrap(), self.hub(), &self.options, &mut |_| {})
    }

    fn push(&self, files: &[Outgoing]) -> Result<Option<String>, Error> {
        self.push_to(files, "main")
    }

    fn push_to(&self, files: &[Outgoing], revision: &str) -> Result<Option<String>, Error> {
        let model = HubModel::new("me/net", revision).unwrap();
        let pushed = Push { model: &model, files, private: true, summary: "a test" };
        push(&pushed, self.hub(), &self.options, &mut |_| {})
    }

    /// Every file below the cache.
    fn files(&self) -> Vec<String> {
        fn walk(folder: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path.display().to_string()) }
            }
        }
        let mut found = Vec::new();
        walk(self.home.path(), &mut found);
        found
    }
}

/// A model's files in a folder.
fn model(dir: &Path) -> Vec<Outgoing> {
    let files: [(&str, Vec<u8>); 4] = [
        ("model.safetensors", content(LEN)),
        ("below/trunk.safetensors", content(LEN / 2)),
        ("config.toml", b"a = 1\n".to_vec()),
        ("README.md", b"# A model\n".to_vec()),
    ];
    let write = |(name, bytes): (&str, Vec<u8>)| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        Outgoing::read(name, &path).unwrap()
    };
    files.into_iter().map(write).collect()
}

const TOKEN: &str = "hf_secret";
const WITH_TOKEN: &[(&str, &str)] = &[("HF_TOKEN", TOKEN)];

fn guarded(rules: Rules) -> Rules {
    Rules { token: Some(TOKEN), ..rules }
}

#[test]
fn a_model_goes_and_comes_back() {
    for chunk in [None, Some(100_000)] {
        let hub = TestHub::start(guarded(Rules { chunk, ..Rules::default() }));
        let (dir, here) = (tempfile::tempdir().unwrap(), Place::new(&hub.hub, WITH_TOKEN));
        let files = model(dir.path());
        let page = here.push(&files).unwrap().unwrap();
        assert!(page.starts_with("https://huggingface.co/me/net/commit/"), "{page}");
        assert!(hub.is_private("me/net"));
        assert_eq!(hub.stored(), LEN + LEN / 2);
        let puts = hub.storage.requests().iter().filter(|request| request.method == "PUT").count();
        assert_eq!(puts, if chunk.is_some() { 5 } else { 2 });

        let there = Place::new(&hub.hub, WITH_TOKEN);
        let folder = there.fetch("hub:me/net").unwrap();
        for file in &files {
            assert!(std::fs::read(folder.join(&file.name)).unwrap() == std::fs::read(&file.path).unwrap());
        }
        assert_eq!(there.fetch("hub:me/net@main/below").unwrap(), folder.join("below"));
        let error = there.fetch("hub:me/net/elsewhere").unwrap_err();
        assert!(matches!(error, Error::NotInModel { .. }), "{error}");
        // What is in the cache is not fetched again, and needs no network.
        let asked = hub.storage.requests().len();
        assert_eq!(there.fetch("hub:me/net").unwrap(), folder);
        assert_eq!(hub.storage.requests().len(), asked);
        let mut offline = there.options.clone();
        offline.hub.as_mut().unwrap().offline = true;
        let answers = hub.hub.requests().len();
        let again =
            snapshot(&"hub:me/net".parse().unwrap(), offline.hub.as_ref().unwrap(), &offline, &mut |_| {});
        assert_eq!(again.unwrap(), folder);
        assert_eq!(hub.hub.requests().len(), answers);
        hub.assert_discreet();

        // Unchanged it is no commit; of a change, what has changed goes.
        let (commits, stored) = (hub.commits(), hub.stored());
        assert_eq!(here.push(&files).unwrap(), None);
        std::fs::write(dir.path().join("config.toml"), "a = 2\n").unwrap();
        here.push(&model_again(&files)).unwrap().unwrap();
        assert_eq!((hub.commits(), hub.stored()), (commits + 1, stored));
        assert_eq!(hub.files("me/net@main")["config.toml"].content, b"a = 2\n");
        let newer = there.fetch("hub:me/net").unwrap();
        assert!(newer != folder && std::fs::read(newer.join("config.toml")).unwrap() == b"a = 2\n");
        // A branch of its own.
        here.push_to(&files[..1], "v2").unwrap();
        assert!(hub.files("me/net@v2").len() >= 4);
    }
}

/// The files as they are now.
fn model_again(files: &[Outgoing]) -> Vec<Outgoing> {
    files.iter().map(|file| Outgoing::read(&file.name, &file.path).unwrap()).collect()
}

#[test]
fn an_interrupted_push_sends_what_is_missing() {
    let puts = Mutex::new(0);
    let hub = TestHub::start(guarded(Rules {
        interfere: Some(Box::new(move |request, reply| {
            let mut puts = puts.lock().unwrap();
            *puts += usize::from(request.method == "PUT");
            let cut = request.method == "PUT" && *puts == 2;
            if cut {
                reply.head("403 Forbidden", &["Content-Length: 0"]);
            }
            cut
        })),
        ..Rules::default()
    }));
    let (dir, here) = (tempfile::tempdir().unwrap(), Place::new(&hub.hub, WITH_TOKEN));
    let files = model(dir.path());
    let error = here.push(&files).unwrap_err();
    assert!(matches!(error, Error::Refused { status: 403, .. }), "{error}");
    assert!(hub.files("me/net@main").is_empty(), "nobody sees a part of a model");
    here.push(&files).unwrap().unwrap();
    assert_eq!(hub.files("me/net@main").len(), 4);
    // The one that was refused was sent twice, the other once.
    let lengths: Vec<usize> =
        hub.storage.requests().iter().filter(|r| r.method == "PUT").map(|r| r.body.len()).collect();
    assert!(lengths.len() == 3 && lengths[1] == lengths[2] && lengths[0] != lengths[1], "{lengths:?}");
}

#[test]
fn a_busy_hub_is_asked_again() {
    let seen = Mutex::new(BTreeMap::<String, u32>::new());
    let hub = TestHub::start(guarded(Rules {
        chunk: Some(200_000),
        interfere: Some(Box::new(move |request, reply| {
            let mut seen = seen.lock().unwrap();
            let count = seen.entry(format!("{} {}", request.method, request.path)).or_default();
            *count += 1;
            if *count == 1 {
                reply.head("503 Service Unavailable", &["Content-Length: 0"]);
            }
            *count == 1
        })),
        ..Rules::default()
    }));
    let (dir, here) = (tempfile::tempdir().unwrap(), Place::new(&hub.hub, WITH_TOKEN));
    let files = model(dir.path());
    here.push(&files).unwrap().unwrap();
    let folder = here.fetch("hub:me/net").unwrap();
    for file in &files {
        assert!(std::fs::read(folder.join(&file.name)).unwrap() == std::fs::read(&file.path).unwrap());
    }
    hub.assert_discreet();
}

#[test]
fn refusals_say_what_to_do_and_tell_no_token() {
    let hub = TestHub::start(guarded(Rules::default()));
    hub.put("me/net@main", &[("config.toml", b"")]);
    let dir = tempfile::tempdir().unwrap();
    let files = model(dir.path());
    let nobody = Place::new(&hub.hub, &[]);
    let error = nobody.fetch("hub:me/net").unwrap_err();
    assert!(
        error.to_string().contains("hub:me/net@main: ") && error.to_string().contains("HF_TOKEN"),
        "{error}"
    );
    let asked = hub.hub.requests().len();
    let error = nobody.push(&files).unwrap_err();
    assert!(matches!(error, Error::NoToken { .. }) && error.to_string().contains("HF_TOKEN"), "{error}");
    assert_eq!(hub.hub.requests().len(), asked, "nothing is asked without a token");
    let known = Place::new(&hub.hub, WITH_TOKEN);
    for absent in ["hub:me/other", "hub:me/net@v9"] {
        let error = known.fetch(absent).unwrap_err();
        assert!(matches!(error, Error::Refused { status: 404, .. }), "{error}");
    }
    let offline = Place::new(&hub.hub, &[("HF_HUB_OFFLINE", "1")]);
    let error = offline.fetch("hub:me/net").unwrap_err().to_string();
    assert!(error.contains("models--me--net/refs/main") && error.contains("HF_HUB_OFFLINE"), "{error}");

    // One that says to whom it says no.
    let echo = TestHub::start(Rules {
        interfere: Some(Box::new(|request, reply| {
            let said = json!({ "error": format!("no\nto {:?}", request.authorization) }).to_string();
            reply.head("403 Forbidden", &[&format!("Content-Length: {}", said.len())]);
            reply.body(said.as_bytes())
        })),
        ..Rules::default()
    });
    let error = Place::new(&echo.hub, WITH_TOKEN).push(&files).unwrap_err().to_string();
    assert!(error.contains("403") && error.contains("noto") && !error.contains(TOKEN), "{error}");
}

/// A hub that answers with `interfere` alone where that does.
fn hostile(interfere: impl Fn(&Request, &mut Reply) -> bool + Send + Sync + 'static) -> TestHub {
    TestHub::start(Rules { interfere: Some(Box::new(interfere)), ..Rules::default() })
}

#[test]
fn what_is_sent_follows_no_redirect() {
    let other = Server::start(|_, reply| reply.head("200 OK", &["Content-Length: 0"]));
    let location = format!("Location: {}?{TOKEN}", other.url("api"));
    let hub = hostile(move |request, reply| {
        let post = request.method == "POST";
        if post {
            reply.head("307 Temporary Redirect", &[&location, "Content-Length: 0"]);
        }
        post
    });
    let dir = tempfile::tempdir().unwrap();
    let error = Place::new(&hub.hub, WITH_TOKEN).push(&model(dir.path())).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }) && error.to_string().contains("moved"), "{error}");
    assert!(other.requests().is_empty() && !error.to_string().contains(TOKEN));
    // A question follows one, and the token stays behind.
    let location = format!("Location: {}", other.url("list"));
    let hub = hostile(move |_, reply| {
        reply.head("302 Found", &[&location, "Content-Length: 0"]);
        true
    });
    Place::new(&hub.hub, WITH_TOKEN).fetch("hub:me/net").unwrap_err();
    let asked = other.requests();
    assert!(asked.len() == 1 && asked[0].authorization.is_none(), "{asked:?}");
    // Nor does it go as a part of the address.
    let location = format!("Location: {}", other.url(TOKEN));
    let hub = hostile(move |_, reply| {
        reply.head("302 Found", &[&location, "Content-Length: 0"]);
        true
    });
    let error = Place::new(&hub.hub, WITH_TOKEN).fetch("hub:me/net").unwrap_err().to_string();
    assert!(error.contains("holds the token") && !error.contains(TOKEN), "{error}");
    assert_eq!(other.requests().len(), 1);
}

#[test]
fn large_files_go_nowhere_else() {
    let sent = sha256(&content(LEN));
    let actions = [
        json!({ "upload": { "href": "http://example.org/x", "header": {} } }),
        json!({ "upload": { "href": "file:///tmp/x" } }),
        json!({ "upload": { "href": "http://127.0.0.1:1/x", "header": { "chunk_size": "0" } } }),
        json!({ "upload": { "href": "http://127.0.0.1:1/x", "header": { "chunk_size": "1" } } }),
        json!({ "upload": { "href": "http://127.0.0.1:1/x", "header": { "chunk_size": 200_000, "1": "http://127.0.0.1:1/1" } } }),
        json!({ "upload": { "href": "http://127.0.0.1:1/x", "header": { "bad\nname": "x" } } }),
    ];
    for action in actions {
        let answer = json!({ "objects": [{ "oid": sent, "size": LEN, "actions": action }] }).to_string();
        let hub = hostile(move |request, reply| {
            let batch = request.path.ends_with("/objects/batch");
            if batch {
                reply.head("200 OK", &[&format!("Content-Length: {}", answer.len())]);
                reply.body(answer.as_bytes());
            }
            batch
        });
        let dir = tempfile::tempdir().unwrap();
        let error = Place::new(&hub.hub, WITH_TOKEN).push(&model(dir.path())[..1]).unwrap_err();
        assert!(matches!(error, Error::Insecure { .. } | Error::Protocol { .. }), "{action}: {error}");
        assert!(hub.storage.requests().is_empty() && hub.files("me/net@main").is_empty());
    }
}

#[test]
fn only_a_models_files_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, "x").unwrap();
    for name in ["weights.pth", "../a.json", "/a.json", "a b.md", "x\u{301}.md", ".safetensors/../a"] {
        assert!(matches!(Outgoing::read(name, &path), Err(Error::NotSent { .. })), "{name}");
    }
    Outgoing::read("a/b.safetensors", &path).unwrap();
}

#[test]
fn a_list_that_leads_elsewhere_is_refused() {
    for name in ["../../evil.json", "/tmp/evil.toml", "a/../../evil.md", "..\\evil.safetensors", "./a.json"] {
        let list =
            json!({ "sha": "0".repeat(40), "siblings": [{ "rfilename": name, "size": 1, "blobId": "a" }] });
        let list = list.to_string();
        let hub = hostile(move |_, reply| {
            reply.head("200 OK", &[&format!("Content-Length: {}", list.len())]);
            reply.body(list.as_bytes())
        });
        let place = Place::new(&hub.hub, &[]);
        let error = place.fetch("hub:me/net").unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }) && error.to_string().contains("no place"), "{error}");
        assert_eq!((hub.hub.requests().len(), place.files().len()), (1, 0), "{name}");
    }
}

#[test]
fn lists_that_are_none_are_refused() {
    let commit = "0".repeat(40);
    let many: Vec<_> = (0..300).map(|i| json!({ "rfilename": format!("{i}.json"), "size": 1 })).collect();
    let lists = [
        "{}".to_owned(),
        "[".to_owned(),
        json!({ "sha": "../../x", "siblings": [] }).to_string(),
        json!({ "sha": commit, "siblings": many }).to_string(),
        json!({ "sha": commit, "siblings": [{ "rfilename": "a.json" }] }).to_string(),
        json!({ "sha": commit, "siblings": [{ "rfilename": "a.safetensors", "size": u64::MAX }] })
            .to_string(),
    ];
    for list in lists {
        let shown = list.clone();
        let hub = hostile(move |_, reply| {
            reply.head("200 OK", &[&format!("Content-Length: {}", list.len())]);
            reply.body(list.as_bytes())
        });
        let place = Place::new(&hub.hub, &[]);
        let error = place.fetch("hub:me/net").unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{shown}: {error}");
        assert!(place.files().is_empty());
    }
}

/// A hub with a large and a small file, of which `spoil` answers for the content.
fn spoilt(spoil: impl Fn(&Request, &mut Reply) -> bool + Send + Sync + 'static) -> (TestHub, Vec<u8>) {
    let (hub, whole) = (hostile(spoil), content(LEN));
    hub.put("me/net@main", &[("model.safetensors", &whole), ("config.toml", b"a = 1\n"), ("code.py", b"x")]);
    (hub, whole)
}

#[test]
fn other_content_than_the_list_says_never_gets_a_name() {
    let (hub, _) = spoilt(|request, reply| {
        let large = request.path.starts_with("/cdn/");
        if large {
            let mut wrong = content(LEN);
            wrong[7] ^= 1;
            reply.good(request, &wrong);
        }
        large
    });
    let place = Place::new(&hub.hub, &[]);
    let error = place.fetch("hub:me/net").unwrap_err();
    assert!(matches!(error, Error::WrongHash { .. }), "{error}");
    assert!(place.files().iter().all(|file| !file.contains("model.safetensors")), "{:?}", place.files());

    // Of a small file, which git's hash names.
    let (hub, _) = spoilt(|request, reply| {
        let small = request.path.ends_with("/config.toml");
        if small {
            let commit = format!("X-Repo-Commit: {}", "0".repeat(40));
            let tag = format!("ETag: \"{}\"", git_id(b"a = 1\n"));
            reply.head("200 OK", &[&commit, &tag, "Content-Length: 6"]);
            reply.body(b"a = 9\n");
        }
        small
    });
    let place = Place::new(&hub.hub, &[]);
    let error = place.fetch("hub:me/net").unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    assert!(place.files().iter().all(|file| !file.contains("config.toml")), "{:?}", place.files());
    assert!(
        hub.hub.requests().iter().all(|request| !request.path.contains("code.py")),
        "code is not fetched"
    );
}

#[test]
fn a_body_of_another_length_is_refused() {
    let (hub, _) = spoilt(|request, reply| {
        let large = request.path.starts_with("/cdn/");
        if large {
            reply.head("200 OK", &[&format!("Content-Length: {}", u64::MAX / 4)]);
        }
        large
    });
    let error = Place::new(&hub.hub, &[]).fetch("hub:me/net").unwrap_err();
    assert!(matches!(error, Error::Size { expected, .. } if expected == LEN as u64), "{error}");

    let (hub, _) = spoilt(|request, reply| {
        let large = request.path.starts_with("/cdn/");
        if large {
            let whole = content(LEN);
            let body = reply.good_head(request, &whole, "\"a\"");
            reply.body(&body[..body.len().min(1000)]);
        }
        large
    });
    let place = Place::new(&hub.hub, &[]);
    let error = place.fetch("hub:me/net").unwrap_err();
    let Error::GaveUp { last, .. } = &error else { panic!("{error}") };
    assert!(matches!(**last, Error::ShortBody { .. }), "{error}");
    assert!(place.files().iter().all(|file| !file.contains("model.safetensors")), "{:?}", place.files());
}
