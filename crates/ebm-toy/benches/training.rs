//! Times trainings of the energy-based model of Figure 2 (ML-IS, M = 1024, batch 32). One request a line on
//! standard input, so that `training.py` can alternate with PyTorch in one run:
//!
//! ```text
//! cargo bench -p ebm-toy --bench training --no-run     (prints the path of the binary)
//! python crates/ebm-toy/benches/training.py BINARY > docs/results/toy_speed.csv     (torch)
//! ```
//!
//! A request is a number of epochs; the answer is seconds. The number of threads is rayon's
//! (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::time::Instant;

use ebm_experiment::config::Settings;
use ebm_seed::Key;
use ebm_toy::{Experiment, Problem, training_points};

// As in the `ebm` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut experiment = Experiment::embedded("figure2").unwrap();
    let method = experiment.methods.iter().find(|method| method.name == "ML-IS").unwrap().clone();
    let points = training_points(Problem::Dataset1);
    for (seed, line) in std::io::stdin().lock().lines().enumerate() {
        experiment.schedule.epochs = line.unwrap().trim().parse().unwrap();
        let start = Instant::now();
        experiment.train(&method, &points, Key::new(seed as u64)).unwrap();
        println!("{}", start.elapsed().as_secs_f64());
        std::io::stdout().flush().unwrap();
    }
}
