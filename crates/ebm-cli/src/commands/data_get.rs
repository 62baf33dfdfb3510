//! `ebm data get`: downloads or verifies datasets and weights.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ebm_data::Error;
use ebm_data::fetch::{Event, FetchOptions, Manifest, State, embedded, get_entry};
use ebm_train::Progress as _;

use crate::progress::Console;

/// Name that stands for all weights of torchvision.
const ALL_WEIGHTS: &str = "weights";

/// Prefix of names of weights that are another entry's weights in another format.
const FROM_HUB: &str = "hub-";

/// Number of files above which only missing files are listed, and the files are counted together.
const MANY: usize = 100;

/// Arguments of `ebm data get`.
#[derive(Args)]
pub struct GetArgs {
    /// Names of datasets and weights: coco, coco-person, utkface, biwi, otb, uav123, lasot, got10k, trackingnet;
    /// resnet18, resnet50, fasterrcnn, or weights for all three; hub-resnet50. A file NAME.toml in the folder
    /// --datasets or --weights takes precedence.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Folder of datasets.
    #[arg(long, default_value = "datasets")]
    datasets: PathBuf,
    /// Folder of weights.
    #[arg(long, default_value = "weights")]
    weights: PathBuf,
    /// Download nothing: verify the files that are there and list the missing ones.
    #[arg(long)]
    offline: bool,
}

pub fn run(args: &GetArgs) -> Result<()> {
    let mut manifests = Vec::new();
    for name in &args.names {
        let all = embedded::WEIGHTS.iter().map(|(name, _)| *name).filter(|name| !name.starts_with(FROM_HUB));
        let names = if name == ALL_WEIGHTS { all.collect() } else { vec![name.as_str()] };
        for name in names {
            manifests.push(find(name, args)?);
        }
    }
    let options = FetchOptions { offline: args.offline, ..FetchOptions::default() };
    let mut incomplete = None;
    for (manifest, dir) in &manifests {
        let Manifest { name, title, page, licence, citation, files, .. } = manifest;
        eprintln!("{title}, {page}\n  licence: {licence}\n  cite: {citation}");
        let (mut missing, many, mut console) = (0, files.len() > MANY, Console::new());
        if many {
            console.begin(&format!("files of {name}"), files.len());
        }
        for (i, entry) in files.iter().enumerate() {
            let show = &mut |event: Event<'_>| show(&mut console, !many, &event);
            let (path, state) = get_entry(entry, dir, &options, show)?;
            let is_there = !matches!(state, State::Missing(_));
            if !(many && is_there) {
                println!("{}", line(&path, &state, page));
            }
            missing += usize::from(!is_there);
            console.advance(i + 1, "");
        }
        let (place, all) = (dir.join(name), files.len());
        if many {
            console.end();
            println!("{}: {} of {all} files are there", place.display(), all - missing);
        }
        if missing > 0 {
            let detail = format!("{missing} of {all} files are not there: see the list above");
            incomplete = incomplete.or(Some(Error::Data(name.into(), detail)));
        }
    }
    incomplete.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the manifest with this name and the folder that its paths are relative to.
fn find(name: &str, args: &GetArgs) -> Result<(Manifest, PathBuf)> {
    let lists = [(&args.datasets, embedded::DATASETS), (&args.weights, embedded::WEIGHTS)];
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    for (dir, _) in lists.iter().filter(|_| is_name) {
        let path = dir.join(name).with_extension("toml");
        if path.is_file() {
            return Ok((Manifest::read(&path)?, dir.to_path_buf()));
        }
    }
    for (dir, list) in lists {
        if let Some(manifest) = embedded::find(list, name)? {
            return Ok((manifest, dir.clone()));
        }
    }
    let known = embedded::DATASETS.iter().chain(embedded::WEIGHTS).map(|(name, _)| *name);
    let known: Vec<&str> = known.chain([ALL_WEIGHTS]).collect();
    bail!("there is no manifest {name}; there are {}", known.join(", "))
}

fn line(path: &Path, state: &State, page: &str) -> String {
    let path = path.display();
    let said = match state {
        State::There(why, sha256) => format!("{why}; SHA-256 {sha256}"),
        State::Folder(entries) => format!("there, {entries} entries"),
        State::Missing(None) => "missing; it would be fetched without --offline".to_owned(),
        State::Missing(Some(how)) => {
            format!("missing, to be fetched by hand\n  from: {page}\n  how:  {how}\n  to:   {path}")
        }
    };
    format!("{path}: {said}")
}

/// Returns a callback that shows downloads on standard error, in mebibytes.
pub fn reporter() -> impl FnMut(Event<'_>) {
    let mut console = Console::new();
    move |event| show(&mut console, true, &event)
}

/// Reports when a download is tried again and, if `in_mebibytes`, how far each download is.
fn show(console: &mut Console, in_mebibytes: bool, event: &Event<'_>) {
    let mebibytes = |bytes: u64| (bytes >> 20) as usize;
    match event {
        Event::Retry(error, wait) => {
            console.message(&format!("{error}; trying again in {:.1} s", wait.as_secs_f64()));
        }
        _ if !in_mebibytes => {}
        Event::Begin { path, done, total } => {
            let name = path.file_name().unwrap_or_default().display();
            console.begin(&format!("fetching {name} (MiB)"), total.map_or(0, mebibytes));
            console.advance(mebibytes(*done), "");
        }
        Event::Advance(done) => console.advance(mebibytes(*done), ""),
        Event::End => console.end(),
    }
}
