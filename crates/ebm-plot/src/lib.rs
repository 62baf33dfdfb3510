//! Figures as SVG and PNG.
//!
//! A figure is a value that implements [`Figure`]: it checks its data and lays them out on a [`Sheet`], which is
//! drawn once for each of the two formats. Both formats share one geometry. Its unit is a pixel of the PNG, which
//! should be shown at half its size.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

#[macro_use]
mod error;

mod axis;
mod bitmap;
mod colour;
mod contour;
mod density_map;
mod plots;
mod sheet;

use std::path::{Path, PathBuf};

use ebm_data::{Image, encode::write_png, files::write_atomic};

pub use self::bitmap::{Label, label_width, labelled};
pub use self::density_map::{DensityMaps, DensityPanel};
pub use self::error::{Error, Result};
pub use self::plots::{DensityCurves, LinePlot, PointPanel, PointPlot, SeedPlot, SeedRow};
pub use self::sheet::Sheet;

/// A figure that can be drawn.
pub trait Figure {
    /// Lays the figure out.
    ///
    /// # Errors
    /// [`Error::Data`] for data that it cannot show.
    fn sheet(&self) -> Result<Sheet>;
}

/// Writes `out`.svg and `out`.png, each under its final name only when complete, and returns both paths.
///
/// # Errors
/// Fails for data that [`Figure::sheet`] refuses, or if a file cannot be written.
pub fn write(figure: &impl Figure, out: &Path) -> Result<[PathBuf; 2]> {
    let beside = |extension| out.with_added_extension(extension);
    let [svg, png] = [beside("svg"), beside("png")];
    let drawn = figure.sheet().and_then(|sheet| Ok((sheet.svg()?, sheet.image()?)));
    let (document, image) =
        drawn.map_err(|error| Error::Data(format!("the figure {}: {error}", out.display())))?;
    write_atomic(&svg, document.as_bytes())?;
    write_png(&png, &image)?;
    Ok([svg, png])
}

/// Draws the figure as pixels.
///
/// # Errors
/// Fails for data that [`Figure::sheet`] refuses.
pub fn render(figure: &impl Figure) -> Result<Image> {
    figure.sheet()?.image()
}

#[cfg(test)]
mod tests;
