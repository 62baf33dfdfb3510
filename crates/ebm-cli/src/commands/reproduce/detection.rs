//! `ebm reproduce detection`: Table 2.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_detect::{
    Method,
    config::ExperimentConfig,
    reproduce::{MiniOptions, PaperOptions, Row, Scenes, dry_run, mini, paper},
};
use ebm_eval::{Spread, Summary, Table};
use serde_json::json;

use super::print_plan;
use crate::commands::fresh_run;
use crate::progress::Console;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scale {
    /// Paper where COCO and the weights are there, otherwise mini.
    Auto,
    /// Generated scenes, minutes on a CPU.
    Mini,
    /// COCO 2017.
    Paper,
}

/// Arguments of `ebm reproduce detection`.
#[derive(Args)]
pub struct DetectionArgs {
    /// How large.
    #[arg(long, value_enum, default_value = "auto")]
    scale: Scale,
    /// Seeds of each trained head.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Mini: train the base detector too, instead of reading it from weights/.
    #[arg(long)]
    from_scratch: bool,
    /// With --from-scratch: store the new base detector in weights/.
    #[arg(long, requires = "from_scratch")]
    keep_base: bool,
    /// Paper: only the plan, the shapes, the memory and two steps.
    #[arg(long)]
    dry_run: bool,
    /// Where runs go.
    #[arg(long, default_value = "runs")]
    out: PathBuf,
    /// Where datasets are.
    #[arg(long, default_value = "datasets")]
    datasets: PathBuf,
    /// Where weights are.
    #[arg(long, default_value = "weights")]
    weights: PathBuf,
    /// Mini: smaller splits and fewer steps, to see that everything works; the results mean nothing.
    #[arg(long)]
    smoke: bool,
}

/// Runs the command.
pub fn run(args: DetectionArgs) -> Result<()> {
    let options = PaperOptions {
        coco: args.datasets.join("coco"),
        weights: args.weights.clone(),
        seeds: args.seeds,
        run: PathBuf::new(),
        device: Device::Cpu,
    };
    let missing = options.missing();
    let scale = match args.scale {
        Scale::Auto if missing.is_empty() || args.dry_run => Scale::Paper,
        Scale::Auto => {
            explain_mini(&missing);
            Scale::Mini
        }
        given => given,
    };
    let mut progress = Console::new();
    let (scale, rows) = match scale {
        Scale::Paper if args.dry_run => {
            let run = fresh_run(&args.out, "detection-dry")?;
            let plan = dry_run(&PaperOptions { run: run.clone(), ..options }, &run, &mut progress)?;
            let losses = plan.losses.iter().map(|(m, losses)| (m.key(), m.title(), losses.as_slice()));
            print_plan(&plan.lines, losses, args.json);
            return Ok(());
        }
        Scale::Paper => {
            if let Some(first) = missing.first() {
                anyhow::bail!(
                    "{} is missing; see datasets/README.md and weights/README.md, or run --scale mini or --dry-run",
                    first.display()
                );
            }
            let run = fresh_run(&args.out, "detection-paper")?;
            ("paper", paper(&PaperOptions { run, ..options }, &mut progress)?)
        }
        _ => ("mini", run_mini(&args, &mut progress)?),
    };
    let object = json!({ "scale": scale, "rows": rows });
    if args.json {
        println!("{object}");
    } else {
        println!("{}", table(&rows)?.render());
    }
    Ok(())
}

fn explain_mini(missing: &[PathBuf]) {
    let list: Vec<String> = missing.iter().map(|path| path.display().to_string()).collect();
    eprintln!(
        "Running at mini scale, on generated scenes and the project's own small detector, because {} {} missing; \
         datasets/README.md and weights/README.md say how to get the paper's.",
        list.join(", "),
        if list.len() == 1 { "is" } else { "are" }
    );
}

fn run_mini(args: &DetectionArgs, progress: &mut Console) -> Result<Vec<Row>> {
    let mut config = ExperimentConfig::embedded("mini")?;
    let mut scenes = Scenes::default();
    if args.smoke {
        scenes = Scenes { base: 16, heads: 16, validation: 4, test: 8 };
        for training in [&mut config.base, &mut config.ebm.training, &mut config.iou_net_star.training] {
            training.steps = 4;
        }
    }
    let base_weights = args.weights.join("detector_mini.safetensors");
    if !args.from_scratch && !base_weights.is_file() {
        anyhow::bail!("{} is missing; train it with --from-scratch --keep-base", base_weights.display());
    }
    let run = fresh_run(&args.out, "detection-mini")?;
    let options = MiniOptions {
        seeds: args.seeds,
        from_scratch: args.from_scratch,
        keep_base: args.keep_base,
        base_weights,
        data: args.datasets.join("generated/detection"),
        run: run.clone(),
        scenes,
    };
    let outcome = mini(&config, &options, progress)?;
    let report = run.join("report.md");
    write_report(&report, &outcome.rows)?;
    eprintln!("detections, checkpoints, metrics and report.md are in {}", run.display());
    Ok(outcome.rows)
}

fn write_report(path: &Path, rows: &[Row]) -> Result<()> {
    let text = format!("# Table 2, mini scale\n\n{}\n", table(rows)?.render());
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Mean ± sample standard deviation over seeds, beside the paper's figures.
fn table(rows: &[Row]) -> Result<Table> {
    let mut table = Table::new(["method", "AP", "AP50", "AP75", "boxes/s", "paper: AP", "AP50", "AP75"]);
    for method in Method::ALL {
        let own: Vec<&Row> = rows.iter().filter(|row| row.method == method).collect();
        let cell = |value: fn(&Row) -> f64| -> Result<String> {
            let values: Vec<f64> = own.iter().map(|row| 100.0 * value(row)).collect();
            // Direct is one detector, whatever the seed: a spread of zero would claim more than was measured.
            let shown = if method == Method::Direct { &values[..values.len().min(1)] } else { &values };
            Ok(Summary::new(shown)?.cell(Spread::StandardDeviation, 1))
        };
        let rates: Vec<f64> = own.iter().filter_map(|row| row.boxes_per_second).collect();
        let rate = if rates.is_empty() {
            "–".into()
        } else {
            Summary::new(&rates)?.cell(Spread::StandardDeviation, 0)
        };
        let [ap, ap50, ap75] = method.published().map(|value| format!("{value:.1}"));
        table.push([
            method.title().to_owned(),
            cell(|r| r.ap)?,
            cell(|r| r.ap50)?,
            cell(|r| r.ap75)?,
            rate,
            ap,
            ap50,
            ap75,
        ])?;
    }
    Ok(table)
}
