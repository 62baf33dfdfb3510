//! `ebm reproduce age` and `ebm reproduce head-pose`: Tables 4 and 5.

use std::path::PathBuf;

use anyhow::{Context, Result};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_face::config::ExperimentConfig;
use ebm_face::features::Depth;
use ebm_face::reproduce::{Ablation, Data, Options, Outcome, Task, cross_validated, frozen, mini, paper};
use serde_json::json;

use super::common::{Place, Reproduction, Scale, TaskArgs};
use super::face_figures::figures;
use super::face_tables as tables;
use super::outcome::Study;
use crate::progress::Console;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AblationArg {
    /// The σ of the proposal: an energy model for each pair in the paper's supplement, with seed 0.
    Sigma,
    /// The objective: an energy model for each of the settings' `objectives`, with seed 0.
    Objective,
}

impl From<AblationArg> for Ablation {
    fn from(asked: AblationArg) -> Self {
        match asked {
            AblationArg::Sigma => Self::Sigma,
            AblationArg::Objective => Self::Objective,
        }
    }
}

/// Arguments of `ebm reproduce age` and `ebm reproduce head-pose`.
#[derive(Args)]
pub struct FaceArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Studies of the energy model to make as well, with commas between.
    #[arg(long, value_enum, value_delimiter = ',')]
    ablation: Vec<AblationArg>,
    /// The backbone's weights, of the kind that the settings name; by default a known ResNet-50 in --weights, or
    /// of --scale finetuned a MobileFaceNet.
    #[arg(long)]
    trunk: Option<PathBuf>,
    /// Where features of images are kept.
    #[arg(long, default_value = "runs/features")]
    cache: PathBuf,
    /// Results of the validation images, to choose settings by: those that results are otherwise of are not looked at.
    #[arg(long)]
    on_validation: bool,
}

/// A table of the paper for faces.
pub struct Faces {
    /// What is predicted.
    pub task: Task,
    /// How it was asked for.
    pub args: FaceArgs,
}

/// Pretrained ResNet-50s that are known, best first.
const TRUNKS: [&str; 4] = [
    "resnet50-19c8e357.pth",
    "resnet50-0676ba61.pth",
    "resnet50.safetensors",
    "resnet50_pruned_int8_imagenet.safetensors",
];

/// Where Pointing'04 is below the datasets.
const POINTING: &str = "pointing04";

/// The published MobileFaceNet.
const MOBILE_TRUNKS: [&str; 1] = ["mobilefacenet.safetensors"];

impl Reproduction for Faces {
    type Config = ExperimentConfig;

    fn task(&self) -> &'static str {
        match self.task {
            Task::Age => "age",
            Task::HeadPose => "head-pose",
        }
    }

    fn args(&self) -> &TaskArgs {
        &self.args.task
    }

    fn real(&self) -> Scale {
        Scale::Frozen
    }

    fn generated(&self) -> &'static str {
        "generated faces"
    }

    fn missing(&self, scale: Scale) -> Result<Vec<String>> {
        let data = match scale {
            Scale::Pointing => self.args().datasets.join(POINTING),
            _ => Data::source(self.task, &self.args().datasets),
        };
        let mut missing = Vec::new();
        if !data.exists() {
            missing.push(data.display().to_string());
        }
        if self.trunk(scale).is_none() {
            let (weights, known) = (self.weights(scale), trunks(scale).join(", "));
            missing.push(format!("{} in {}, one of {known},", network(scale), weights.display()));
        }
        Ok(missing)
    }

    fn configuration(&self, scale: Scale) -> String {
        format!("{}_{}", self.task.key(), scale.name())
    }

    fn is_other(&self, _: Scale) -> Result<Option<&'static str>> {
        Ok(None)
    }

    /// Heads on fixed features are small: the CPU trains them.
    fn device(&self, scale: Scale) -> Result<Device> {
        if scale == Scale::Paper { self.args().device.open_single() } else { Ok(Device::Cpu) }
    }

    fn study(&self, config: &ExperimentConfig, at: &Place<'_>, progress: &mut Console) -> Result<Study> {
        let (parts, options) = (self.data(config, at, progress)?, self.options(at));
        let data = parts.first().context("there are no images")?;
        data.record(at.run)?;
        let trunk = || self.trunk(at.scale).with_context(|| self.missing_trunk(at.scale));
        let outcome = match at.scale {
            Scale::Pointing => cross_validated(config, &parts, &trunk()?, &options, progress)?,
            Scale::Paper => paper(config, data, &trunk()?, &at.device, &options, progress)?,
            Scale::Frozen => frozen(config, data, &trunk()?, Depth::Features, &options, progress)?,
            Scale::Finetuned => frozen(config, data, &trunk()?, Depth::FrozenMaps, &options, progress)?,
            _ => mini(config, data, &options, progress)?,
        };
        tables::csv_files(at.run, config, at.scale.name(), data, &outcome)?;
        figures(at.run, config, data, &outcome)?;
        Ok(Study {
            title: match self.task {
                Task::Age => "Table 4",
                Task::HeadPose => "Table 5",
            },
            rows: serde_json::to_value(&outcome.rows)?,
            more: json!({
                "unit": config.unit,
                "coordinates": config.coordinates,
                "split": outcome.part,
                "images": outcome.images,
                "step_length": outcome.step_length(),
                "step_lengths": outcome.step_lengths,
                "calibration": outcome.calibration,
                "paired": outcome.paired,
                "bands": outcome.bands,
                "by_step_length": outcome.by_step_length,
                "ablation": outcome.ablation,
            }),
            tables: report(config, &outcome)?,
            appendix: "",
            files: "figures, the trained networks",
        })
    }
}

