//! Records of tests that lack a resource.

use std::fs::{create_dir_all, remove_file, write};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::{env, thread};

use crate::target;

/// Kinds of resources that `EBM_REQUIRE` may name.
const KINDS: [&str; 5] = ["data", "mpi", "cuda", "browser", "system"];

/// Returns `found`, and records whether the calling test has the resource `what` of this `kind`. Without it, a message
/// goes to stderr, past libtest's capture, and a record is kept until the test runs again and finds the resource.
///
/// A record is a file in `skipped-tests` of the target folder. Its lines are the path of the test program below the target
/// folder, the arguments by which cargo starts it, the test, and the sentence that `xtask/fresh/skipped.sh` prints.
///
/// # Panics
///
/// Panics with `remedy` if nothing was found and `EBM_REQUIRE` names `kind`.
pub fn needs<T>(kind: &str, what: &str, remedy: &str, found: Option<T>) -> Option<T> {
    let test = thread::current().name().unwrap_or("?").to_owned();
    let program = Program::this();
    let file = program.record(&test, what);
    if found.is_some() {
        let removed = remove_file(&file).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        removed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return found;
    }
    let required = env::var("EBM_REQUIRE").unwrap_or_default();
    let mut words = required.split(',').filter(|word| !word.is_empty());
    if let Some(word) = words.clone().find(|word| !KINDS.contains(word)) {
        panic!("EBM_REQUIRE names {word}; it may name {}", KINDS.join(", "));
    }
    assert!(!words.any(|word| word == kind), "{what} is not here, and EBM_REQUIRE names {kind}: {remedy}");
    let line = format!("{}::{}::{test}: {what} is not here; {remedy}\n", program.package, program.name);
    // A single write keeps lines of several tests apart; if stderr is closed, the record remains.
    let _ = io::stderr().lock().write_all(format!("skipped: {line}").as_bytes());
    let text = format!("{}\n{}\n{test}\n{line}", program.path.display(), program.arguments());
    let written = file.parent().map_or(Ok(()), create_dir_all).and_then(|()| write(&file, text));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    None
}

/// The running test program, as cargo names it.
struct Program {
    package: String,
    name: String,
    /// Path below the target folder.
    path: PathBuf,
}

impl Program {
    fn this() -> Self {
        let exe = env::current_exe().unwrap_or_default();
        let stem = exe.file_stem().unwrap_or_default().to_string_lossy();
        Self {
            package: env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "?".into()),
            name: stem.rsplit_once('-').map_or(&*stem, |(name, _)| name).to_owned(),
            path: exe.strip_prefix(target()).unwrap_or(&exe).to_owned(),
        }
    }

    /// Returns cargo's arguments that select the program among the packages of the workspace.
    fn arguments(&self) -> String {
        let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
        let has = |path: String| package.join(path).exists();
        if has(format!("tests/{}.rs", self.name)) || has(format!("tests/{}/main.rs", self.name)) {
            format!("--test {}", self.name)
        } else if self.name == self.package.replace('-', "_") && has("src/lib.rs".into()) {
            "--lib".to_owned()
        } else {
            format!("--bin {}", self.name)
        }
    }

    /// Returns the path of the record for this program, test and resource.
    fn record(&self, test: &str, what: &str) -> PathBuf {
        let folder =
            env::var_os("EBM_SKIPPED_TESTS").map_or_else(|| target().join("skipped-tests"), PathBuf::from);
        let name = format!("{}.{}.{test}.{what}", self.package, self.name);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '.' };
        folder.join(Path::new(&name.chars().map(plain).collect::<String>()))
    }
}
