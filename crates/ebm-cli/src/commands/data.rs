//! `ebm data`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use ebm_data::scenes::{Difficulty, SceneConfig, generate};
use ebm_seed::Key;

/// What to make.
#[derive(Subcommand)]
pub enum Data {
    /// Generate detection scenes in COCO format.
    Scenes {
        /// Where they go; must not exist, unless it holds the same scenes already.
        #[arg(long)]
        out: PathBuf,
        /// How many.
        #[arg(long, default_value_t = 100)]
        count: usize,
        /// Seed; scene i of a seed is the same whatever the count.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// easy, normal or hard.
        #[arg(long, default_value = "normal")]
        difficulty: String,
    },
}

/// Runs the command.
pub fn run(command: Data) -> Result<()> {
    let Data::Scenes { out, count, seed, difficulty } = command;
    let difficulty = match difficulty.as_str() {
        "easy" => Difficulty::Easy,
        "normal" => Difficulty::Normal,
        "hard" => Difficulty::Hard,
        other => anyhow::bail!("--difficulty {other}: there are easy, normal and hard"),
    };
    let set = generate(&out, &SceneConfig::preset(difficulty), count, Key::new(seed))?;
    println!("{}", set.annotations.display());
    Ok(())
}
