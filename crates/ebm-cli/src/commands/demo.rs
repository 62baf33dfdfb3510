//! `ebm demo`: a page for a browser on this machine.

use anyhow::Result;
use clap::Args;
use ebm_experiment::config::Settings;
use ebm_face::AgeEstimator;
use ebm_toy::Experiment;
use ebm_web::demo::Models;
use ebm_web::server::Server;

use super::predict::ModelArgs;
use crate::model_path::ModelPath;
use crate::signals::Signals;

/// Arguments of `ebm demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// Port of 127.0.0.1 to listen at; 0 takes any free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Lowest score of detections that are shown.
    #[arg(long, default_value_t = 0.5)]
    min_score: f32,
    /// Networks for ages: a run of `ebm train age` or `ebm reproduce age`. By default those that come with this
    /// program.
    #[arg(long, value_name = "RUN")]
    age: Option<ModelPath>,
    #[command(flatten)]
    model: ModelArgs,
}

pub fn run(args: &DemoArgs, signals: &Signals) -> Result<()> {
    let signals = signals.listen()?;
    let detector = args.model.open(args.min_score)?;
    let ages = match &args.age {
        Some(given) => AgeEstimator::open(given.local()?)?,
        None => AgeEstimator::bundled()?,
    };
    let models = Models::new(detector, args.min_score, Experiment::embedded("figure2")?, ages);
    let server = Server::bind(args.port, models)?;
    println!("{}", server.address());
    eprintln!("open this address in a browser on this machine; Ctrl-C ends it");
    server.run(&|| signals.arrived());
    Ok(())
}
