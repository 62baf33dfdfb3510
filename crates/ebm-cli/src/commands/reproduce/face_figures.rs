//! The figures of `ebm reproduce age` and `head-pose`: p(y | x) beside its image.

use std::path::Path;

use anyhow::Result;
use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_face::config::ExperimentConfig;
use ebm_face::reproduce::{Data, Example, Outcome};

use ebm_plot::{DensityMaps, DensityPanel};

use crate::picture::{density_panel, grid, level};

/// One sheet of all examples, a row for each: the image, then the density of each coordinate, or of both
/// where there are two.
pub fn figures(run: &Path, config: &ExperimentConfig, data: &Data, outcome: &Outcome) -> Result<()> {
    if outcome.examples.is_empty() {
        return Ok(());
    }
    let baseline = config.methods.first().map_or("baseline", |method| method.title.as_str());
    let mut rows = Vec::new();
    for example in &outcome.examples {
        let Some(face) = data.results().faces.get(example.index) else { continue };
        let image = face.pixels.decode()?;
        if let Some(density) = &example.joint {
            rows.push(level(&[image, joint_panel(config, example, density)?]));
            continue;
        }
        let mut curves = vec![image];
        for (k, name) in config.coordinates.iter().enumerate() {
            let [before, after] = example.estimate.each_ref().map(|estimate| estimate[k]);
            curves.push(density_panel(
                &format!("{}: {name}", example.reason),
                &format!("{name} in {}", config.unit),
                &example.density[k],
                &[(example.target[k], "truth"), (before, baseline), (after, "refined")],
            )?);
        }
        rows.push(level(&curves));
    }
    Ok(write_png(&run.join("densities.png"), &grid(&rows, [255; 3])?)?)
}

/// p(y | x) of a y with two coordinates, with the truth as a point.
fn joint_panel(config: &ExperimentConfig, example: &Example, density: &[Vec<f64>]) -> Result<Image> {
    let range = || config.density.lo()..config.density.hi();
    let title = format!("{}, {}", example.reason, config.unit);
    let points: Vec<(f64, f64)> = example.target.chunks_exact(2).map(|y| (y[0], y[1])).collect();
    let panels = [DensityPanel { title: &title, density, points: &points }];
    let names = [0, 1].map(|k| config.coordinates[k].as_str());
    Ok(ebm_plot::render(&DensityMaps { x: range(), y: range(), names, panels: &panels })?)
}
