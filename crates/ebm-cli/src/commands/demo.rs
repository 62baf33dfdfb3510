//! `ebm demo`.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use ebm_demo::Models;
use ebm_experiment::config::Settings;
use ebm_face::AgeEstimator;
use ebm_toy::Experiment;

use super::predict::ModelArgs;
use super::predict_face::AGE_RUN;
use crate::local_page;
use crate::model_path::ModelPath;
use crate::signals::Signals;

/// Arguments of `ebm demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// Port of 127.0.0.1 to listen at; 0: any that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Detections from this score on are shown.
    #[arg(long, default_value_t = 0.5)]
    min_score: f32,
    /// The networks for ages: a run of `ebm train age` or `ebm reproduce age`. Without it those of the repository,
    /// weights/age; where these are not, the page says so.
    #[arg(long, value_name = "RUN")]
    age: Option<ModelPath>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the command.
pub fn run(args: &DemoArgs, signals: &Signals) -> Result<()> {
    let signals = signals.listen()?;
    let detector = args.model.open(args.min_score)?;
    let models = Models::new(detector, args.min_score, Experiment::embedded("figure2")?, args.ages()?);
    let server = local_page::server(args.port, models)?;
    println!("{}", server.address());
    eprintln!("{}", local_page::HINT);
    server.run(&|| signals.arrived());
    Ok(())
}

impl DemoArgs {
    /// What estimates ages, or why nothing does.
    fn ages(&self) -> Result<Result<AgeEstimator, String>> {
        let own = Path::new(AGE_RUN);
        Ok(match &self.age {
            None if !own.is_dir() => Err(format!(
                "{AGE_RUN} is not in the folder that `ebm demo` was started in; start it in the repository's, or give --age"
            )),
            None => Ok(AgeEstimator::open(own)?),
            Some(given) => Ok(AgeEstimator::open(given.local()?)?),
        })
    }
}
