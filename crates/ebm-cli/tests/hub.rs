//! Predictions with `hub:OWNER/NAME` equal predictions with the run on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use crate::common::program::{command, in_tree, said, text, texts};
use crate::hub_server::TestHub;
use ebm_testing::files;

const TOKEN: &str = "hf_secret";

/// A user of a hub, with a home of their own.
struct User<'a> {
    home: &'a Path,
    hub: &'a TestHub,
    token: Option<&'a str>,
}

impl User<'_> {
    fn ebm(&self, args: &[&str]) -> Output {
        let mut command = command(args);
        for variable in ["HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN"] {
            command.env_remove(variable);
        }
        command.env("HF_HOME", self.home).env("HF_ENDPOINT", &self.hub.hub.address);
        command.envs(self.token.map(|token| ("HF_TOKEN", token)));
        let output = command.output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(TOKEN), "{args:?} tells the token");
        output
    }

    fn says(&self, args: &[&str]) -> String {
        let [printed, _] = texts(self.ebm(args));
        printed
    }

    fn fails(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.ebm(args);
        assert!(!output.status.success(), "{args:?}");
        (output.status.code(), said(&output))
    }
}

fn hub() -> TestHub {
    TestHub::start(Some(TOKEN), |_, _| false)
}

/// Puts the run at `local`, a file or a folder, into the hub as `repo`.
fn publish(hub: &TestHub, local: &Path, repo: &str) {
    let files = if local.is_file() {
        let name = local.file_name().unwrap().to_str().unwrap().to_owned();
        BTreeMap::from([(name, std::fs::read(local).unwrap())])
    } else {
        files::below(local)
    };
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    hub.put(&format!("{repo}@main"), &files);
}

#[test]
fn what_is_in_the_hub_predicts_the_same() {
    let (hub, dir) = (hub(), tempfile::tempdir().unwrap());
    let user = User { home: &dir.path().join("home"), hub: &hub, token: Some(TOKEN) };
    let at = |name: &str| dir.path().join(name).display().to_string();
    // That `command` says the same of the hub's model as of the one at `local`, after which `option` names it.
    let same = |command: &[&str], option: &str, local: &Path, repo: &str| {
        publish(&hub, local, repo);
        let of = |model: &str| user.says(&[command, &[option, model]].concat());
        let local = of(text(local));
        assert!(!local.is_empty());
        assert_eq!(of(&format!("hub:{repo}")), local, "{command:?}");
        assert_eq!(of(&format!("hub:{repo}@main")), local, "{command:?}");
    };

    // A table.
    let rows = |rows: std::ops::Range<usize>| {
        let row = |k: usize| format!("{},{}\n", k % 17, 3 * (k % 17) + k % 5);
        format!("x,y\n{}", rows.map(row).collect::<String>())
    };
    std::fs::write(at("data.csv"), rows(0..120)).unwrap();
    std::fs::write(at("new.csv"), rows(120..140)).unwrap();
    let short = ["--set", "training.steps=40", "--set", "members=2"];
    user.says(&[&["fit", &at("data.csv"), "--target", "y", "--run", &at("fit")][..], &short].concat());
    same(&["predict", "table", &at("new.csv")], "--run", &dir.path().join("fit"), "me/table");

    // Ages: heads in folders of their own, on one backbone.
    let photo = ebm_testing::fixture("coco/val2017/000000168974.jpg");
    same(&["predict", "age", text(&photo)], "--run", &in_tree("weights/age"), "me/age");

    // A detector in a file, of another name than the usual one.
    let detect = ["predict", "detection", text(&photo), "--min-score", "0"];
    same(&detect, "--detector", &in_tree("weights/detector_mini.safetensors"), "me/detector");
    hub.assert_discreet();
}

#[test]
fn errors_say_what_to_do() {
    let (hub, dir) = (hub(), tempfile::tempdir().unwrap());
    let user = User { home: dir.path(), hub: &hub, token: None };
    let (code, said) = user.fails(&["predict", "table", text(dir.path()), "--run", "hub:../net"]);
    assert!(code == Some(2) && said.contains("hub:OWNER/NAME"), "{said}");
    let photo = ebm_testing::fixture("coco/val2017/000000168974.jpg");
    let predict = ["predict", "detection", text(&photo), "--detector"];
    let (_, said) = user.fails(&[&predict[..], &["hub:me/net"]].concat());
    assert!(said.contains("answers 401") && said.contains("HF_TOKEN"), "{said}");
    let known = User { token: Some(TOKEN), ..user };
    let (_, said) = known.fails(&[&predict[..], &["hub:me/net"]].concat());
    assert!(said.contains("answers 404"), "{said}");
    hub.put("me/net@main", &[("a.safetensors", b"a"), ("b.safetensors", b"b")]);
    let (_, said) = known.fails(&[&predict[..], &["hub:me/net"]].concat());
    assert!(said.contains("hub:me/net/a.safetensors"), "{said}");
    // What went is not understood.
    let (code, said) = known.fails(&["weights", "push", text(dir.path())]);
    assert!(code == Some(2) && said.contains("unrecognized subcommand"), "{said}");
}
