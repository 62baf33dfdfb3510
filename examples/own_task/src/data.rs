//! Data set: a folder of pictures of one size, with `counts.csv` of the columns `file`, `count` and `split`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use candle_core::{Device, Tensor};
use ebm_data::{decode::read_image, transform::Normalise};
use rand::{Rng, seq::index::sample};

/// Pictures of one split, `(3, S, S)` each, and their y: the logarithms of the counts, since counts differ by factors.
pub struct Split {
    pub x: Vec<Tensor>,
    pub y: Vec<f64>,
}

impl Split {
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        let list = folder.join("counts.csv");
        let mut rows = csv::Reader::from_path(&list).with_context(|| list.display().to_string())?;
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for row in rows.deserialize() {
            let (file, count, split): (String, f64, String) = row?;
            ensure!(count >= 1.0, "{file} has a count of {count}, and at least 1 is expected");
            if split == name {
                let image = read_image(&folder.join(file))?;
                let (pixels, shape) = (Normalise::IMAGENET.to_chw(&image), (3, image.height, image.width));
                x.push(Tensor::from_vec(pixels, shape, &Device::Cpu)?);
                y.push(count.ln());
            }
        }
        ensure!(!y.is_empty(), "{} has no picture of the split {name}", list.display());
        Ok(Self { x, y })
    }

    /// Draws `size` different pictures, mirrored at random: x `(B, 3, S, S)` and y `(B, 1)`.
    pub fn batch(&self, size: usize, rng: &mut impl Rng) -> Result<(Tensor, Tensor)> {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for i in sample(rng, self.y.len(), size.min(self.y.len())) {
            let sides: &[usize] = [&[][..], &[1], &[2], &[1, 2]][rng.random_range(0..4)];
            x.push(self.x[i].flip(sides)?);
            y.push(self.y[i] as f32);
        }
        Ok((Tensor::stack(&x, 0)?, Tensor::from_vec(y, (x.len(), 1), &Device::Cpu)?))
    }
}
