//! Every command of the book, of README.md and of the crates' pages, in a folder that looks like a clone: run, in small
//! where its page says so, or parsed. [`page::commands`] has what pages say of their commands.

#[path = "book/lacking.rs"]
mod lacking;
#[path = "book/page.rs"]
mod page;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use ebm_testing::mpi;
use page::Fate;

/// Launcher of several processes that readers use.
const MPI: &str = "mpiexec";

/// Folders of a clone that commands read.
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

/// Script in place of the launcher of several processes. It starts the command once, to be parsed.
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

    /// Whether a command can start this program.
    fn has(&self, program: &str) -> bool {
        let ours = self.programs.path().join("run").join(program).exists();
        ours || ebm_testing::program(&[program]).is_some() || (program == MPI && self.launcher.is_some())
    }

    /// Runs or parses a command; what it said, if it failed.
    fn does(&self, command: &page::Command) -> Result<(), String> {
        let parse = matches!(command.fate, Fate::Parsed(_));
        let mut shell = Command::new("timeout");
        let mut path = OsString::from(self.programs.path().join(if parse { "parse" } else { "run" }));
        if let Some(launcher) = self.launcher.as_ref().filter(|_| !parse) {
            shell.envs(mpi::mpiexec(launcher).get_envs().filter_map(|(name, value)| Some((name, value?))));
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

/// Results of the commands of some pages.
#[derive(Default)]
struct Tried {
    failed: Vec<String>,
    /// Run, parsed, not run, run to prepare others.
    counts: [usize; 4],
    reasons: BTreeMap<String, usize>,
    times: String,
    /// Commands that cannot run because a program is missing, by the program.
    lacking: BTreeMap<String, Vec<String>>,
}

impl Tried {
    /// Pages that start MPI, or the others; of these `EBM_BOOK` takes only those whose names hold it.
    fn pages(with_mpi: bool, launcher: Option<PathBuf>) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let asked = std::env::var("EBM_BOOK").unwrap_or_default();
        let mpi = |command: &page::Command| {
            command.fate == Fate::Run && lacking::programs(command).any(|program| program == MPI)
        };
        let (mut tried, mut pages) = (Self::default(), Vec::new());
        for name in page::pages(&root).into_iter().filter(|name| name.contains(&asked)) {
            let (commands, wrong) =
                page::commands(&name, &std::fs::read_to_string(root.join(&name)).unwrap());
            if commands.iter().any(mpi) == with_mpi {
                tried.failed.extend(wrong);
                pages.push((name, commands));
            }
        }
        // A page knows nothing of the others, and most of its commands compute on one core: two run at a time.
        let open = Mutex::new(pages.into_iter());
        let worker = || {
            let mut tried = Self::default();
            loop {
                let next = open.lock().unwrap().next();
                let Some((name, commands)) = next else { return tried };
                tried.page(&name, commands, Clone::new(&root, launcher.clone()));
            }
        };
        std::thread::scope(|scope| {
            let workers = [scope.spawn(worker), scope.spawn(worker)];
            workers.into_iter().for_each(|worker| tried.add(worker.join().unwrap()));
        });
        tried
    }

    fn add(&mut self, other: Self) {
        self.failed.extend(other.failed);
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        other.reasons.into_iter().for_each(|(why, more)| *self.reasons.entry(why).or_default() += more);
        self.times += &other.times;
        for (program, mut more) in other.lacking {
            self.lacking.entry(program).or_default().append(&mut more);
        }
    }

    fn page(&mut self, name: &str, mut commands: Vec<page::Command>, clone: Clone) {
        let has = |program: &str| clone.has(program);
        for lacking::Lack { line, program, reads } in lacking::take_out(&mut commands, has) {
            let reads = reads.map(|path| format!(" (reads {path})")).unwrap_or_default();
            self.lacking.entry(program).or_default().push(format!("{name}:{line}{reads}"));
        }
        let start = Instant::now();
        for command in commands {
            let kind = match &command.fate {
                Fate::Run => 0,
                Fate::Prepared => 3,
                Fate::Parsed(why) => {
                    *self.reasons.entry(format!("parsed: {why}")).or_default() += 1;
                    1
                }
                Fate::Not(why) => {
                    *self.reasons.entry(format!("not run: {why}")).or_default() += 1;
                    2
                }
            };
            self.counts[kind] += 1;
            if kind != 2 {
                let began = Instant::now();
                if let Err(said) = clone.does(&command) {
                    self.failed.push(format!("{name}:{}: {}\n{said}", command.line, command.text));
                }
                let seconds = began.elapsed().as_secs_f64();
                if seconds > 5.0 {
                    self.times += &format!("  {seconds:.0} s  {name}:{}: {}\n", command.line, command.text);
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        if seconds > 5.0 {
            self.times += &format!("  {seconds:.0} s  {name}\n");
        }
    }

    /// Says how many there are, and fails where one has failed.
    fn ends(self) -> [usize; 4] {
        let [run, parsed, not, _] = self.counts;
        let reasons: String = self.reasons.iter().map(|(why, count)| format!("  {count} {why}\n")).collect();
        let text =
            format!("the book: {run} commands run, {parsed} parsed, {not} not run\n{}{reasons}", self.times);
        // Past libtest's capture: how many there are is what one looks for.
        std::io::stderr().lock().write_all(text.as_bytes()).unwrap();
        assert!(self.failed.is_empty(), "\n{}\n", self.failed.join("\n\n"));
        self.counts
    }
}

#[test]
fn every_command_of_the_book_is_tried() {
    let tried = Tried::pages(false, None);
    // What these pages start, every system has.
    assert!(tried.lacking.is_empty(), "{:?}", tried.lacking);
    let [run, parsed, ..] = tried.ends();
    let asked = std::env::var_os("EBM_BOOK").is_some();
    assert!(asked || (run > 60 && parsed > 100), "{run} commands run, {parsed} parsed");
}

/// The pages that start MPI are a test of their own, so that this one alone is missing without MPI.
#[test]
fn every_command_beside_mpi_is_tried() {
    let launcher = mpi::found().into_iter().next();
    let mut tried = Tried::pages(true, launcher.clone());
    let lacking = tried.lacking.remove(MPI).unwrap_or_default();
    assert!(tried.lacking.is_empty(), "{:?}", tried.lacking);
    let counts = tried.ends();
    let asked = std::env::var_os("EBM_BOOK").is_some();
    assert!(asked || launcher.is_none() || counts[0] > 2, "{counts:?}");
    let remedy = format!("{}; until then these are not run: {}", mpi::REMEDY, lacking.join(", "));
    ebm_testing::needs("mpi", MPI, &remedy, launcher);
}

/// The page of docs/my_cluster.md, in small: what a missing program would have made is missing further down.
#[test]
fn what_depends_on_a_missing_program_is_not_run() {
    let text = "```sh\nebm train a --run runs/one\nmpiexec -n 2 ebm train a --run runs/two\n\
                ebm report runs/one --out one.html\nebm report runs/one runs/two --out both.html\n\
                ebm show both.html\nebm show runs/twofold\nebm show runs/two/model\n```\n\
                <!-- ci\n$ mkdir -p to && mv both.html kept.html\n-->\n```sh\nebm show kept.html\n```\n";
    let (mut commands, wrong) = page::commands("page", text);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(lacking::take_out(&mut commands, |_| true).is_empty());
    assert!(commands.iter().all(|command| matches!(command.fate, Fate::Run | Fate::Prepared)));
    let lacks = lacking::take_out(&mut commands, |program| program != MPI);
    let reads: Vec<_> = lacks.iter().map(|lack| (lack.line, lack.reads.as_deref().unwrap_or("-"))).collect();
    let expected =
        [(3, "-"), (5, "runs/two"), (6, "both.html"), (8, "runs/two"), (11, "both.html"), (14, "kept.html")];
    assert_eq!(reads, expected);
    assert!(lacks.iter().all(|lack| lack.program == MPI));
    let run = |command: &&page::Command| command.fate == Fate::Run;
    assert_eq!(commands.iter().filter(run).map(|command| command.line).collect::<Vec<_>>(), [2, 4, 7]);
    assert!(matches!(&commands[7].fate, Fate::Not(_)), "{:?}", commands[7]);

    let (mut commands, _) =
        page::commands("page", "```sh\ncat a | tool --out b; ebm show c   # one; two\n```\n");
    assert_eq!(lacking::programs(&commands[0]).collect::<Vec<_>>(), ["cat", "tool", "ebm"]);
    let lacks = lacking::take_out(&mut commands, |program| program != "tool");
    assert_eq!(lacks, [lacking::Lack { line: 2, program: "tool".to_owned(), reads: None }]);
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

/// Stale commands fail, run or parsed, and options that a page adds replace those that it shows.
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
