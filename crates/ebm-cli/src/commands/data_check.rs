//! `ebm data check`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebm_data::check::{Checked, coco};
use ebm_data::quarantine::Defect;
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
}

/// Runs the command. Defects are an error, so that the exit code says that there are some.
pub fn run(args: &CheckArgs) -> Result<()> {
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
