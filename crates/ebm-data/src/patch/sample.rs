//! Sampling of a patch's pixels.

use super::geometry::PatchGeometry;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::planes::Planes;
use crate::resize::Unfiltered;
use crate::transform::{Normalise, Tables};

/// Sampler that cuts patches out of images and reuses its memory.
pub struct PatchSampler {
    tables: Tables,
    memory: Unfiltered,
}

impl PatchSampler {
    /// Makes a sampler of normalised patches. [`Normalise::IDENTITY`] gives samples of 0 to 255.
    ///
    /// # Errors
    /// [`Error::Argument`] for numbers that are not finite, and a standard deviation of 0.
    pub fn new(normalise: &Normalise) -> Result<Self> {
        normalise.check()?;
        Ok(Self { tables: normalise.tables(), memory: Unfiltered::default() })
    }

    /// Writes the patch to `planes`, `(3, output, output)`. Beyond the image its last pixels repeat; the whole
    /// square may lie outside.
    ///
    /// # Errors
    /// [`Error::Argument`] if `planes` is not `3 · output²` long, [`Error::Failure`] for an image without pixels.
    pub fn sample(&mut self, image: &Image, geometry: &PatchGeometry, planes: &mut [f32]) -> Result<()> {
        image.check()?;
        let side = geometry.output();
        if planes.len() != 3 * side * side {
            let detail = format!("{} numbers are not (3, {side}, {side})", planes.len());
            return Err(Error::Argument { name: "planes", detail });
        }
        let (rows, columns) = (geometry.neighbours(0, image.height), geometry.neighbours(1, image.width));
        let mut planes = Planes::new(planes, (side, side));
        self.memory.interpolate(image, &self.tables, rows, columns, false, &mut planes);
        Ok(())
    }
}
