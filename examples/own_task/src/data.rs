//! A folder of square pictures with `counts.csv`: columns `file`, `count` and `split` (train, validation or test).

use std::path::Path;

use anyhow::{Context, Result, ensure};
use candle_core::{Device, Tensor};
use ebm_data::{decode::read_image, transform::Normalise};
use rand::{Rng, seq::index::sample};

/// The pictures of one split, in memory.
pub struct Split {
    /// `(N, 3, S, S)`, RGB, normalised.
    images: Tensor,
    /// y: the natural logarithm of each count. Counts differ by factors, and so do the errors in them.
    pub y: Vec<f32>,
}

impl Split {
    /// The pictures of `folder` that are of the split `name`.
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        let list = folder.join("counts.csv");
        let mut reader =
            csv::Reader::from_path(&list).with_context(|| format!("{} cannot be read", list.display()))?;
        let (mut pixels, mut y, mut side) = (Vec::new(), Vec::new(), 0);
        for (line, row) in reader.deserialize().enumerate() {
            let at = || format!("{}, line {}", list.display(), line + 2);
            let (file, count, split): (String, f32, String) = row.with_context(at)?;
            if split != name {
                continue;
            }
            ensure!(count >= 1.0, "{}: a count of {count}; at least 1 is expected", at());
            let image = read_image(&folder.join(&file))?;
            side = if y.is_empty() { image.width } else { side };
            ensure!(
                [image.width, image.height] == [side; 2],
                "{file} is not of {side} × {side} pixels as the first is"
            );
            pixels.extend(Normalise::IMAGENET.to_chw(&image));
            y.push(count.ln());
        }
        ensure!(!y.is_empty(), "{} has no picture of the split {name}", list.display());
        Ok(Self { images: Tensor::from_vec(pixels, (y.len(), 3, side, side), &Device::Cpu)?, y })
    }

    /// `size` different pictures, half of them mirrored: x `(B, 3, S, S)` and y `(B, 1)`.
    pub fn batch(&self, size: usize, rng: &mut impl Rng) -> Result<(Tensor, Tensor)> {
        let chosen = sample(rng, self.y.len(), size.min(self.y.len())).into_vec();
        let mut images = Vec::with_capacity(chosen.len());
        for &i in &chosen {
            let mut image = self.images.get(i)?;
            if rng.random() {
                image = image.flip(&[2])?;
            }
            images.push(image);
        }
        let y: Vec<f32> = chosen.iter().map(|&i| self.y[i]).collect();
        Ok((Tensor::stack(&images, 0)?, Tensor::from_vec(y, (chosen.len(), 1), &Device::Cpu)?))
    }

    /// Every picture in order, `(1, 3, S, S)` each.
    pub fn images(&self) -> impl Iterator<Item = candle_core::Result<Tensor>> {
        (0..self.y.len()).map(|i| self.images.narrow(0, i, 1))
    }
}
