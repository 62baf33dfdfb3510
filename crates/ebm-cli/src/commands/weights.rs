//! `ebm weights`: converts and packs weights.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::fetch::sha256_of;
use ebm_detect::weights::{ConvertOptions, classes, convert};
use ebm_face::reproduce::runs;
use ebm_face::saved::pack;
use ebm_track::saved::{SavedConfig, TRACKING};
use ebm_train::{ModelFile, ModelMetadata};
use serde_json::json;

use crate::schema::document;

/// Actions on weights.
#[derive(Subcommand)]
pub enum Weights {
    /// Convert a detector's weights from another project to a file with metadata: Faster-RCNN of torchvision or
    /// maskrcnn-benchmark, or FastestDet.
    Convert(ConvertArgs),
    /// Pack a run for others to use: the networks of `ebm reproduce age` or `head-pose` in half precision with their
    /// common backbone, or a box module of `ebm reproduce tracking` with its backbone.
    Pack(PackArgs),
}

/// Arguments of `ebm weights convert`.
#[derive(Args)]
pub struct ConvertArgs {
    /// A .pth file of any version of PyTorch, or a .safetensors file.
    input: PathBuf,
    /// The .safetensors file to write.
    output: PathBuf,
    /// Embedded configuration (mini, paper, torchvision) or TOML file that fits the weights. By default it is found
    /// from the tensors' names.
    #[arg(long)]
    config: Option<String>,
    /// COCO annotations whose categories are the detector's classes, if the weights do not name them.
    #[arg(long)]
    annotations: Option<PathBuf>,
    /// Write half precision: half the size, with about three significant digits.
    #[arg(long)]
    half: bool,
    /// Replace an existing output.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Arguments of `ebm weights pack`.
#[derive(Args)]
pub struct PackArgs {
    /// Folder of the reproduction, or a run in it.
    run: PathBuf,
    /// Folder to create.
    output: PathBuf,
    /// Weights of the backbone, if they are no longer where they were in training.
    #[arg(long)]
    weights: Option<PathBuf>,
}

pub fn run(command: Weights) -> Result<()> {
    match command {
        Weights::Convert(args) => run_convert(&args),
        Weights::Pack(args) => run_pack(&args),
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
        // The images are not needed.
        let options = LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) };
        CocoDataset::load(path, Path::new(""), &options).map(|dataset| classes(&dataset))
    });
    let options =
        ConvertOptions { config: config.as_ref(), classes: categories.transpose()?, half: args.half };
    let found = convert(&args.input, &args.output, &options)?;
    let sha256 = sha256_of(&args.output)?;
    let bytes = std::fs::metadata(&args.output).with_context(|| output.to_string())?.len();
    if args.json {
        let object = json!({
            "family": found.family.to_string(), "configuration": found.configuration, "tensors": found.tensors,
            "parameters": found.parameters, "unused": found.unused, "output": args.output.to_string_lossy(),
            "bytes": bytes, "sha256": sha256,
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
