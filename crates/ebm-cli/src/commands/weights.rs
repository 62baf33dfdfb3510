//! `ebm weights`, and the page that the Hugging Face Hub shows of a model.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::fetch::sha256_of;
use ebm_data::files::write_atomic;
use ebm_detect::weights::{ConvertOptions, classes, convert};
use ebm_face::reproduce::runs;
use ebm_face::saved::pack;
use ebm_track::saved::{SavedConfig, TRACKING};
use ebm_train::{ModelFile, ModelMetadata};
use serde_json::json;

use crate::schema::document;

/// What to do with weights.
#[derive(Subcommand)]
pub enum Weights {
    /// Make a file of ours, which says what it is, out of a detector's weights made elsewhere: Faster-RCNN of
    /// torchvision or maskrcnn-benchmark, or FastestDet.
    Convert(ConvertArgs),
    /// Write the networks of a run of `ebm reproduce age` or `head-pose` in half precision, with the one backbone that
    /// they stand on, or a box module of `ebm reproduce tracking` beside its backbone, for others to use.
    Pack(PackArgs),
    /// Write the model card of a trained model, as the Hugging Face Hub shows it.
    Card(CardArgs),
}

/// Arguments of `ebm weights convert`.
#[derive(Args)]
pub struct ConvertArgs {
    /// A .pth of any torch, or a .safetensors file.
    input: PathBuf,
    /// The .safetensors file to write.
    output: PathBuf,
    /// Embedded configuration (mini, paper, torchvision) or a TOML file that the weights belong to; without
    /// it their names decide.
    #[arg(long)]
    config: Option<String>,
    /// COCO annotations whose categories are the classes that the detector finds, where the weights do not
    /// name them.
    #[arg(long)]
    annotations: Option<PathBuf>,
    /// Write half precision: half the size, three digits.
    #[arg(long)]
    half: bool,
    /// Replace what is at the output's place.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Arguments of `ebm weights pack`.
#[derive(Args)]
pub struct PackArgs {
    /// The directory of the reproduction, or a run in it.
    run: PathBuf,
    /// The folder to make.
    output: PathBuf,
    /// The backbone's weights, if they are no longer where they were in training.
    #[arg(long)]
    weights: Option<PathBuf>,
}

/// Runs the command.
pub fn run(command: Weights) -> Result<()> {
    match command {
        Weights::Convert(args) => run_convert(&args),
        Weights::Pack(args) => run_pack(&args),
        Weights::Card(args) => run_card(&args),
    }
}

fn run_convert(args: &ConvertArgs) -> Result<()> {
    let output = args.output.display();
    if args.output.extension().is_none_or(|extension| extension != "safetensors") {
        bail!("{output}: the output is a safetensors file; let its name end in .safetensors");
    }
    if args.output.exists() && !args.force {
        bail!("{output} is there already; give another name, or --force to replace it");
    }
    let config = args.config.as_deref().map(super::config).transpose()?;
    let categories = args.annotations.as_deref().map(|path| {
        // The images are of no concern.
        let options = LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) };
        CocoDataset::load(path, Path::new(""), &options).map(|dataset| classes(&dataset))
    });
    let options =
        ConvertOptions { config: config.as_ref(), classes: categories.transpose()?, half: args.half };
    let found = convert(&args.input, &args.output, &options)?;
    let (bytes, sha256) = size_and_sha256(&args.output)?;
    if args.json {
        let object = json!({
            "family": found.family.to_string(), "configuration": found.configuration, "tensors": found.tensors,
            "parameters": found.parameters, "unused": found.unused, "output": args.output, "bytes": bytes,
            "sha256": sha256,
        });
        println!("{}", document("weights convert", object));
        return Ok(());
    }
    println!("family         {}", found.family);
    if let Some(configuration) = found.configuration {
        println!("configuration  {configuration}");
    }
    println!("tensors        {}, {} numbers", found.tensors, found.parameters);
    if !found.unused.is_empty() {
        const SHOWN: usize = 6;
        let more = found.unused.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        let first = &found.unused[..found.unused.len().min(SHOWN)];
        println!("left out       {}{more}", first.join(", "));
    }
    println!("written        {output}, {bytes} bytes");
    println!("sha256         {sha256}");
    Ok(())
}

fn run_pack(args: &PackArgs) -> Result<()> {
    let model = ModelFile::at(&args.run);
    if model.is_file() && ModelMetadata::read(&model)?.is_some_and(|metadata| metadata.task == TRACKING) {
        SavedConfig::pack(&args.run, args.weights.as_deref(), &args.output)?;
        println!("a box module in {}", args.output.display());
        return Ok(());
    }
    let networks = runs(&args.run)?;
    pack(&networks, args.weights.as_deref(), &args.output)?;
    println!("{} networks in {}", networks.len(), args.output.display());
    Ok(())
}

/// A file's length in bytes and its SHA-256 in hexadecimal.
fn size_and_sha256(path: &Path) -> Result<(u64, String)> {
    let sha256 = sha256_of(path)?;
    let size = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    Ok((size, sha256))
}

/// Arguments of `ebm weights card`.
#[derive(Args)]
pub struct CardArgs {
    /// A trained model's folder: a run of `ebm train`, or one below a run of `ebm reproduce`, such as
    /// runs/detection-mini-1/ebm-0.
    run: PathBuf,
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

fn run_card(args: &CardArgs) -> Result<()> {
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
    let run = std::path::absolute(&args.run).unwrap_or_default();
    let name = run.file_name().unwrap_or_default().to_string_lossy();
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
