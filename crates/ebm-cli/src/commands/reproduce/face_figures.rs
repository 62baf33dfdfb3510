//! The figures of `ebm reproduce age` and `head-pose`: p(y | x) beside its image.

use std::path::Path;

use anyhow::Result;
use ebm_data::encode::write_png;
use ebm_face::config::ExperimentConfig;
use ebm_face::reproduce::{Data, Outcome};

use crate::picture::{density_panel, grid, level};

/// One sheet of all examples, a row for each: the image, then the density of each coordinate.
pub fn figures(run: &Path, config: &ExperimentConfig, data: &Data, outcome: &Outcome) -> Result<()> {
    if outcome.examples.is_empty() {
        return Ok(());
    }
    let baseline = config.methods.first().map_or("baseline", |method| method.title.as_str());
    let mut rows = Vec::new();
    for example in &outcome.examples {
        let Some(face) = data.results().faces.get(example.index) else { continue };
        let mut panels = vec![face.pixels.decode()?];
        for (k, name) in config.coordinates.iter().enumerate() {
            let [before, after] = example.estimate.each_ref().map(|estimate| estimate[k]);
            panels.push(density_panel(
                &format!("{}: {name}", example.reason),
                &format!("{name} in {}", config.unit),
                &example.density[k],
                &[(example.target[k], "truth"), (before, baseline), (after, "refined")],
            )?);
        }
        rows.push(level(&panels));
    }
    Ok(write_png(&run.join("densities.png"), &grid(&rows, [255; 3])?)?)
}
