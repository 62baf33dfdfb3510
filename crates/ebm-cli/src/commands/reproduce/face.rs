//! `ebm reproduce age` and `ebm reproduce head-pose`: Tables 4 and 5.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use candle_core::Device;
use clap::Args;
use ebm_face::config::ExperimentConfig;
use ebm_face::reproduce::{Data, Options, Outcome, Task, mini, on_features, paper};
use serde_json::json;

use super::common::{Description, Reproduction, Scale, Study, StudyRun, TaskArgs};
use super::face_tables as tables;
use crate::progress::Console;
use crate::table_spec::joined;

/// Arguments of `ebm reproduce age` and `ebm reproduce head-pose`.
#[derive(Args)]
pub struct FaceArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Also train the energy models of the settings' `ablation`, with other σ, and of their `objectives`, with seed 0.
    #[arg(long)]
    ablation: bool,
    /// Weights of the backbone that the settings name; by default a known MobileFaceNet in --weights, or a ResNet-50 at
    /// paper scale.
    #[arg(long)]
    trunk: Option<PathBuf>,
    /// Report results on the validation images, to choose settings by. The images that results are otherwise of are not
    /// used.
    #[arg(long)]
    on_validation: bool,
}

/// Reproduction of a table for faces.
pub struct Faces {
    /// Task of the table.
    pub task: Task,
    /// Arguments of the command.
    pub args: FaceArgs,
}

/// Folder of Pointing'04 in the folder of datasets.
const POINTING: &str = "pointing04";

impl Reproduction for Faces {
    type Config = ExperimentConfig;

    fn description(&self) -> Description<'_> {
        let (name, real) = match self.task {
            Task::Age => ("age", Scale::Finetuned),
            Task::HeadPose => ("head-pose", Scale::Pointing),
        };
        Description { name, run: name, args: &self.args.task, real, generated: "generated faces" }
    }

    fn missing(&self, scale: Scale) -> Result<Vec<String>> {
        let datasets = &self.args.task.datasets;
        let data = match scale {
            Scale::Pointing => datasets.join(POINTING),
            _ => Data::source(self.task, datasets),
        };
        let mut missing = Vec::new();
        if !data.exists() {
            missing.push(data.display().to_string());
        }
        let (network, known) = trunks(scale);
        if let (folder, None) = self.trunk(scale) {
            missing.push(format!("{network} in {}, one of {},", folder.display(), known.join(", ")));
        }
        Ok(missing)
    }

    fn configuration(&self, scale: Scale) -> String {
        format!("{}_{}", self.task.key(), scale.name())
    }

    /// Opens the device. Heads on fixed features are small, so the CPU trains them.
    fn device(&self, scale: Scale) -> Result<Device> {
        if scale == Scale::Paper { self.args.task.device.open_single() } else { Ok(Device::Cpu) }
    }

    fn study(&self, config: &ExperimentConfig, run: &StudyRun<'_>, progress: &mut Console) -> Result<Study> {
        let parts = self.data(config, run, progress)?;
        let options = Options {
            seeds: self.args.task.seeds,
            ablation: self.args.ablation,
            run: run.folder.to_owned(),
            resume: self.args.task.resume.is_some(),
        };
        let data = parts.first().context("there are no images")?;
        data.record(run.folder)?;
        let trunk =
            || self.trunk(run.scale).1.context("the trunk's weights are missing; see docs/weights.md");
        let outcome = match run.scale {
            Scale::Mini => mini(config, data, &options, progress)?,
            Scale::Paper => paper(config, data, &trunk()?, &run.device, &options, progress)?,
            _ => on_features(config, &parts, &trunk()?, &options, progress)?,
        };
        tables::csv_files(run.folder, config, &run.scale.name(), data, &outcome)?;
        tables::figures(run.folder, config, data, &outcome)?;
        let mut document = serde_json::to_value(&outcome)?;
        document["unit"] = json!(config.unit);
        document["coordinates"] = json!(config.coordinates);
        document["step_length"] = json!(outcome.step_length());
        Ok(Study {
            title: if self.task == Task::Age { "Table 4" } else { "Table 5" },
            document,
            tables: report(config, &outcome)?,
            appendix: "",
            files: "figures, the trained networks",
        })
    }
}

impl Faces {
    /// Returns the folder in which the backbone's weights are looked for, and their file if it exists.
    fn trunk(&self, scale: Scale) -> (PathBuf, Option<PathBuf>) {
        let names = trunks(scale).1.iter();
        let known = |folder: &Path| names.clone().map(|name| folder.join(name)).find(|path| path.is_file());
        let (folder, file) = self.args.task.weights(known);
        (folder, self.args.trunk.clone().or(file))
    }

    /// Reads the images, of each fold if there are folds.
    fn data(
        &self,
        config: &ExperimentConfig,
        run: &StudyRun<'_>,
        progress: &mut Console,
    ) -> Result<Vec<Data>> {
        let datasets = &self.args.task.datasets;
        let mut parts = match run.scale {
            Scale::Mini => {
                let sizes =
                    config.generated.context("the configuration has no [generated] sizes of splits")?;
                let root = datasets.join("generated").join(self.task.key());
                vec![Data::generated(self.task, &root, config.input.size, &sizes, progress)?]
            }
            Scale::Pointing => Data::folds(&datasets.join(POINTING), progress)?,
            _ => vec![Data::read(self.task, datasets, config.report, progress)?],
        };
        if self.args.on_validation {
            parts.iter_mut().for_each(|data| data.test = None);
        }
        Ok(parts)
    }
}

/// Returns the name of a scale's backbone and the file names of its pretrained weights, best first.
fn trunks(scale: Scale) -> (&'static str, &'static [&'static str]) {
    match scale {
        Scale::Paper => {
            ("a ResNet-50", &["resnet50-19c8e357.pth", "resnet50-0676ba61.pth", "resnet50.safetensors"])
        }
        _ => ("a MobileFaceNet", &["mobilefacenet.safetensors"]),
    }
}

/// Returns the tables as text.
fn report(config: &ExperimentConfig, outcome: &Outcome) -> Result<String> {
    let over = if outcome.step_lengths.len() > 1 { "folds and seeds" } else { "seeds" };
    let mut text = format!(
        "MAE in {} on the {} split ({} images), mean ± standard deviation over {over}; λ = {} by the validation split.\n\n",
        config.unit,
        outcome.part,
        outcome.images,
        joined(&outcome.step_lengths, ", ")
    );
    text += &tables::methods(config, outcome)?;
    if config.dim() > 1 {
        text += &format!("\nBy coordinate:\n\n{}", tables::coordinates(config, outcome)?);
    }
    if !outcome.paired.is_empty() {
        text += &format!(
            "\nRefined less unrefined, of the same images, with its 95 % bootstrap interval over images and seeds, and the share \
             of images that come nearer:\n\n{}",
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
