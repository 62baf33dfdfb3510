//! `ebm reproduce tracking`: Table 3, Figure 3b and the supplement's ablation.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_data::sequences::{Dataset, SequenceOptions};
use ebm_eval::tracking::Convention;
use ebm_synth::videos::VideoConfig;
use ebm_track::config::ExperimentConfig;
use ebm_track::reproduce::{
    Annotated, BackboneSource, Comparison, MiniOptions, PaperOptions, StillsOptions, Test, find_backbone,
    mini, missing, paper, stills,
};
use serde_json::json;

use super::common::{Place, Reproduction, Scale, TaskArgs};
use super::outcome::Study;
use super::tracking_figures::figures;
use super::tracking_tables::tables;
use crate::commands::say_left_out;
use crate::progress::Console;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ablation {
    /// Standard deviations of Eq. 5, as in the supplement.
    Sigma,
}

/// Arguments of `ebm reproduce tracking`.
#[derive(Args)]
pub struct TrackingArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// The supplement's ablation instead of Table 3.
    #[arg(long, value_enum)]
    ablation: Option<Ablation>,
    /// Which methods of Table 3, by key; all of them by default.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<String>,
    /// Another tracker's row: its name and a folder with its boxes, of each run a folder or none. May be
    /// given several times.
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_results)]
    results: Vec<(String, PathBuf)>,
    /// Runs of each tracker on each sequence, instead of those of the settings.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// Stills: images to learn from, a COCO file of annotations and the folder of its images. May be given
    /// several times.
    #[arg(long, value_name = "ANNOTATIONS=IMAGES", value_parser = parse_annotated)]
    stills: Vec<Annotated>,
    /// Stills: images to measure boxes on meanwhile and to choose step lengths on, likewise.
    #[arg(long, value_name = "ANNOTATIONS=IMAGES", value_parser = parse_annotated)]
    held_out: Vec<Annotated>,
    /// Mini, stills: the backbone's weights, a ResNet's or an EfficientNet-Lite0's, instead of the ResNet-18
    /// among the weights.
    #[arg(long, value_name = "FILE", conflicts_with = "small_backbone")]
    backbone: Option<PathBuf>,
    /// Mini: train a small backbone even where ImageNet's ResNet-18 is there.
    #[arg(long)]
    small_backbone: bool,
    /// Mini, stills: a folder of sequences laid out like OTB to measure on as well.
    #[arg(long)]
    sequences: Option<PathBuf>,
    /// Where generated videos go; by default below the datasets.
    #[arg(long)]
    generated: Option<PathBuf>,
}

/// The two sides of the first `=`, where neither is empty.
fn sides(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(first, second)| !first.is_empty() && !second.is_empty())
}

fn parse_annotated(text: &str) -> Result<Annotated, String> {
    let (annotations, images) = sides(text)
        .ok_or_else(|| format!("{text:?} is no ANNOTATIONS=IMAGES; write for instance train.json=images"))?;
    Ok(Annotated { annotations: annotations.into(), images: images.into() })
}

fn parse_results(text: &str) -> Result<(String, PathBuf), String> {
    let (name, folder) = sides(text)
        .ok_or_else(|| format!("{text:?} is no NAME=DIR; write for instance SiamFC=results/siamfc"))?;
    Ok((name.to_owned(), PathBuf::from(folder)))
}

impl Reproduction for TrackingArgs {
    type Config = ExperimentConfig;

