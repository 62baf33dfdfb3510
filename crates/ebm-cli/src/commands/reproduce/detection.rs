//! `ebm reproduce detection`: Tables 1 and 2, Figure 3a, the search for step lengths, every objective.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ebm_detect::config::{ExperimentConfig, MethodConfig};
use ebm_detect::reproduce::{
    BaseOptions, Setup, StudyImages, StudyOptions, TrainedHeads, figure3a, step_lengths, table1, table2,
};
use serde_json::{json, to_value};

use super::common::{Description, Reproduction, Scale, Study, StudyRun, TaskArgs};
use super::detection_tables as tables;
use crate::commands::create_dir;
use crate::progress::Console;
use crate::workers::WorkersArgs;

/// Files of detector weights for paper scale, best first, with the configuration of each.
const DETECTORS: [(&str, &str); 2] = [
    ("e2e_faster_rcnn_R-50-FPN_1x.safetensors", "paper"),
    ("fasterrcnn_resnet50_fpn_coco-258fb6c6.pth", "torchvision"),
];

/// Arguments of `ebm reproduce detection`.
#[derive(Args)]
pub struct DetectionArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Table to reproduce: 2 compares methods, 1 compares proposals.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    table: u8,
    /// Figure to reproduce instead: 3a shows AP and speed against the number of steps.
    #[arg(long, value_parser = ["3a"], conflicts_with_all = ["table", "objectives"])]
    figure: Option<String>,
    /// Search to run instead: lambda finds step lengths on the validation images.
    #[arg(long, value_parser = ["lambda"], conflicts_with_all = ["table", "figure", "objectives"])]
    grid: Option<String>,
    /// Compare energy models trained with every objective, like Table 2.
    #[arg(long, conflicts_with = "table")]
    objectives: bool,
    /// Methods of Table 2, or objectives with --objectives, by key; by default all.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<String>,
    /// Number of updates of each head, instead of the configuration's. Milestones move in proportion.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Trained heads to use: a run of this command, or a folder with runs of `ebm train branch` named METHOD-SEED.
    /// Heads that are missing or were trained otherwise are refused.
    #[arg(long, conflicts_with = "resume")]
    heads: Option<PathBuf>,
    /// Train heads that are missing in --heads.
    #[arg(long, requires = "heads")]
    train_missing: bool,
    /// Except at paper scale: train the detector too, instead of reading it from weights/.
    #[arg(long)]
    from_scratch: bool,
    /// With --from-scratch: weights of the detector's body, which is frozen and whose maps are computed once. By
    /// default the whole detector is trained.
    #[arg(long, requires = "from_scratch")]
    body: Option<PathBuf>,
    /// With --from-scratch: save the new detector in weights/.
    #[arg(long, requires = "from_scratch")]
    keep_base: bool,
    #[command(flatten)]
    workers: WorkersArgs,
}

impl Reproduction for DetectionArgs {
    type Config = ExperimentConfig;

