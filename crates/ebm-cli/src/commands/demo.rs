//! `ebm demo`.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};
use clap::Args;
use ebm_demo::{Models, Server};

use super::predict::ModelArgs;
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
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the command.
pub fn run(args: &DemoArgs, signals: &Signals) -> Result<()> {
    let signals = signals.listen()?;
    let models = Models::new(args.model.open(args.min_score)?, args.min_score);
    let server = Server::bind(args.port, models, secret()?)?;
    println!("{}", server.address());
    eprintln!("open this address in a browser on this machine; Ctrl-C ends it");
    server.run(&|| signals.arrived());
    Ok(())
}

/// Random bytes of the system, which nobody can guess.
fn secret() -> Result<[u8; 16]> {
    const SOURCE: &str = "/dev/urandom";
    let mut secret = [0; 16];
    let read = File::open(SOURCE).and_then(|mut source| source.read_exact(&mut secret));
    read.with_context(|| format!("cannot read random bytes from {SOURCE} for the page's token"))?;
    Ok(secret)
}
