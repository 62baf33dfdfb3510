//! `ebm reproduce tracking`: Table 3, Figure 3b and the supplement's ablation.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_data::sequences::{Dataset, SequenceOptions};
use ebm_detect::BUNDLED_REFINER;
use ebm_eval::tracking::Convention;
use ebm_synth::videos::VideoConfig;
use ebm_track::config::ExperimentConfig;
use ebm_track::reproduce::{Annotated, Options, StillsData, Test, missing, paper, stills};

use super::common::{Description, Reproduction, Scale, Study, StudyRun, TaskArgs};
use super::tracking_tables::{success, tables};
use crate::commands::report_left_out;
use crate::progress::Console;

/// Arguments of `ebm reproduce tracking`.
#[derive(Args)]
pub struct TrackingArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Run the supplement's ablation of Eq. 5's standard deviations instead of Table 3.
    #[arg(long, value_parser = ["sigma"])]
    ablation: Option<String>,
    /// Methods of Table 3, by key; by default all.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<String>,
    /// Scale stills: training images, as a COCO annotation file and the folder of its images. May be given several
    /// times.
    #[arg(long, value_name = "ANNOTATIONS=IMAGES", value_parser = parse_annotated)]
    stills: Vec<Annotated>,
    /// Scale stills: images to evaluate boxes and to choose step lengths on, given like --stills.
    #[arg(long, value_name = "ANNOTATIONS=IMAGES", value_parser = parse_annotated)]
    held_out: Vec<Annotated>,
    /// Weights of the backbone, a ResNet or EfficientNet-Lite0, instead of the ResNet-18 among the weights. If there is
    /// none, mini and stills take the EfficientNet-Lite0 in this program.
    #[arg(long, value_name = "FILE")]
    backbone: Option<PathBuf>,
    /// Scales mini and stills: folder of sequences laid out like OTB to evaluate on as well.
    #[arg(long)]
    sequences: Option<PathBuf>,
}

fn parse_annotated(text: &str) -> Result<Annotated, String> {
    let sides = text.split_once('=').filter(|(first, second)| !first.is_empty() && !second.is_empty());
    let (annotations, images) = sides
        .ok_or_else(|| format!("{text:?} is no ANNOTATIONS=IMAGES; write for instance train.json=images"))?;
    Ok(Annotated { annotations: annotations.into(), images: images.into() })
}

impl Reproduction for TrackingArgs {
    type Config = ExperimentConfig;

    fn description(&self) -> Description<'_> {
        Description {
            name: "tracking",
            run: if self.ablation.is_some() { "tracking-sigma" } else { "tracking" },
            args: &self.task,
            real: Scale::Paper,
            generated: "generated videos",
        }
    }

    fn missing(&self, scale: Scale) -> Result<Vec<String>> {
        if scale == Scale::Stills {
            let given = !self.stills.is_empty() && !self.held_out.is_empty();
            ensure!(
                given,
                "--scale stills needs images to learn from and to measure on: give --stills and --held-out"
            );
            return Ok(Vec::new());
        }
        let mut missing = missing(self.ablation.is_some(), &self.task.datasets);
        if let (folder, None) = self.given_backbone() {
            missing.push(folder.join("resnet18.safetensors"));
        }
        Ok(missing.iter().map(|path| path.display().to_string()).collect())
    }

    fn change(&self, config: &mut ExperimentConfig, scale: Scale) -> Result<Option<&'static str>> {
        if self.ablation.is_some() {
            *config = config.ablated()?;
        }
        if !self.methods.is_empty() {
            config.methods =
                self.methods.iter().map(|key| Ok(config.method(key)?.clone())).collect::<Result<_>>()?;
        }
        if self.ablation.is_some() {
            return Ok(Some("the settings have expected figures for Table 3 only"));
        }
        let other = self.backbone.is_some() || (scale != Scale::Paper && self.given_backbone().1.is_none());
        let reason = "the configuration's expected figures are for ImageNet's ResNet-18; see docs/weights.md";
        Ok((self.task.config.is_none() && other).then_some(reason))
    }

    fn study(&self, config: &ExperimentConfig, run: &StudyRun<'_>, progress: &mut Console) -> Result<Study> {
        let options = Options {
            backbone: self.backbone(run.folder)?,
            seeds: self.task.seeds,
            run: run.folder.to_owned(),
            resume: self.task.resume.is_some(),
            device: run.device.clone(),
        };
        let found = match run.scale {
            Scale::Paper => paper(config, &options, &self.task.datasets, self.ablation.is_some(), progress)?,
            _ => stills(config, &options, &self.data()?, progress)?,
        };
        for failed in &found.failed {
            eprintln!("not counted: {}: {}", failed.name, failed.reason);
        }
        let (title, appendix) = match &self.ablation {
            None => {
                success(run.folder, config, &found)?;
                ("Table 3", "\n![success](success.png)\n")
            }
            Some(_) => ("The proposal's standard deviations", ""),
        };
        Ok(Study {
            title,
            document: serde_json::to_value(&found)?,
            tables: tables(self.ablation.is_some(), config, &found, run.scale == Scale::Paper)?,
            appendix,
            files: "trained modules, figures",
        })
    }
}

impl TrackingArgs {
    /// Returns the folder in which a ResNet-18 is looked for, and the backbone's weights: the given ones, or the
    /// folder's.
    fn given_backbone(&self) -> (PathBuf, Option<PathBuf>) {
        let (folder, file) = self.task.weights(resnet18);
        (folder, self.backbone.clone().or(file))
    }

    /// Returns the weights of the backbone. If there are none, the weights in this program are written into the run.
    fn backbone(&self, run: &Path) -> Result<PathBuf> {
        if let (_, Some(path)) = self.given_backbone() {
            return Ok(path);
        }
        let path = run.join("backbone.safetensors");
        if !path.exists() {
            write_atomic(&path, BUNDLED_REFINER)?;
        }
        Ok(path)
    }

    /// Returns the data for training and evaluation at every scale but the paper's.
    fn data(&self) -> Result<StillsData> {
        let real = match &self.sequences {
            Some(root) => {
                let found = Dataset::Otb100
                    .load(root, &SequenceOptions::benchmark())
                    .with_context(|| format!("the sequences in {}", root.display()))?;
                report_left_out("sequences", &found.quarantine);
                let (name, convention) = ("real".to_owned(), Convention::pytracking());
                vec![Test { name, sequences: found.sequences, convention }]
            }
            None => Vec::new(),
        };
        let (frames, folder) = match self.task.common.smoke {
            true => (20, "generated/videos-smoke"),
            false => (VideoConfig::default().frames, "generated/videos"),
        };
        Ok(StillsData {
            generated: self.task.datasets.join(folder),
            video: VideoConfig { frames, ..VideoConfig::default() },
            stills: self.stills.clone(),
            held_out: self.held_out.clone(),
            real,
        })
    }
}

/// Returns the ResNet-18 in the folder `weights`: the first file by name that begins with `resnet18` and ends with
/// `.safetensors` or `.pth`.
fn resnet18(weights: &Path) -> Option<PathBuf> {
    let paths = weights.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_resnet18 = |path: &PathBuf| {
        let named = path.file_name().and_then(|name| name.to_str());
        named.is_some_and(|name| name.starts_with("resnet18"))
            && path.extension().is_some_and(|ending| ending == "safetensors" || ending == "pth")
    };
    paths.filter(is_resnet18).min()
}
