//! Figures as SVG and PNG.
//!
//! A figure is a value that implements [`Figure`]: it checks its data, tells its size and draws itself on a
//! [`Canvas`], once for each of the two formats. Both formats share one geometry; its unit is a pixel of the
//! PNG, which is meant to be shown at half its size.

#[macro_use]
mod error;

mod axes;
mod bitmap;
mod canvas;
mod colour;
mod contour;
mod density_curve;
mod density_map;
mod label;
mod lines;
mod marks;
mod points;
mod seeds;
mod simplify;
mod text;

use std::path::{Path, PathBuf};

use ebm_data::{Image, encode::write_png, files::write_atomic};
use plotters_backend::DrawingBackend;
use plotters_svg::SVGBackend;

use self::bitmap::Bitmap;
pub use self::canvas::Canvas;
pub use self::density_curve::DensityCurves;
pub use self::density_map::{DensityMaps, DensityPanel};
pub use self::error::{Error, Result};
pub use self::label::{Label, label_width, labelled};
pub use self::lines::LinePlot;
pub use self::points::{PointPanel, PointPlot};
pub use self::seeds::{SeedPlot, SeedRow};

/// What can be drawn.
pub trait Figure {
    /// Refuses data that cannot be drawn; [`Self::size`] and [`Self::draw`] rely on it.
    fn check(&self) -> Result<()>;

    /// Width and height in pixels.
    fn size(&self) -> Result<(u32, u32)>;

    /// Draws on a white canvas of [`Self::size`].
    fn draw<B: DrawingBackend>(&self, canvas: &mut Canvas<B>) -> Result<()>;
}

/// Writes `out`.svg and `out`.png, each under its final name only when complete, and returns the two paths.
///
/// # Errors
/// Data that [`Figure::check`] refuses, or a file that cannot be written.
pub fn write(figure: &impl Figure, out: &Path) -> Result<[PathBuf; 2]> {
    let Some(name) = out.file_name() else { bail!("{} names no file", out.display()) };
    let beside = |extension: &str| {
        let mut name = name.to_owned();
        name.push(extension);
        out.with_file_name(name)
    };
    let [svg, png] = [beside(".svg"), beside(".png")];
    figure.check().map_err(|source| Error::Figure { path: out.to_owned(), source: Box::new(source) })?;
    let (width, height) = figure.size()?;

    let mut document = String::new();
    draw(figure, &mut SVGBackend::with_string(&mut document, (width, height)))?;
    let image = render(figure)?;

    write_atomic(&svg, document.as_bytes())?;
    write_png(&png, &image)?;
    Ok([svg, png])
}

/// The figure as pixels.
///
/// # Errors
/// Data that [`Figure::check`] refuses.
pub fn render(figure: &impl Figure) -> Result<Image> {
    figure.check()?;
    let (width, height) = figure.size()?;
    let mut bitmap = Bitmap::white(width, height)?;
    draw(figure, &mut bitmap)?;
    Ok(bitmap.into_image())
}

fn draw<B: DrawingBackend>(figure: &impl Figure, backend: &mut B) -> Result<()> {
    let mut canvas = Canvas::new(backend);
    canvas.clear()?;
    figure.draw(&mut canvas)?;
    canvas.finish()
}

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
