//! Every command of the book, of README.md and of the crates' pages, in a folder that looks like a clone: run, in small
//! where its page says so, or parsed. [`page::commands`] has what pages say of their commands.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's failure is its report")]

#[path = "book/page.rs"]
mod page;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use page::Fate;

/// What a clone has that commands read.
const CLONED: [&str; 4] = ["crates", "docs", "examples", "weights"];

/// `ebm`, with what the page says in the place of its options, and settings beside its settings; where it is only to be parsed, with a number of threads that is refused
/// after the command line was understood, and before anything is done.
const EBM: &str = r#"
if [ -n "$BOOK_PARSE" ]; then
  said=$(RAYON_NUM_THREADS=100000 "$BOOK_EBM" "$@" 2>&1) && exit 0
  case $said in *"RAYON_NUM_THREADS is 100000"*) exit 0 ;; esac
  printf '%s\n' "$said" >&2
  exit 2
fi
while IFS=$'\t' read -r begins more; do
  case "ebm $* " in "$begins "*) ;; *) continue ;; esac
  eval "more=($more)"
  kept=() skip=
  for word; do
    if [ -z "$skip" ] || [[ $word = --* ]]; then
      skip=
      for option in "${more[@]}"; do
        [[ $option = --* && $option != --set && $option = "$word" ]] && skip=1
      done
      [ -n "$skip" ] || kept+=("$word")
    else
      skip=
    fi
  done
  set -- "${kept[@]}" "${more[@]}"
done <<<"$BOOK_MORE"
exec "$BOOK_EBM" "$@"
"#;

/// `cargo xtask`, as far as it becomes `ebm`.
const CARGO: &str = r#"
case "$1 $2" in
"xtask reproduce") shift; exec ebm "$@" ;;
"xtask download") shift 2; exec ebm data get "$@" ;;
esac
echo "cargo $*: this is not run from a page; mark its block" >&2
exit 1
"#;

/// A launcher of several processes, of which one is parsed.
const LAUNCHER: &str = r#"
while [ "$1" != ebm ]; do shift; done
exec "$@"
"#;

/// A folder that looks like a clone, with programs in front of the others.
struct Clone {
    folder: tempfile::TempDir,
    programs: tempfile::TempDir,
    launcher: Option<PathBuf>,
}

