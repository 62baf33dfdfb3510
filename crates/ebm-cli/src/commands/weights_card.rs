//! `ebm weights card`: the page that the Hugging Face Hub shows of a model.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_train::ModelMetadata;
use serde_json::json;

use super::weights::size_and_sha256;

/// Arguments of `ebm weights card`.
#[derive(Args)]
pub struct CardArgs {
    /// A trained model's folder: a run of `ebm train`, or one below a run of `ebm reproduce`, such as
    /// runs/detection-mini-1/ebm-0.
    run: PathBuf,
    /// The model's name; the folder's by default.
    #[arg(long)]
    name: Option<String>,
    /// The licence that the weights are under, as the Hub abbreviates it.
    #[arg(long, default_value = "other")]
    licence: String,
    /// Where to write the card; README.md in the run by default, which is what the Hub shows.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Replace a card that is there.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &CardArgs) -> Result<()> {
    let folder = args.run.display();
    let (model, files) = model(&args.run)?;
    if files.is_empty() {
        bail!("{folder}: no .safetensors file is there; give the folder of one trained model");
    }
    let Some(model) = model else {
        let detail =
            "no .safetensors file there has its task, method and settings; train it here, or convert it";
        let expected = "a file of weights that says what it is";
        return Err(ebm_data::Error::format(&args.run, expected, detail).into());
    };
    let out = args.out.clone().unwrap_or_else(|| args.run.join("README.md"));
    if out.exists() && !args.force {
        bail!("{} is there already; give another place with --out, or --force to replace it", out.display());
    }
    let own = || std::path::absolute(&args.run).ok()?.file_name()?.to_str().map(str::to_owned);
    let name = args.name.clone().or_else(own).unwrap_or_default();
    write_atomic(&out, card(&name, &args.licence, &model, &files).as_bytes())?;
    println!("{}", out.display());
    Ok(())
}

/// What a run's model says of itself, and a table's row for each of its weight files, by name.
fn model(run: &Path) -> Result<(Option<ModelMetadata>, Vec<String>)> {
    let cannot = || format!("cannot read {}", run.display());
    let list = std::fs::read_dir(run).with_context(cannot)?;
    let mut paths =
        list.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().with_context(cannot)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    paths.sort();
    let (mut model, mut files) = (None, Vec::new());
    for path in paths {
        let said = ModelMetadata::read(&path)?;
        // A network beside it, on which it stands, is not what the card is of.
        model = said.filter(|said| model.is_none() || said.base.is_some()).or(model);
        let (bytes, sha256) = size_and_sha256(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.push(format!("| {name} | {bytes} | `{sha256}` |"));
    }
    Ok((model, files))
}

/// The Hub's metadata between two rules, and Markdown. JSON is YAML, so that no text needs escaping by hand.
fn card(name: &str, licence: &str, model: &ModelMetadata, files: &[String]) -> String {
    let ModelMetadata { task, method, seed, config, classes, .. } = model;
    let mut said = format!("method `{method}`");
    if let Some(seed) = seed {
        let _ = write!(said, ", seed {seed}");
    }
    if !classes.is_empty() {
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        let _ = write!(said, "; classes: {}", names.join(", "));
    }
    // The Hub knows no others.
    let tag = if task.contains("detect") { "pipeline_tag: object-detection\n" } else { "" };
    format!(
        "---\nlicense: {licence}\nlibrary_name: candle\n{tag}tags: {tags}\n---\n\n# {name}\n\n\
         For {task}: {said}. The method is of Gustafsson, Danelljan, Bhat, Schön, *Energy-Based Models for Deep\n\
         Probabilistic Regression*, ECCV 2020, or one that it is compared with there.\n\n\
         ## Results\n\nWrite here what `ebm eval` prints, and of which images.\n\n\
         ## Files\n\n| file | bytes | SHA-256 |\n|---|--:|---|\n{files}\n\n## Training\n\n```toml\n{config}\n```\n",
        licence = json!(licence),
        tags = json!(["energy-based-model", "regression", "uncertainty", "candle"]),
        files = files.join("\n"),
        config = config.trim_end(),
    )
}
