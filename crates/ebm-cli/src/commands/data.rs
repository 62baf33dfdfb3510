//! `ebm data`: gets, checks and generates data.

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

/// Actions on data.
#[derive(Subcommand)]
pub enum Data {
    /// Download datasets and weights from their publishers, or verify those that are there.
    Get(GetArgs),
    /// Decode an image as the loader does and write its pixels as PNG, to compare with other programs.
    Decode {
        /// A JPEG, PNG, BMP or WebP file.
        image: PathBuf,
        /// The PNG file to write.
        out: PathBuf,
    },
    /// List every defect of a dataset, one in a line. The exit code is 3 if there are any.
    Check(CheckArgs),
    /// Generate detection scenes in COCO format.
    Scenes {
        /// Folder for the scenes; must not exist, unless it holds the same scenes already.
        #[arg(long)]
        out: PathBuf,
        /// Number of scenes.
        #[arg(long, default_value_t = 100)]
        count: usize,
        /// Seed. Scene i of a seed does not depend on the count.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Generate videos with one target each, laid out like OTB's sequences.
    Videos {
        /// Folder for the videos; must not exist, unless it holds the same videos already.
        #[arg(long)]
        out: PathBuf,
        /// Number of videos.
        #[arg(long, default_value_t = 50)]
        count: usize,
        /// Number of frames of each video.
        #[arg(long, default_value_t = 60)]
        frames: usize,
        /// Seed. Video i of a seed does not depend on the count.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

/// Arguments of `ebm data check`.
#[derive(Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    target: CheckTarget,
    /// Print one JSON object instead of a line for each defect.
    #[arg(long, global = true)]
    json: bool,
    /// Only check that images exist, without decoding them.
    #[arg(long, global = true)]
    no_decode: bool,
}

/// Datasets that can be checked.
#[derive(Subcommand)]
enum CheckTarget {
    /// An annotation file in COCO's format and its images.
    Coco {
        /// The annotation file.
        annotations: PathBuf,
        /// The folder with its images.
        #[arg(long)]
        images: PathBuf,
    },
}

/// Checks a dataset and prints its defects.
///
/// # Errors
/// If there are defects, so that the exit code tells.
fn run_check(args: &CheckArgs) -> Result<()> {
    let CheckTarget::Coco { annotations, images } = &args.target;
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
