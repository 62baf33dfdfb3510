//! `ebm data check`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use ebm_data::check::{Benchmark, CheckOptions, Checked, biwi, coco, sequences, utkface};
use ebm_data::faces::Faces;
use ebm_data::quarantine::{Defect, Tolerance};
use ebm_data::sequences::{got10k, lasot, trackingnet};
use serde_json::json;

use crate::schema::document;

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
    /// The folder of UTKFace's images.
    Utkface {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder hpdb of BIWI, or an npz file of FSA-Net.
    Biwi {
        /// The folder or file.
        path: PathBuf,
    },
    /// A dataset of sequences.
    Sequences {
        /// Which.
        dataset: Dataset,
        /// Its folder.
        root: PathBuf,
    },
}

/// A dataset of sequences.
#[derive(Clone, Copy, ValueEnum)]
enum Dataset {
    Otb,
    Nfs,
    Uav123,
    Lasot,
    Got10kTrain,
    Got10kVal,
    Got10kTest,
    TrackingnetTrain,
    TrackingnetTest,
}

/// Runs the command. Defects are an error, so that the exit code says that there are some.
pub fn run(args: &CheckArgs) -> Result<()> {
    let options = CheckOptions { decode: !args.no_decode };
    let (path, checked) = match &args.what {
        What::Coco { annotations, images } => (annotations, coco(annotations, images, &options)?),
        What::Utkface { folder } => (folder, utkface(folder, &options)?),
        What::Biwi { path } if path.is_file() => {
            let any = Tolerance { max_bad_fraction: 1., report: None };
            let Faces { faces, quarantine } = ebm_face::biwi::read_npz(path, &any)?;
            (path, Checked { samples: faces.len() + quarantine.defects.len(), quarantine })
        }
        What::Biwi { path } => (path, biwi(path, &options)?),
        What::Sequences { dataset, root } => (root, sequences(root, &benchmark(*dataset, root), &options)?),
    };
    print(&checked, args.json)?;
    Ok(checked.verdict(path)?)
}

fn benchmark(dataset: Dataset, root: &Path) -> Benchmark {
    match dataset {
        Dataset::Otb => Benchmark::Otb,
        Dataset::Nfs => Benchmark::Nfs,
        Dataset::Uav123 => Benchmark::Uav,
        Dataset::Lasot => Benchmark::Lasot(lasot::Split::All),
        Dataset::Got10kTrain => Benchmark::Got10k(got10k::Split::Train),
        Dataset::Got10kVal => Benchmark::Got10k(got10k::Split::Val),
        Dataset::Got10kTest => Benchmark::Got10k(got10k::Split::Test),
        Dataset::TrackingnetTest => Benchmark::TrackingNet(vec![trackingnet::Set::Test]),
        Dataset::TrackingnetTrain => {
            let sets = (0..12).filter(|k| root.join(format!("TRAIN_{k}")).is_dir());
            Benchmark::TrackingNet(sets.map(trackingnet::Set::Train).collect())
        }
    }
}

fn print(checked: &Checked, as_json: bool) -> Result<()> {
    let Checked { samples, quarantine } = checked;
    let counts: BTreeMap<String, usize> =
        quarantine.counts().into_iter().map(|(code, count)| (code.to_string(), count)).collect();
    if as_json {
        let report = json!({"samples": samples, "counts": counts, "defects": quarantine.defects});
        println!("{:#}", document("data check", report));
        return Ok(());
    }
    for defect in &quarantine.defects {
        let Defect { file, sample, code, detail } = defect;
        println!("{}: {sample}: {code}: {detail}", file.display());
    }
    let counts: Vec<String> = counts.iter().map(|(code, count)| format!("{code} {count}")).collect();
    let counts = if counts.is_empty() { "no defect".to_owned() } else { counts.join(", ") };
    eprintln!("{samples} samples: {counts}");
    Ok(())
}
