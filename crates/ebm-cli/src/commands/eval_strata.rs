//! `ebm eval strata`: where refinement helps.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_detect::reproduce::{StratumRow, strata};
use ebm_eval::{Spread, Table, read_results};
use ebm_plot::{GainPanel, GainPlot, GainRow, Measured};
use ebm_seed::Key;
use serde_json::json;

use super::{create_dir, dataset_name};
use crate::schema::document;

/// Samples of the images for the standard errors.
pub const REPLICATES: usize = 200;

/// Arguments of `ebm eval strata`.
#[derive(Args)]
pub struct StrataArgs {
    /// Annotations of generated scenes, with each object's occlusion, blur and so on.
    #[arg(long)]
    annotations: PathBuf,
    /// COCO result file of Faster-RCNN itself.
    #[arg(long)]
    direct: PathBuf,
    /// COCO result file after refinement; once for each seed.
    #[arg(long, required = true)]
    refined: Vec<PathBuf>,
    /// Where strata.csv, strata.png and strata.svg go.
    #[arg(long)]
    out: PathBuf,
    /// Samples of the images for the standard errors; 0 for none.
    #[arg(long, default_value_t = REPLICATES)]
    replicates: usize,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &StrataArgs) -> Result<()> {
    let direct = read_results(&args.direct)?;
    let refined = args.refined.iter().map(|path| read_results(path)).collect::<Result<Vec<_>, _>>()?;
    let rows = strata(&args.annotations, &direct, &refined, args.replicates, key())?;
    let table = table(&rows)?.render();
    let levels = [("refined".to_owned(), rows)];
    write(&args.out, &levels)?;
    let [(_, rows)] = &levels;
    if args.json {
        println!(
            "{}",
            document("eval strata", json!({ "dataset": dataset_name(&args.annotations), "rows": rows }))
        );
    } else {
        print!("{table}");
    }
    eprintln!("strata.csv, strata.png and strata.svg are in {}", args.out.display());
    Ok(())
}

/// Of the samples of the images: the same for every comparison.
pub fn key() -> Key {
    Key::new(0).split("strata")
}

/// The rows as text, in percent; ± is the standard deviation over seeds for AP, the standard error over
/// images for gains.
pub fn table(rows: &[StratumRow]) -> Result<Table> {
    let mut table = Table::new([
        "stratum",
        "objects",
        "AP Direct",
        "AP refined",
        "gain",
        "found by both",
        "IoU Direct",
        "IoU refined",
        "gain in IoU",
    ]);
    for row in rows {
        let overlap = row.overlap.as_ref();
        let none = || "–".to_owned();
        table.push([
            format!("{} {}", row.attribute, row.bin),
            row.objects.to_string(),
            format!("{:.1}", 100.0 * row.ap_direct),
            with_error(row.ap_refined.mean, row.ap_refined.spread(Spread::StandardDeviation)),
            format!("{}{}", sign(row.ap_gain), with_error(row.ap_gain, row.ap_gain_error)),
            row.found.to_string(),
            overlap.map_or_else(none, |o| format!("{:.1}", 100.0 * o.direct)),
            overlap.map_or_else(none, |o| {
                with_error(o.refined.mean, o.refined.spread(Spread::StandardDeviation))
            }),
            overlap.map_or_else(none, |o| format!("{}{}", sign(o.gain), with_error(o.gain, o.gain_error))),
        ])?;
    }
    Ok(table)
}

fn sign(gain: f64) -> &'static str {
    if gain >= 0.0 { "+" } else { "" }
}

fn with_error(value: f64, error: Option<f64>) -> String {
    match error {
        Some(error) => format!("{:.1} ± {:.1}", 100.0 * value, 100.0 * error),
        None => format!("{:.1}", 100.0 * value),
    }
}

/// Writes strata.csv, strata.png and strata.svg of one to four named sets of rows, such as levels of
/// difficulty.
///
/// # Errors
/// When there is no row, or a file cannot be written.
pub fn write(out: &Path, levels: &[(String, Vec<StratumRow>)]) -> Result<()> {
    create_dir(out)?;
    write_atomic(&out.join("strata.csv"), csv(levels)?.as_bytes())?;
    let series: Vec<String> = levels.iter().map(|(name, _)| name.clone()).collect();
    let ap = |row: &StratumRow| Some((row.ap_gain, row.ap_gain_error));
    let iou = |row: &StratumRow| row.overlap.as_ref().map(|o| (o.gain, o.gain_error));
    let rows = [
        GainRow { label: "gain in AP, in points".to_owned(), panels: panels(levels, ap) },
        GainRow {
            label: "gain in mean IoU of the objects found before and after, in points".to_owned(),
            panels: panels(levels, iou),
        },
    ];
    let title = "Gain of refinement over Faster-RCNN, by what makes a box uncertain";
    ebm_plot::write(&GainPlot { title, series: &series, rows: &rows }, &out.join("strata"))?;
    Ok(())
}

/// One panel for each attribute, with the bins of all levels in the order of the first that has them.
fn panels(
    levels: &[(String, Vec<StratumRow>)],
    gain: impl Fn(&StratumRow) -> Option<(f64, Option<f64>)>,
) -> Vec<GainPanel> {
    let mut panels: Vec<GainPanel> = Vec::new();
    for row in levels.iter().flat_map(|(_, rows)| rows) {
        let at = panels.iter().position(|panel| panel.name == row.attribute).unwrap_or_else(|| {
            panels.push(GainPanel { name: row.attribute.clone(), bins: Vec::new(), values: Vec::new() });
            panels.len() - 1
        });
        if !panels[at].bins.contains(&row.bin) {
            panels[at].bins.push(row.bin.clone());
        }
    }
    for panel in &mut panels {
        let of_level = |rows: &Vec<StratumRow>| -> Vec<Option<Measured>> {
            let of_bin = |bin: &String| {
                let row = rows.iter().find(|row| row.attribute == panel.name && row.bin == *bin)?;
                let (value, error) = gain(row)?;
                Some(Measured { value: 100.0 * value, error: 100.0 * error.unwrap_or(0.0) })
            };
            panel.bins.iter().map(of_bin).collect()
        };
        panel.values = levels.iter().map(|(_, rows)| of_level(rows)).collect();
    }
    panels
}

fn csv(levels: &[(String, Vec<StratumRow>)]) -> Result<String> {
    let mut text = String::from(
        "level,attribute,bin,objects,ap_direct,ap_refined,ap_refined_sd,ap_gain,ap_gain_error,found,iou_direct,\
         iou_refined,iou_refined_sd,iou_gain,iou_gain_error\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
    for (level, rows) in levels {
        for row in rows {
            let overlap = row.overlap.as_ref();
            let numbers = [
                Some(row.ap_direct),
                Some(row.ap_refined.mean),
                row.ap_refined.standard_deviation,
                Some(row.ap_gain),
                row.ap_gain_error,
            ]
            .map(number)
            .join(",");
            let overlaps = [
                overlap.map(|o| o.direct),
                overlap.map(|o| o.refined.mean),
                overlap.and_then(|o| o.refined.standard_deviation),
                overlap.map(|o| o.gain),
                overlap.and_then(|o| o.gain_error),
            ]
            .map(number)
            .join(",");
            let StratumRow { attribute, bin, objects, found, .. } = row;
            writeln!(text, "{level},{attribute},{bin},{objects},{numbers},{found},{overlaps}")?;
        }
    }
    Ok(text)
}