impl Clone {
    fn new(root: &Path, launcher: Option<PathBuf>) -> Self {
        let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in CLONED {
            symlink(root.join(name), folder.path().join(name)).unwrap();
        }
        std::fs::create_dir(folder.path().join("datasets")).unwrap();
        for name in ["run", "parse"] {
            std::fs::create_dir(programs.path().join(name)).unwrap();
        }
        let scripts = [("run/ebm", EBM), ("run/cargo", CARGO), ("parse/ebm", EBM), ("parse/cargo", CARGO)];
        let launchers = ["parse/mpiexec", "parse/srun", "parse/torchrun"].map(|name| (name, LAUNCHER));
        for (name, script) in scripts.into_iter().chain(launchers) {
            let path = programs.path().join(name);
            std::fs::write(&path, format!("#!/usr/bin/env bash{script}")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder, programs, launcher }
    }

    /// Runs or parses a command; what it said, if it failed.
    fn does(&self, command: &page::Command) -> Result<(), String> {
        let parse = matches!(command.fate, Fate::Parsed(_));
        let mut shell = Command::new("timeout");
        let mut path = OsString::from(self.programs.path().join(if parse { "parse" } else { "run" }));
        if let Some(launcher) = self.launcher.as_ref().filter(|_| !parse) {
            shell.envs(
                ebm_testing::mpi::mpiexec(launcher)
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            shell.env_remove("RAYON_NUM_THREADS");
            path.push(":");
            path.push(launcher.parent().unwrap());
        }
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let more: Vec<String> =
            command.more.iter().map(|(begins, more)| format!("{begins}\t{more}")).collect();
        shell.args(["300", "bash", "-euo", "pipefail", "-c", &command.text]);
        shell.current_dir(self.folder.path()).env("HOME", self.folder.path()).env("PATH", path);
        shell.env("BOOK_EBM", env!("CARGO_BIN_EXE_ebm")).env("BOOK_MORE", more.join("\n"));
        shell.env("BOOK_PARSE", if parse { "1" } else { "" });
        shell.stdin(Stdio::null());
        let output = shell.output().unwrap();
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let end: Vec<&str> = said.lines().rev().take(12).collect();
        Err(format!("{}\n{}", output.status, end.into_iter().rev().collect::<Vec<_>>().join("\n")))
    }
}

/// `EBM_BOOK` takes only pages whose names hold it.
#[test]
fn every_command_of_the_book_is_tried() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let asked = std::env::var("EBM_BOOK").unwrap_or_default();
    let launcher = ebm_testing::mpi::launchers().into_iter().next();
    let (mut failed, mut counts, mut reasons) = (Vec::new(), [0; 4], BTreeMap::<String, usize>::new());
    let mut report = String::new();
    for name in page::pages(&root).into_iter().filter(|name| name.contains(&asked)) {
        let (commands, wrong) = page::commands(&name, &std::fs::read_to_string(root.join(&name)).unwrap());
        failed.extend(wrong);
        let (clone, start) = (Clone::new(&root, launcher.clone()), Instant::now());
        for mut command in commands {
            let launched = command.text.starts_with("mpiexec ");
            if launched && launcher.is_none() && command.fate == Fate::Run {
                command.fate = Fate::Parsed("there is no MPI here".to_owned());
            }
            let kind = match &command.fate {
                Fate::Run => 0,
                Fate::Prepared => 3,
                Fate::Parsed(why) => {
                    *reasons.entry(format!("parsed: {why}")).or_default() += 1;
                    1
                }
                Fate::Not(why) => {
                    *reasons.entry(format!("not run: {why}")).or_default() += 1;
                    2
                }
            };
            counts[kind] += 1;
            if kind != 2 {
                let began = Instant::now();
                if let Err(said) = clone.does(&command) {
                    failed.push(format!("{name}:{}: {}\n{said}", command.line, command.text));
                }
                let seconds = began.elapsed().as_secs_f64();
                if seconds > 5.0 {
                    report += &format!("  {seconds:.0} s  {name}:{}: {}\n", command.line, command.text);
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        if seconds > 5.0 {
            report += &format!("  {seconds:.0} s  {name}\n");
        }
    }
    for (why, count) in reasons {
        report += &format!("  {count} {why}\n");
    }
    let [run, parsed, not, _] = counts;
    let text = format!("the book: {run} commands run, {parsed} parsed, {not} not run\n{report}");
    // Past libtest's capture: how many there are is what one looks for.
    std::io::stderr().lock().write_all(text.as_bytes()).unwrap();
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n\n"));
    assert!(!asked.is_empty() || (run > 60 && parsed > 100), "{run} commands run, {parsed} parsed");
}

#[test]
fn a_page_says_what_comes_of_its_commands() {
    let text = "<!-- ci\nebm fit: --set members=1\n$ mv a b\n-->\n```sh\n# a comment\nebm fit x \\\n    --run r\n```\n\n\
                <!-- ci: not run: long -->\n```sh\ncargo build\n```\nby: ebm fit y\nby: python z\n";
    let (commands, wrong) = page::commands("page", text);
    assert!(wrong.is_empty(), "{wrong:?}");
    let made = Fate::Parsed("what a table was made with".to_owned());
    let fates = [Fate::Prepared, Fate::Run, Fate::Not("long".to_owned()), made];
    assert_eq!(
        commands.iter().map(|command| &command.fate).collect::<Vec<_>>(),
        fates.iter().collect::<Vec<_>>()
    );
    assert_eq!((commands[1].line, commands[1].text.as_str()), (7, "ebm fit x --run r"));
    assert_eq!(commands[1].more, [("ebm fit".to_owned(), "--set members=1".to_owned())]);
    for wrong in [
        "```\nebm fit\n```",
        "```text\nebm fit\n```",
        "<!-- ci: parsed: why -->\nText.",
        "<!-- ci: skipped: why -->\n",
        "<!-- ci\nebm fit\n-->",
    ] {
        assert_eq!(page::commands("page", wrong).1.len(), 1, "{wrong}");
    }
}

/// What is stale fails, run or parsed, and what a page adds takes the place of what it shows.
#[test]
fn a_stale_command_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let clone = Clone::new(&root, None);
    let tried = |text: &str, fate: Fate, more: &str| {
        let more = vec![("ebm data scenes".to_owned(), more.to_owned())];
        clone.does(&page::Command { line: 1, text: text.to_owned(), fate, more })
    };
    let parsed = || Fate::Parsed("why".to_owned());
    assert!(tried("ebm data scenes --out gone --count 9", parsed(), "--count 2").is_ok());
    assert!(!clone.folder.path().join("gone").exists());
    for stale in [
        "ebm data scene --out a",
        "ebm data scenes --outs a",
        "ebm data scenes",
        "cargo xtask reproduce toys",
    ] {
        assert!(tried(stale, parsed(), "--count 2").is_err(), "{stale}");
    }
    assert!(tried("ebm data check coco gone.json --images gone", Fate::Run, "").is_err());
    assert!(tried("ebm data scenes --count 9 --out made", Fate::Run, "--count 2").is_ok());
    assert_eq!(clone.folder.path().join("made/images").read_dir().unwrap().count(), 2);
}
