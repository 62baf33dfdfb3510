//! Completions of shells, manual pages, and the long version.

use crate::common::program::{ebm, refused, succeeds, text};

use std::process::Command;

fn says(args: &[&str]) -> String {
    let [printed, _] = succeeds(args);
    printed
}

#[test]
fn every_shell_is_told_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = says(&["completions", shell]);
        for word in ["ebm", "predict", "detection", "--annotations"] {
            // Fish names options without their hyphens.
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell}: no {word}");
        }
        assert!(!script.contains("\\u{"), "{shell}: a control character was written out");
    }
    assert_eq!(ebm(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn bash_completes_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let asks = r#"COMP_WORDS=(ebm predict det) COMP_CWORD=2; _ebm ebm det predict; echo "${COMPREPLY[@]}""#;
    std::fs::write(&script, format!("{}\n{asks}\n", says(&["completions", "bash"]))).unwrap();
    let output = Command::new("bash").arg(&script).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "detection\n");
}

#[test]
fn every_command_has_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    assert!(says(&["man", "--out", text(&out)]).is_empty());
    let page = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(page("ebm.1"), says(&["man"]));
    let detector = page("ebm-train-detector.1");
    assert!(
        detector.starts_with(".ie \\n(.g .ds Aq") && detector.contains(".TH ebm-train-detector 1"),
        "{detector}"
    );
    assert!(detector.contains("\\-\\-max\\-bad\\-fraction"), "{detector}");
    assert!(page("ebm.1").contains("ebm\\-train(1)"));
    refused(&["man", "--out", "/dev/null"], &["/dev/null"]);
}

#[test]
fn the_long_version_says_what_the_program_is() {
    let (short, long) = (says(&["-V"]), says(&["--version"]));
    assert_eq!(short, format!("ebm {}\n", env!("CARGO_PKG_VERSION")));
    let value = |name: &str| {
        let line = long.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    };
    assert!(long.starts_with(&format!("ebm {}", env!("CARGO_PKG_VERSION"))));
    let head =
        Command::new("git").args(["rev-parse", "HEAD"]).output().ok().filter(|head| head.status.success());
    let head = head.map(|head| String::from_utf8(head.stdout).unwrap().trim().to_owned());
    let commit = std::env::var("EBM_COMMIT").ok().or(head).unwrap_or_else(|| "unknown".to_owned());
    assert_eq!(value("commit"), commit);
    assert_eq!(value("features"), if cfg!(feature = "cuda") { "cuda" } else { "none" });
    assert!(
        !value("SIMD").is_empty() && value("target").contains('-') && value("rustc").starts_with("rustc ")
    );
    assert!(value("candle").starts_with("0."));
}