    fn task(&self) -> &'static str {
        "tracking"
    }

    fn args(&self) -> &TaskArgs {
        &self.task
    }

    fn generated(&self) -> &'static str {
        "generated videos"
    }

    fn missing(&self, scale: Scale) -> Result<Vec<String>> {
        for (name, folder) in &self.results {
            ensure!(folder.is_dir(), "--results {name}={}: there is no such folder", folder.display());
        }
        if scale == Scale::Stills {
            let given = !self.stills.is_empty() && !self.held_out.is_empty();
            ensure!(
                given,
                "--scale stills needs images to learn from and to measure on: give --stills and --held-out"
            );
            return Ok(Vec::new());
        }
        let missing = missing(&self.options(Path::new(""), &Device::Cpu))?;
        Ok(missing.iter().map(|path| path.display().to_string()).collect())
    }

    fn change(&self, config: &mut ExperimentConfig) -> Result<()> {
        if let Some(repetitions) = self.repetitions {
            config.repetitions = repetitions as usize;
        }
        if !self.methods.is_empty() {
            config.methods =
                self.methods.iter().map(|key| Ok(config.method(key)?.clone())).collect::<Result<_>>()?;
        }
        Ok(())
    }

    fn is_other(&self, scale: Scale) -> Result<Option<&'static str>> {
        let is_own = scale == Scale::Paper || self.task.config.is_some();
        if self.ablation.is_some() {
            return Ok(Some("the settings state what to expect of Table 3 alone"));
        }
        let other = self.backbone.is_some() || self.found_backbone()?.is_none();
        let reason = "the configuration's figures are of ImageNet's ResNet-18; see docs/weights.md";
        Ok((!is_own && other).then_some(reason))
    }

    fn run_name(&self, scale: Scale) -> String {
        let study = if self.ablation.is_some() { "tracking-sigma" } else { "tracking" };
        format!("{study}-{}", scale.name())
    }

    fn study(&self, config: &ExperimentConfig, at: &Place<'_>, progress: &mut Console) -> Result<Study> {
        let found = match at.scale {
            Scale::Paper => paper(config, &self.options(at.run, &at.device), progress)?,
            Scale::Stills => {
                let (stills_of, held_out) = (self.stills.clone(), self.held_out.clone());
                let common = self.mini_options(at)?;
                stills(config, &StillsOptions { common, stills: stills_of, held_out }, progress)?
            }
            _ => mini(config, &self.mini_options(at)?, progress)?,
        };
        for failed in &found.failed {
            eprintln!("not counted: {}: {}", failed.name, failed.reason);
        }
        figures(at.run, config, &found)?;
        let Comparison { rows, held_out, rivals, curves, failed, .. } = &found;
        let (title, appendix) = match self.ablation {
            None => ("Table 3", "\n![success](success.png)\n"),
            Some(Ablation::Sigma) => ("The proposal's standard deviations", ""),
        };
        Ok(Study {
            title,
            rows: serde_json::to_value(rows)?,
            more: json!({ "held_out": held_out, "rivals": rivals, "curves": curves, "failed": failed }),
            tables: tables(self.compared(), config, &found, at.scale == Scale::Paper)?,
            appendix,
            files: "trained modules, figures",
        })
    }
}

impl TrackingArgs {
    /// What is compared.
    fn compared(&self) -> ebm_track::reproduce::Study {
        match self.ablation {
            Some(Ablation::Sigma) => ebm_track::reproduce::Study::Sigma,
            None => ebm_track::reproduce::Study::Methods,
        }
    }

    fn options(&self, run: &Path, device: &Device) -> PaperOptions {
        PaperOptions {
            results: self.results.clone(),
            study: self.compared(),
            datasets: self.task.datasets.clone(),
            weights: self.weights(),
            seeds: self.task.seeds,
            run: run.to_owned(),
            resume: self.task.resume.is_some(),
            device: device.clone(),
        }
    }

    /// The folder with the ResNet-18.
    fn weights(&self) -> PathBuf {
        self.task.weights(|folder| find_backbone(folder).is_ok_and(|found| found.is_some()))
    }

    /// The weights of the backbone, unless it is to be trained.
    fn found_backbone(&self) -> Result<Option<PathBuf>> {
        match &self.backbone {
            _ if self.small_backbone => Ok(None),
            Some(path) => Ok(Some(path.clone())),
            None => Ok(find_backbone(&self.weights())?),
        }
    }

    fn mini_options(&self, at: &Place<'_>) -> Result<MiniOptions> {
        let found = self.found_backbone()?;
        let own = || BackboneSource::Trained(at.run.join("backbone.safetensors"));
        let real = match &self.sequences {
            Some(root) => {
                let found = Dataset::Otb100
                    .load(root, &SequenceOptions::benchmark())
                    .with_context(|| format!("the sequences in {}", root.display()))?;
                say_left_out(&found.quarantine);
                let (name, convention) = ("real".to_owned(), Convention::pytracking());
                vec![Test { name, sequences: found.sequences, convention }]
            }
            None => Vec::new(),
        };
        let (frames, folder) = match self.task.common.smoke {
            true => (24, "generated/videos-smoke"),
            false => (VideoConfig::default().frames, "generated/videos"),
        };
        Ok(MiniOptions {
            seeds: self.task.seeds,
            backbone: found.map_or_else(own, BackboneSource::File),
            data: self.generated.clone().unwrap_or_else(|| self.task.datasets.join(folder)),
            video: VideoConfig { frames, ..VideoConfig::default() },
            coco: self.task.datasets.join("coco"),
            real,
            results: self.results.clone(),
            study: self.compared(),
            run: at.run.to_owned(),
            resume: self.task.resume.is_some(),
            device: at.device.clone(),
        })
    }
}
