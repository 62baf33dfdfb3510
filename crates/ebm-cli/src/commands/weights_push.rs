//! `ebm weights push`: a trained model to the Hugging Face Hub.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebm_data::fetch::{HubModel, Outgoing, Push, push};
use ebm_train::published;

use super::data_get::{fetch_options, reporter};

/// Arguments of `ebm weights push`.
#[derive(Args)]
pub struct PushArgs {
    /// A trained model: the folder of a run, or of several runs on one backbone as `ebm weights pack` makes it, or a file of
    /// weights. What prediction needs goes to the Hub: weights, those that they stand on, settings, and the card.
    run: PathBuf,
    /// The repository, OWNER/NAME; it is made if it is not there. `ebm predict … hub:OWNER/NAME` uses it.
    #[arg(long)]
    repo: String,
    /// The branch; it is made if it is not there.
    #[arg(long, default_value = "main")]
    revision: String,
    /// Say what would go, and where to, and ask nobody.
    #[arg(long)]
    dry_run: bool,
    /// Make the repository, if it is not there, for its owner alone.
    #[arg(long)]
    private: bool,
}

/// Runs the command.
pub fn run(args: &PushArgs) -> Result<()> {
    let model = HubModel::new(&args.repo, &args.revision)?;
    let options = fetch_options(false);
    let hub = options.hub.as_ref().context("no place is known for a login: set HF_HOME")?;
    let found = published(&args.run)?;
    if !found.contains_key("README.md") {
        eprintln!(
            "{} has no README.md, which the Hub shows; `ebm weights card` writes one",
            args.run.display()
        );
    }
    let files = found.iter().map(|(name, path)| Outgoing::read(name, path));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    if args.dry_run {
        for Outgoing { name, size, sha256, .. } in &files {
            println!("{sha256}  {size:>12}  {name}");
        }
        println!("to {model} at {}", hub.address());
        return Ok(());
    }
    let summary = format!("Upload by ebm {}", env!("CARGO_PKG_VERSION"));
    let pushed = Push { model: &model, files: &files, private: args.private, summary: &summary };
    match push(&pushed, hub, &options, &mut reporter())? {
        Some(page) => println!("{page}"),
        None => println!("{model} has all of it"),
    }
    Ok(())
}
