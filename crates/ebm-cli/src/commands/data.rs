//! `ebm data`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebm_base::Key;
use ebm_data::check::{Checked, coco};
use ebm_data::quarantine::Defect;
use ebm_data::{decode::read_image, encode::write_png};
use ebm_synth::scenes::{self, SceneConfig};
use ebm_synth::videos::{self, VideoConfig};
use serde_json::json;

use super::data_get::{self, GetArgs};
use crate::schema::document;

/// What to make.
#[derive(Subcommand)]
pub enum Data {
    /// Fetch datasets and weights from their publishers, or verify those that are there.
    Get(GetArgs),
    /// Decode an image as the loader does and write its pixels as PNG, to compare with other programs.
    Decode {
        /// A JPEG, PNG, BMP or WebP file.
        image: PathBuf,
        /// The PNG.
        out: PathBuf,
    },
    /// Find every defect of a dataset: a line for each, exit code 3 if there are any.
    Check(CheckArgs),
    /// Generate detection scenes in COCO format.
    Scenes {
        /// Where they go; must not exist, unless it holds the same scenes already.
        #[arg(long)]
        out: PathBuf,
        /// How many.
        #[arg(long, default_value_t = 100)]
        count: usize,
        /// Seed; scene i of a seed is the same whatever the count.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Generate videos of one target each, laid out like OTB's sequences.
    Videos {
        /// Where they go; must not exist, unless it holds the same videos already.
        #[arg(long)]
        out: PathBuf,
        /// How many.
        #[arg(long, default_value_t = 50)]
        count: usize,
        /// Frames of each.
        #[arg(long, default_value_t = 60)]
        frames: usize,
        /// Seed; video i of a seed is the same whatever the count.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

/// How to check.
#[derive(Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    what: What,
    /// One JSON object instead of a line for each defect.
    #[arg(long, global = true)]
    json: bool,
    /// Only ask whether images are there, without decoding them.
    #[arg(long, global = true)]
    no_decode: bool,
}

/// What to check.
#[derive(Subcommand)]
enum What {
    /// An annotation file in COCO's format and its images.
    Coco {
        /// The annotation file.
        annotations: PathBuf,
        /// The folder with its images.
        #[arg(long)]
        images: PathBuf,
    },
}

/// Checks. Defects are an error, so that the exit code says that there are some.
fn run_check(args: &CheckArgs) -> Result<()> {
    let What::Coco { annotations, images } = &args.what;
    let checked = coco(annotations, images, !args.no_decode)?;
    print(&checked, args.json);
    Ok(checked.verdict(annotations)?)
}

fn print(checked: &Checked, as_json: bool) {
    let Checked { samples, quarantine } = checked;
    let counts: BTreeMap<String, usize> =
        quarantine.counts().into_iter().map(|(code, count)| (code.to_string(), count)).collect();
    if as_json {
        let report = json!({"samples": samples, "counts": counts, "defects": quarantine.defects});
        println!("{:#}", document("data check", report));
        return;
    }
    for defect in &quarantine.defects {
        let Defect { file, sample, code, detail } = defect;
        println!("{}: {sample}: {code}: {detail}", file.display());
    }
    let counts: Vec<String> = counts.iter().map(|(code, count)| format!("{code} {count}")).collect();
    let counts = if counts.is_empty() { "no defect".to_owned() } else { counts.join(", ") };
    eprintln!("{samples} samples: {counts}");
}

pub fn run(command: Data) -> Result<()> {
    match command {
        Data::Get(args) => data_get::run(&args),
        Data::Decode { image, out } => Ok(write_png(&out, &read_image(&image)?)?),
        Data::Check(args) => run_check(&args),
        Data::Scenes { out, count, seed } => {
            let set = scenes::generate(&out, &SceneConfig::default(), count, Key::new(seed))?;
            println!("{}", set.annotations.display());
            Ok(())
        }
        Data::Videos { out, count, frames, seed } => {
            videos::generate(&out, &VideoConfig { frames, ..VideoConfig::default() }, count, Key::new(seed))?;
            println!("{}", out.display());
            Ok(())
        }
    }
}
