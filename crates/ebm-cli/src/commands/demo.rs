//! `ebm demo`.

use anyhow::Result;
use clap::Args;
use ebm_demo::Models;
use ebm_experiment::config::Settings;
use ebm_face::AgeEstimator;
use ebm_toy::Experiment;

use super::predict::ModelArgs;
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
    /// The networks for ages: a run of `ebm train age` or `ebm reproduce age`. Without it those that are in this
    /// program.
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
    /// What estimates ages.
    fn ages(&self) -> Result<AgeEstimator> {
        Ok(match &self.age {
            Some(given) => AgeEstimator::open(given.local()?)?,
            None => AgeEstimator::bundled()?,
        })
    }
}