impl Faces {
    /// The backbone's weights.
    fn trunk(&self, scale: Scale) -> Option<PathBuf> {
        let folder = self.weights(scale);
        let known = || trunks(scale).iter().map(|name| folder.join(name)).find(|path| path.is_file());
        self.args.trunk.clone().or_else(known)
    }

    fn missing_trunk(&self, scale: Scale) -> String {
        let (weights, known) = (self.weights(scale), trunks(scale).join(", "));
        format!("{} lacks {}, one of {known}; see docs/weights.md", weights.display(), network(scale))
    }

    /// The folder with such a backbone.
    fn weights(&self, scale: Scale) -> PathBuf {
        self.args().weights(|folder| trunks(scale).iter().any(|name| folder.join(name).is_file()))
    }

    /// The images; of each fold, where there are folds.
    fn data(&self, config: &ExperimentConfig, at: &Place<'_>, progress: &mut Console) -> Result<Vec<Data>> {
        let mut parts = self.all_data(config, at, progress)?;
        if self.args.on_validation {
            parts.iter_mut().for_each(|data| data.test = None);
        }
        Ok(parts)
    }

    fn all_data(
        &self,
        config: &ExperimentConfig,
        at: &Place<'_>,
        progress: &mut Console,
    ) -> Result<Vec<Data>> {
        let datasets = &self.args().datasets;
        match at.scale {
            Scale::Mini => {}
            Scale::Pointing => return Ok(Data::folds(&datasets.join(POINTING), progress)?),
            _ => return Ok(vec![Data::read(self.task, datasets, config.report, progress)?]),
        }
        let sizes = config.generated.context("the configuration has no [generated] sizes of splits")?;
        let root = datasets.join("generated").join(self.task.key());
        Ok(vec![Data::generated(self.task, &root, config.input.size, &sizes, progress)?])
    }

    fn options(&self, at: &Place<'_>) -> Options {
        Options {
            seeds: self.args().seeds,
            ablations: self.args.ablation.iter().map(|&asked| asked.into()).collect(),
            cache: self.args.cache.clone(),
            run: at.run.to_owned(),
            resume: self.args().resume.is_some(),
        }
    }
}

/// The names of a scale's pretrained backbones, best first.
fn trunks(scale: Scale) -> &'static [&'static str] {
    if matches!(scale, Scale::Finetuned | Scale::Pointing) { &MOBILE_TRUNKS } else { &TRUNKS }
}

/// What they are.
fn network(scale: Scale) -> &'static str {
    if matches!(scale, Scale::Finetuned | Scale::Pointing) { "a MobileFaceNet" } else { "a ResNet-50" }
}

/// The tables for people.
fn report(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let lengths: Vec<String> = outcome.step_lengths.iter().map(f64::to_string).collect();
    let over = if lengths.len() > 1 { "folds and seeds" } else { "seeds" };
    let mut text = format!(
        "MAE in {} on the {} split ({} images), mean ± standard deviation over {over}; λ = {} by the validation split.\n\n",
        config.unit,
        outcome.part,
        outcome.images,
        lengths.join(", ")
    );
    text += &tables::methods(config, outcome)?;
    if config.dim() > 1 {
        text += &format!("\nBy coordinate:\n\n{}", tables::coordinates(config, outcome)?);
    }
    if !outcome.paired.is_empty() {
        text += &format!(
            "\nRefined less unrefined, of the same images, with its 95 % bootstrap interval over images and seeds, the share \
             of images that come nearer, and the λ that would have been best there:\n\n{}",
            tables::paired(config, outcome)?
        );
    }
    if !outcome.calibration.is_empty() {
        text += &format!(
            "\nDensities before refinement, in {}, and after split-conformal calibration on the validation split; the MAE \
             where the 50 % regions are narrowest:\n\n{}",
            config.unit,
            tables::calibration(&outcome.calibration)?
        );
    }
    if !outcome.ablation.is_empty() {
        text += &format!(
            "\nOther energy models, MAE of all baselines refined, on the validation split, seed 0:\n\n{}",
            tables::ablation(config, outcome)?
        );
    }
    Ok(text)
}
