//! `ebm weights push`, and what predictions make of `hub:OWNER/NAME`: the same as of the run on this machine.

#[path = "../../ebm-data/tests/fetch/hub_server.rs"]
mod hub_server;
use crate::server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hub_server::{Rules, TestHub};

const TOKEN: &str = "hf_secret";

fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A user of a hub, with a home of their own.
struct User<'a> {
    home: &'a Path,
    hub: &'a TestHub,
    token: Option<&'a str>,
}

impl User<'_> {
    fn ebm(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebm"));
        for variable in ["HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN"] {
            command.env_remove(variable);
        }
        command.env("HF_HOME", self.home).env("HF_ENDPOINT", &self.hub.hub.address).args(args);
        command.envs(self.token.map(|token| ("HF_TOKEN", token)));
        let output = command.output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(TOKEN), "{args:?} tells the token");
        output
    }

    fn says(&self, args: &[&str]) -> String {
        let output = self.ebm(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.ebm(args);
        assert!(!output.status.success(), "{args:?}");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn hub() -> TestHub {
    TestHub::start(Rules { token: Some(TOKEN), chunk: Some(1 << 20), ..Rules::default() })
}

/// That `command` says the same of the hub's model as of the one at `local`, after which `option` names it.
fn same(user: &User<'_>, command: &[&str], option: &str, local: &str, repo: &str) {
    let of = |model: &str| user.says(&[command, &[option, model]].concat());
    let local = of(local);
    assert!(!local.is_empty());
    assert_eq!(of(&format!("hub:{repo}")), local, "{command:?}");
    assert_eq!(of(&format!("hub:{repo}@main")), local, "{command:?}");
}

#[test]
fn what_was_pushed_predicts_the_same() {
    let (hub, dir) = (hub(), tempfile::tempdir().unwrap());
    let user = User { home: &dir.path().join("home"), hub: &hub, token: Some(TOKEN) };
    let at = |name: &str| dir.path().join(name).display().to_string();
    let push = |run: &str, repo: &str| user.says(&["weights", "push", run, "--repo", repo]);

    // A table.
    let rows = |rows: std::ops::Range<usize>| {
        let row = |k: usize| format!("{},{}\n", k % 17, 3 * (k % 17) + k % 5);
        format!("x,y\n{}", rows.map(row).collect::<String>())
    };
    std::fs::write(at("data.csv"), rows(0..120)).unwrap();
    std::fs::write(at("new.csv"), rows(120..140)).unwrap();
    let short = ["--set", "training.steps=40", "--set", "members=2"];
    user.says(&[&["fit", &at("data.csv"), "--target", "y", "--run", &at("fit")][..], &short].concat());
    let page = push(&at("fit"), "me/table");
    assert!(page.starts_with("https://huggingface.co/me/table/commit/"), "{page}");
    let names: Vec<String> = hub.files("me/table@main").into_keys().collect();
    assert_eq!(names, ["member-0.safetensors", "member-1.safetensors", "regressor.json", "tabular.toml"]);
    same(&user, &["predict", "table", &at("new.csv")], "--run", &at("fit"), "me/table");
    assert_eq!(push(&at("fit"), "me/table"), "hub:me/table@main has all of it\n");

    // Ages: heads in folders of their own, on one backbone.
    let photo = ebm_testing::fixture("coco/val2017/000000168974.jpg");
    let ages = in_tree("weights/age");
    push(text(&ages), "me/age");
    assert!(hub.files("me/age@main").contains_key("ebm-0/model.safetensors"));
    same(&user, &["predict", "age", text(&photo)], "--run", text(&ages), "me/age");

    push(text(&ages.join("ebm-0")), "me/one");
    same(&user, &["predict", "age", text(&photo)], "--run", text(&ages.join("ebm-0")), "me/one");

    // A detector in a file, of another name than the usual one.
    let detector = in_tree("weights/detector_mini.safetensors");
    push(text(&detector), "me/detector");
    let detect = ["predict", "detection", text(&photo), "--min-score", "0"];
    same(&user, &detect, "--detector", text(&detector), "me/detector");

    // A tracker, whose backbone lies beside its folder.
    user.says(&["data", "videos", "--out", &at("videos"), "--count", "1", "--frames", "4"]);
    let video = std::fs::read_dir(at("videos")).unwrap().map(|entry| entry.unwrap().path());
    let video = video.into_iter().find(|path| path.is_dir()).unwrap();
    let tracker = in_tree("weights/tracker");
    push(text(&tracker), "me/tracker");
    let names: Vec<String> = hub.files("me/tracker@main").into_keys().collect();
    assert_eq!(names, ["model.safetensors", "refiner.safetensors"]);
    let truth = video.join("groundtruth_rect.txt");
    let track = ["track", text(&video), "--annotations", text(&truth), "--samples", "0"];
    same(&user, &track, "--run", text(&tracker), "me/tracker");
    // The refiner that it stands on is a model of its own, by its path.
    let refined = ["predict", "detection", text(&photo), "--refiner"];
    let local = user.says(&[&refined[..], &[text(&in_tree("weights/refiner.safetensors"))]].concat());
    let there = user.says(&[&refined[..], &["hub:me/tracker/refiner.safetensors"]].concat());
    assert_eq!(local, there);
    hub.assert_discreet();
}

#[test]
fn a_dry_run_asks_nobody() {
    let (hub, dir) = (hub(), tempfile::tempdir().unwrap());
    let user = User { home: dir.path(), hub: &hub, token: None };
    let run = in_tree("weights/tracker");
    let said = user.says(&["weights", "push", text(&run), "--repo", "me/tracker", "--dry-run"]);
    let size = std::fs::metadata(run.join("model.safetensors")).unwrap().len();
    let line = said.lines().find(|line| line.ends_with("  model.safetensors")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words[0].len() == 64 && words[1] == size.to_string(), "{line}");
    assert!(said.contains(&format!("to hub:me/tracker@main at {}", hub.hub.address)), "{said}");
    assert!(hub.hub.requests().is_empty() && hub.storage.requests().is_empty());
    assert_eq!(user.says(&["weights", "push", text(&run), "--repo", "me/tracker", "--dry-run"]), said);
}

#[test]
fn errors_say_what_to_do() {
    let (hub, dir) = (hub(), tempfile::tempdir().unwrap());
    let user = User { home: dir.path(), hub: &hub, token: None };
    let run = in_tree("weights/tracker");
    let push = ["weights", "push", text(&run), "--repo"];
    let (code, said) = user.fails(&[&push[..], &["me/tracker"]].concat());
    assert!(code == Some(1) && said.contains("set HF_TOKEN"), "{said}");
    let (code, said) = user.fails(&[&push[..], &["tracker"]].concat());
    assert!(code == Some(2) && said.contains("hub:OWNER/NAME"), "{said}");
    assert!(hub.hub.requests().is_empty());
    let (code, said) = user.fails(&["predict", "table", text(&run), "--run", "hub:../net"]);
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
    let (_, said) = known.fails(&["weights", "push", text(&in_tree("docs")), "--repo", "me/net"]);
    assert!(said.contains("no .safetensors file"), "{said}");
}
