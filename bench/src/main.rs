//! Our side of `bench/compare.py`, which times networks and kernels of this project, PyTorch and runtimes in turn.
//!
//! | file | content |
//! |---|---|
//! | `work.rs` | the rows of the table: tasks, sizes, goals, peers |
//! | `works/` | our side of each task |
//! | `worker.rs` | the process of one work |

mod pictures;
mod work;
mod worker;
mod works;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use ebm_ops::device::{Choice, Precision, open};

/// Lists the works, or runs one of them for `bench/compare.py`.
#[derive(Parser)]
struct Arguments {
    /// Take tiny sizes, whose times mean nothing.
    #[arg(long, global = true)]
    smoke: bool,
    /// Device to compute on: cpu, cuda or cuda:N.
    #[arg(long, global = true, default_value_t = Choice::Cpu)]
    device: Choice,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print all works as one JSON array.
    List,
    /// Write the pictures that a work reads.
    Pictures { work: String, folder: PathBuf },
    /// Run a work once for each line `run` on standard input, and answer with its seconds.
    Work { work: String, pictures: Option<PathBuf> },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let device = open(arguments.device)?.device;
    let works = work::works(arguments.smoke, !device.is_cpu());
    let named = |name: &str| {
        let found = works.iter().find(|work| work.name == name);
        found.with_context(|| format!("there is no work {name:?}; `ebm-bench list` has their names"))
    };
    // Both sides use TF32 on a GPU.
    Precision::default().set();
    let mut answers = std::io::stdout().lock();
    match arguments.action {
        Action::List => serde_json::to_writer(&mut answers, &works)?,
        Action::Pictures { work, folder } => pictures::write(named(&work)?.task, &folder)?,
        Action::Work { work, pictures } => {
            let requests = std::io::stdin().lock();
            worker::serve(named(&work)?, &device, pictures.as_deref(), requests, &mut answers)?;
        }
    }
    Ok(answers.flush()?)
}
