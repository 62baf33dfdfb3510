//! p(y | x) of one coordinate as a picture.

use anyhow::Result;
use ebm_core::GridDensity;
use ebm_data::Image;
use ebm_plot::DensityCurves;

/// The mass of the shaded highest-density region.
pub const LEVEL: f64 = 0.9;

/// The density with its region of mass [`LEVEL`]; `marks` outside its grid are left out.
pub fn density_panel(
    title: &str,
    y_label: &str,
    density: &GridDensity,
    marks: &[(f64, &str)],
) -> Result<Image> {
    let range = density.grid().lo()..=density.grid().hi();
    let inside = marks.iter().filter(|(y, _)| range.contains(y));
    Ok(ebm_plot::render(&DensityCurves {
        title,
        y_label,
        grid: &density.grid().points(),
        curves: &[("p(y|x)".to_owned(), density.log_prob_values().iter().map(|log_p| log_p.exp()).collect())],
        regions: &density.highest_density_region(LEVEL)?.intervals,
        marks: &inside.map(|(y, name)| (*y, (*name).to_owned())).collect::<Vec<_>>(),
    })?)
}