    fn description(&self) -> Description<'_> {
        Description {
            name: "detection",
            run: "detection",
            args: &self.task,
            real: Scale::Nuclei,
            generated: "generated scenes and the project's own small detector",
        }
    }

    fn missing(&self, scale: Scale) -> Result<Vec<String>> {
        if let Some(TrainedHeads { path, .. }) = self.heads().filter(|heads| !heads.path.is_dir()) {
            bail!("{}: there is no such run; give the directory that an earlier run named", path.display());
        }
        let mut missing = self.images(scale).missing();
        let needs_detector = scale == Scale::Paper || scale != Scale::Mini && !self.from_scratch;
        missing.extend(Some(self.base_weights(scale)).filter(|path| needs_detector && !path.is_file()));
        Ok(missing.iter().map(|path| path.display().to_string()).collect())
    }

    fn configuration(&self, scale: Scale) -> String {
        let weights = self.base_weights(Scale::Paper);
        let published = DETECTORS.iter().find(|(name, _)| scale == Scale::Paper && weights.ends_with(name));
        published.map_or_else(|| scale.name(), |(_, name)| (*name).to_owned())
    }

    fn change(&self, config: &mut ExperimentConfig, _: Scale) -> Result<Option<&'static str>> {
        if let Some(steps) = self.steps.filter(|_| !self.task.common.smoke) {
            for training in [&mut config.density, &mut config.confidence] {
                training.set_steps(steps as usize);
            }
        }
        Ok(match () {
            () if self.table != 2 || self.figure.is_some() || self.grid.is_some() || self.objectives => {
                Some("the configuration has expected figures for Table 2 only")
            }
            () if self.steps.is_some() => {
                Some("the configuration's expected figures are for its own steps, without --steps")
            }
            () if self.from_scratch => {
                Some("the configuration's expected figures are for the base detector in weights/")
            }
            () => None,
        })
    }

    fn study(&self, config: &ExperimentConfig, run: &StudyRun<'_>, progress: &mut Console) -> Result<Study> {
        let (methods, seeds) = (self.methods(config)?, self.task.seeds);
        let options = StudyOptions {
            run: run.folder.to_owned(),
            heads: self.heads(),
            resume: self.task.resume.is_some(),
            device: run.device.clone(),
            workers: self.workers.count(),
        };
        let setup =
            &Setup::open(config, &self.images(run.scale), &self.base(run.scale)?, &options, progress)?;
        let is_energy = |method: &MethodConfig| method.key == ExperimentConfig::ENERGY;
        let (mut appendix, mut files) = ("", "detections, trained heads, metrics");
        let (title, published, table, rows) = if self.figure.is_some() {
            let rows = figure3a(setup, seeds, progress)?;
            tables::plot_figure3a(run.folder, &config.figure3a, &rows)?;
            ("Figure 3a", Some("val2017"), tables::figure3a(&config.figure3a, &rows)?, to_value(rows)?)
        } else if self.grid.is_some() {
            let rows = step_lengths(setup, &methods, progress)?;
            ("Step lengths", None, tables::step_lengths(&methods, &rows)?, to_value(rows)?)
        } else if self.table == 1 {
            let rows = table1(setup, seeds, progress)?;
            ("Table 1", Some("val2017"), tables::table1(&rows)?, to_value(rows)?)
        } else {
            let rows = table2(setup, &methods, seeds, progress)?;
            if methods.iter().any(is_energy) {
                tables::draw_refined(setup, run.folder)?;
                appendix = "\n![Boxes before and after refinement](refined.png)\n";
                files = "refined.png (boxes before and after refinement), detections, trained heads";
            }
            let title = if self.objectives { "Objectives" } else { "Table 2" };
            (title, Some("test-dev"), tables::table2(&methods, &rows)?, to_value(rows)?)
        };
        let remarks = published.map_or_else(|| vec![setup.search_remark()], |split| setup.remarks(split));
        let tables = format!("{table}\n\n{}", remarks.join("\n"));
        Ok(Study { title, document: json!({ "rows": rows, "remarks": remarks }), tables, appendix, files })
    }
}

impl DetectionArgs {
    /// Returns the heads that are not trained again. A resumed run trains the missing ones.
    fn heads(&self) -> Option<TrainedHeads> {
        let resume = &self.task.resume;
        let path = self.heads.as_ref().or(resume.as_ref())?.clone();
        Some(TrainedHeads { path, train_missing: self.train_missing || resume.is_some() })
    }

    /// Returns the images of a scale.
    fn images(&self, scale: Scale) -> StudyImages {
        let folder = |name: &str| self.task.datasets.join(name);
        match scale {
            Scale::Mini => StudyImages::Scenes(folder("generated/detection")),
            Scale::People => StudyImages::Folder(folder("coco-person")),
            Scale::Paper => StudyImages::Coco(folder("coco")),
            _ => StudyImages::Folder(folder(&scale.name())),
        }
    }

    /// Returns the path of the detector's file: at paper scale the first published one that exists.
    fn base_weights(&self, scale: Scale) -> PathBuf {
        let names = match scale {
            Scale::Paper => DETECTORS.map(|(name, _)| name.to_owned()).to_vec(),
            _ => vec![format!("detector_{}.safetensors", scale.name())],
        };
        let known = |folder: &Path| names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        // A newly trained detector goes into the current folder's weights.
        let is_made = self.keep_base && scale != Scale::Paper;
        let (folder, file) = self.task.weights(|folder| if is_made { None } else { known(folder) });
        file.unwrap_or_else(|| folder.join(&names[0]))
    }

    /// Returns whether the detector is trained or read. At paper scale it is always read.
    fn base(&self, scale: Scale) -> Result<BaseOptions> {
        let (weights, from_scratch) = (self.base_weights(scale), self.from_scratch && scale != Scale::Paper);
        if !from_scratch && !weights.is_file() {
            let (place, hint) = (weights.display(), self.task.search_hint());
            bail!("{place} is missing{hint}; train it with --from-scratch --keep-base");
        }
        if let (true, Some(folder)) = (self.keep_base, weights.parent()) {
            create_dir(folder)?;
        }
        Ok(BaseOptions { from_scratch, keep: self.keep_base, weights, body: self.body.clone() })
    }

    /// Returns the methods that the arguments select.
    fn methods(&self, config: &ExperimentConfig) -> Result<Vec<MethodConfig>> {
        if self.figure.is_some() {
            return Ok(vec![config.method(ExperimentConfig::ENERGY)?.clone()]);
        }
        match self.methods.as_slice() {
            [] if self.objectives => Ok(config.objectives.clone()),
            [] => Ok(config.methods.clone()),
            given => given.iter().map(|key| Ok(config.method(key)?.clone())).collect(),
        }
    }
}
