//! The Hugging Face Hub: files and models through the shared cache, the token, and hubs that misbehave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebm_data::Error;
use ebm_data::fetch::{Hub, snapshot};
use serde_json::json;

use crate::hub_server::{Interfere, TestHub, answer};
use crate::{content, names, options, sha256};

const LEN: usize = 300_000;
const TOKEN: &str = "hf_secret";

/// A home for a cache, and the way to a hub.
struct Place {
    home: tempfile::TempDir,
    hub: Hub,
}

impl Place {
    fn new(hub: &TestHub, more: &[(&str, &str)]) -> Self {
        Self::in_home(tempfile::tempdir().unwrap(), hub, more)
    }

    fn in_home(home: tempfile::TempDir, hub: &TestHub, more: &[(&str, &str)]) -> Self {
        let path = home.path().display().to_string();
        let mut variables = BTreeMap::from([("HF_HOME", path.as_str()), ("HF_ENDPOINT", &hub.hub.address)]);
        variables.extend(more.iter().copied());
        let hub = Hub::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()));
        Self { hub: hub.unwrap(), home }
    }

    fn fetch(&self, model: &str) -> Result<PathBuf, Error> {
        snapshot(&model.parse().unwrap(), &self.hub, &options(), &mut |_| {})
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("hub/models--me--net")
    }
}

fn hub(token: Option<&'static str>, interfere: Interfere) -> (TestHub, Vec<u8>) {
    let (hub, whole) = (TestHub::start(token, interfere), content(LEN));
    let files: [(&str, &[u8]); 4] = [
        ("model.safetensors", &whole),
        ("below/a b#1.safetensors", b"trunk"),
        ("config.toml", b"a = 1\n"),
        ("code.py", b"x"),
    ];
    hub.put("me/net@main", &files);
    (hub, whole)
}

#[test]
fn a_model_comes_into_the_shared_cache_and_needs_no_network_then() {
    let (hub, whole) = hub(Some(TOKEN), |_, _| false);
    let place = Place::new(&hub, &[("HF_TOKEN", "hf_secret\n")]);
    let folder = place.fetch("hub:me/net").unwrap();
    assert!(std::fs::read(folder.join("model.safetensors")).unwrap() == whole);
    assert_eq!(std::fs::read(folder.join("config.toml")).unwrap(), b"a = 1\n");
    assert_eq!(std::fs::read(folder.join("below/a b#1.safetensors")).unwrap(), b"trunk");
    assert!(!folder.join("code.py").exists(), "code is not fetched");
    assert_eq!(place.fetch("hub:me/net@main/below").unwrap(), folder.join("below"));
    let error = place.fetch("hub:me/net/elsewhere").unwrap_err();
    assert!(matches!(error, Error::Failure(..)) && error.to_string().contains("no such file"), "{error}");
    assert_eq!(hub.storage.requests().len(), 2, "what is in the cache is not fetched again");
    hub.assert_discreet();
    assert_eq!(std::fs::read_to_string(place.root().join("refs/main")).unwrap(), format!("{:040x}", 0));
    #[cfg(unix)]
    assert_eq!(
        std::fs::read_link(folder.join("model.safetensors")).unwrap(),
        Path::new("../../blobs").join(sha256(&whole))
    );
    let asked = hub.hub.requests().len();
    let offline = Place::in_home(place.home, &hub, &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(offline.fetch("hub:me/net").unwrap(), folder);
    let error = offline.fetch("hub:me/other").unwrap_err().to_string();
    assert!(error.contains("hub:me/other@main") && error.contains("HF_HUB_OFFLINE"), "{error}");
    assert_eq!(hub.hub.requests().len(), asked);
}

#[test]
fn a_large_file_goes_on_where_it_broke() {
    // The first answer with the content is cut: its reader goes on from there.
    let (hub, whole) = hub(None, |request, reply| {
        let cut = request.path == format!("/cdn/{}", sha256(&content(LEN))) && request.range.is_none();
        if cut {
            let whole = content(LEN);
            reply.good_head(request, &whole);
            reply.body(&whole[..LEN / 2]);
        }
        cut
    });
    hub.put("me/net@main", &[("model.safetensors", &whole)]);
    let place = Place::new(&hub, &[]);
    let file = place.fetch("hub:me/net/model.safetensors").unwrap();
    assert!(std::fs::read(&file).unwrap() == whole);
    assert_eq!((hub.storage.sent(), names(&place.root().join("blobs"))), (LEN as u64, vec![sha256(&whole)]));
}

#[test]
fn refusals_say_what_to_do_and_tell_no_token() {
    let (hub, _) = hub(Some(TOKEN), |_, _| false);
    for (token, model, words) in [
        ("", "hub:me/net", ["hub:me/net@main: ", "answers 401", "HF_TOKEN"]),
        (TOKEN, "hub:me/other", ["hub:me/other@main: ", "answers 404", "its page"]),
        (TOKEN, "hub:me/net@v9", ["hub:me/net@v9: ", "answers 404", "its page"]),
        ("hf_sec\nret", "hub:me/net", ["the token in HF_TOKEN", "a character", "set it again"]),
    ] {
        let error = Place::new(&hub, &[("HF_TOKEN", token)]).fetch(model).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains("hf_sec"), "{error}");
    }
    hub.assert_discreet();
}

#[test]
fn other_content_than_the_hub_states_never_gets_its_name() {
    let spoilers: [Interfere; 2] = [
        |request, reply| {
            let large = request.path.starts_with("/cdn/");
            if large {
                let mut wrong = content(LEN);
                wrong[7] ^= 1;
                reply.good(request, &wrong);
            }
            large
        },
        |request, reply| {
            let small = request.path.ends_with("/config.toml");
            if small {
                reply.good(request, b"a = 9\n");
            }
            small
        },
    ];
    for (spoil, name) in spoilers.into_iter().zip(["model.safetensors", "config.toml"]) {
        let (hub, whole) = hub(None, spoil);
        let published: &[u8] = if name == "config.toml" { b"a = 1\n" } else { &whole };
        hub.put("me/net@main", &[(name, published)]);
        let place = Place::new(&hub, &[]);
        let error = place.fetch("hub:me/net").unwrap_err();
        assert!(matches!(error, Error::Data(..)), "{error}");
        assert_eq!(names(&place.root().join("blobs")), [""; 0]);
        assert!(!place.root().join("snapshots").exists());
    }
}

#[test]
fn a_list_that_leads_elsewhere_is_refused_before_anything_is_fetched() {
    let (hub, _) = hub(None, |request, reply| {
        let name = ["../../evil.json", "/tmp/evil.toml", "..\\evil.safetensors"][request.number % 3];
        let file = json!({ "rfilename": name, "size": 1, "blobId": "a".repeat(40) });
        answer(reply, "200 OK", &json!({ "sha": "0".repeat(40), "siblings": [file] }));
        true
    });
    for asked in 1..=3 {
        let place = Place::new(&hub, &[]);
        let error = place.fetch("hub:me/net").unwrap_err();
        assert!(error.to_string().contains("leads out of its folder"), "{error}");
        assert_eq!((hub.hub.requests().len(), names(place.home.path()).len()), (asked, 0));
    }
}
