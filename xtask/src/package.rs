//! `cargo xtask package`: what may be published, packed, and built from the packed files alone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::process::{cargo, said, succeed};

/// What is built of the packed files.
#[derive(Debug, Args)]
pub struct PackageArgs {
    /// Check `ebm-cli` too, and so every crate: minutes instead of one.
    #[arg(long)]
    all: bool,
}

/// What crates.io takes.
const MAX_BYTES: u64 = 10 << 20;

/// What every package holds.
const IN_EACH: [&str; 4] = ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "Cargo.lock"];

/// The program that depends on a packed crate, and what it says.
const PROGRAM: &str = include_str!("../package/main.rs");
const OUTPUT: &str = "mean 1.00, variance 0.50, 90 % in [[-0.16, 2.16]], uphill from 0 1.00\n";

/// Packs, unpacks outside the tree, and builds there.
pub fn run(root: &Path, args: &PackageArgs) -> Result<i32> {
    let workspace = Workspace::read(root)?;
    let names = workspace.published();
    succeed(cargo().args(["fetch", "--locked"]).current_dir(root))?;
    let mut pack = cargo();
    // Nothing is asked of a registry, which knows none of these crates yet.
    pack.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet", "--offline"]);
    for private in workspace.packages().filter(|package| !is_published(package)) {
        pack.arg("--exclude").arg(text(private, "name"));
    }
    succeed(pack.current_dir(root))?;

    let place = std::env::temp_dir().join(format!("ebm-package-{}", std::process::id()));
    std::fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    let outcome = unpack(&workspace, &names, &place).and_then(|()| build(root, &workspace, &place, args));
    std::fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    outcome.map(|()| 0)
}

/// Unpacks every package and looks what is in it.
fn unpack(workspace: &Workspace, names: &BTreeSet<String>, place: &Path) -> Result<()> {
    for name in names {
        let file = workspace.target().join(format!("package/{}.crate", workspace.stem(name)));
        let bytes = file.metadata().with_context(|| format!("cargo left no {}", file.display()))?.len();
        ensure!(bytes <= MAX_BYTES, "{} has {bytes} bytes, more than crates.io takes", file.display());
        succeed(Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(place))?;
        let folder = place.join(workspace.stem(name));
        for expected in IN_EACH {
            ensure!(folder.join(expected).is_file(), "the package of {name} has no {expected}");
        }
        ensure!(!folder.join("tests").exists(), "the package of {name} has the repository's tests");
        eprintln!("package: {name}, {} KiB", bytes.div_ceil(1024));
    }
    Ok(())
}

/// Builds and runs the program that depends on `ebm-core`, and with `--all` checks `ebm-cli`, of the packages alone.
fn build(root: &Path, workspace: &Workspace, place: &Path, args: &PackageArgs) -> Result<()> {
    let outside = place.join("outside");
    let write = |file: PathBuf, text: &str| {
        std::fs::create_dir_all(file.parent().unwrap_or(place))?;
        std::fs::write(file, text)
    };
    let version = workspace.stem("ebm-core").trim_start_matches("ebm-core-").to_owned();
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nebm-core = \"{version}\"\n"
    );
    write(outside.join("Cargo.toml"), &manifest)?;
    write(outside.join("src/main.rs"), PROGRAM)?;
    // The versions that are tested here.
    std::fs::copy(root.join("Cargo.lock"), outside.join("Cargo.lock"))?;

    let target = workspace.target().join("package-check");
    let on_packages = |folder: &Path, top: &str, command: &[&str]| {
        let mut cargo = cargo();
        cargo
            .args(command)
            .args(workspace.patches(top, place))
            .env("CARGO_TARGET_DIR", &target)
            .current_dir(folder);
        cargo
    };
    let start = Instant::now();
    succeed(&mut on_packages(&outside, "ebm-core", &["build", "--quiet", "--offline"]))?;
    let seconds = start.elapsed().as_secs();
    let tree = said(&mut on_packages(
        &outside,
        "ebm-core",
        &["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"],
    ))?;
    let crates: BTreeSet<&str> = tree.lines().filter(|line| !line.starts_with("outside ")).collect();
    let output = said(&mut on_packages(&outside, "ebm-core", &["run", "--quiet", "--offline"]))?;
    ensure!(output == OUTPUT, "the program outside the tree says {output:?} instead of {OUTPUT:?}");
    eprint!(
        "package: a program outside the tree with ebm-core and {} crates behind it, built in {seconds} s, says: {output}",
        crates.len() - 1
    );
    if args.all {
        let folder = place.join(workspace.stem("ebm-cli"));
        let start = Instant::now();
        succeed(&mut on_packages(&folder, "ebm-cli", &["check", "--quiet", "--offline"]))?;
        eprintln!("package: ebm-cli and all that it needs, checked in {} s", start.elapsed().as_secs());
    }
    Ok(())
}

/// What `cargo metadata` says of the workspace.
struct Workspace(Value);

impl Workspace {
    fn read(root: &Path) -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root);
        Ok(Self(serde_json::from_str(&said(&mut command)?).context("cargo metadata")?))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }

    fn package(&self, name: &str) -> Option<&Value> {
        self.packages().find(|package| text(package, "name") == name)
    }

    fn target(&self) -> PathBuf {
        PathBuf::from(text(&self.0, "target_directory"))
    }

    fn published(&self) -> BTreeSet<String> {
        let published = self.packages().filter(|package| is_published(package));
        published.map(|package| text(package, "name").to_owned()).collect()
    }

    /// The name of a crate's package, and of the folder in it.
    fn stem(&self, name: &str) -> String {
        format!("{name}-{}", self.package(name).map_or("", |package| text(package, "version")))
    }

    /// The crates of the workspace that `top` is built of.
    fn behind(&self, top: &str) -> BTreeSet<String> {
        let (mut found, mut open) = (BTreeSet::new(), vec![top.to_owned()]);
        while let Some(name) = open.pop() {
            let dependencies = self.package(&name).and_then(|package| package["dependencies"].as_array());
            let used = dependencies
                .into_iter()
                .flatten()
                .filter(|used| used["kind"] != "dev" && !used["path"].is_null());
            open.extend(used.map(|used| text(used, "name").to_owned()).filter(|used| !found.contains(used)));
            found.insert(name);
        }
        found
    }

    /// The arguments by which cargo takes the unpacked crates behind `top` for those of the registry.
    fn patches(&self, top: &str, place: &Path) -> Vec<OsString> {
        let patch = |name: &String| {
            let folder = place.join(self.stem(name));
            [OsString::from("--config"), format!("patch.crates-io.{name}.path={folder:?}").into()]
        };
        self.behind(top).iter().flat_map(patch).collect()
    }
}

fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
