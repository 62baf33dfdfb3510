//! PrRoIPool of boxes that lie in several maps, on tensors and without a graph, for prediction.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::OP;
use super::pyramid::Pyramid;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::error::{Error, Result};
use crate::float::Float;
use crate::kernel::{Argument, Kernel, by_type};
use crate::layout::{ChannelsLast, channels_last};
use crate::storage::elements;

/// Most maps that boxes may lie in.
const LEVELS: usize = 4;

/// Maps of a batch at several scales, usually finest first: a [`Pyramid`] on any device.
///
/// Boxes are rows (level, image, x0, y0, x1, y1) in pixels of the image, `(R, 6)`. They have the type of the maps, f32 or
/// f64, and their device. Pooled tiles are (ph, pw, C), the order in which the kernels make them. On a GPU each function is
/// one launch, and a row that names no level or image of the batch, or is not finite, pools zeros. On the CPU such a row is
/// refused.
#[derive(Debug)]
pub struct Levels {
    /// Maps of the levels, with the last one repeated to fill the array.
    maps: [Tensor; LEVELS],
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Pixels of each map per pixel of the image.
    scales: [f64; LEVELS],
    count: usize,
    out: (usize, usize),
    channels: usize,
}

impl Levels {
    /// Takes each level's map (N, C, H, W), without its graph, and its pixels per image pixel, for at most four levels. Boxes
    /// are pooled to `out` = (ph, pw) bins.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no map, there are more than four, or two differ in N or C.
    pub fn new(levels: &[(&Tensor, f64)], out: (usize, usize)) -> Result<Self> {
        let refuse = |reason: String| Err(Error::Argument { op: OP, reason });
        let (Some((first, _)), true) = (levels.first(), levels.len() <= LEVELS) else {
            return refuse(format!("expected one to {LEVELS} maps, got {}", levels.len()));
        };
        let (images, channels, _, _) = first.dims4()?;
        if levels.iter().any(|(map, _)| map.dims().get(..2) != Some(&[images, channels])) {
            return refuse(
                "the levels must be maps of the same images and the same number of channels".to_owned(),
            );
        }
        levels.iter().try_for_each(|(_, scale)| crate::roi::check_settings(OP, out, *scale))?;
        let maps = levels.iter().map(|(map, _)| channels_last(&map.detach())).collect::<Result<Vec<_>>>()?;
        let at = |i: usize| i.min(levels.len() - 1);
        let settings =
            Settings { scales: std::array::from_fn(|i| levels[at(i)].1), count: levels.len(), out, channels };
        Ok(Self { maps: std::array::from_fn(|i| maps[at(i)].clone()), settings })
    }

    /// Pools the boxes `rois (R, 6)` to `(R, ph·pw·C)`.
    ///
    /// # Errors
    /// [`Error::Argument`] for another shape and, on the CPU, if a row is refused.
    pub fn pool(&self, rois: &Tensor) -> Result<Tensor> {
        check(rois)?;
        let [a, b, c, d] = &self.maps;
        Ok(Pool { settings: self.settings, shares: 0 }.run([&rois.contiguous()?, a, b, c, d])?)
    }

    /// Returns the gradient in the boxes' coordinates x0, y0, x1, y1, `(R, 4)` on the CPU, from `grad (R, ph·pw·C)`.
    ///
    /// # Errors
    /// The errors of [`pool`](Self::pool), and an error if `grad` is not of that shape.
    pub fn box_gradient(&self, rois: &Tensor, grad: &Tensor) -> Result<Tensor> {
        check(rois)?;
        let expected = self.settings.pooled(rois.dim(0)?);
        if grad.shape() != &expected {
            let reason = format!("expected a gradient {expected:?}, got {:?}", grad.shape());
            return Err(Error::Argument { op: OP, reason });
        }
        let [a, b, c, d] = &self.maps;
        let shares = if rois.device().is_cpu() { 1 } else { self.settings.out.0 };
        let (rois, grad) = (rois.contiguous()?, grad.contiguous()?);
        let found = Pool { settings: self.settings, shares }.run([&rois, a, b, c, d, &grad])?;
        Ok(found.to_device(&candle_core::Device::Cpu)?.sum(1)?)
    }
}

fn check(rois: &Tensor) -> Result<()> {
    match rois.dims() {
        &[_, 6] => Ok(()),
        other => {
            let reason = format!("rois must be (R, 6): level, image, x0, y0, x1, y1; not {other:?}");
            Err(Error::Argument { op: OP, reason })
        }
    }
}

impl Settings {
    fn pooled(&self, boxes: usize) -> Shape {
        Shape::from((boxes, self.out.0 * self.out.1 * self.channels))
    }

    /// Computes on the CPU the pooled boxes of the rows (level, image, x0, y0, x1, y1), or from the gradient in these the
    /// gradient in the boxes.
    fn on_host<T: Float>(
        &self,
        rows: &[T],
        maps: &[Argument<'_>],
        grad: Option<&Argument<'_>>,
    ) -> Result<Vec<T>> {
        let levels = maps.iter().zip(self.scales).take(self.count);
        let levels = levels.map(|(map, scale)| Ok((ChannelsLast::of_storage(map.0, map.1)?, scale)));
        let pyramid = Pyramid::new(levels.collect::<CandleResult<_>>()?, self.out)?;
        let rows = rows.as_chunks::<6>().0;
        // A number that is no level is refused as a level that does not exist.
        let level = |row: &[T; 6]| {
            let number = row[0].to_f64();
            if number >= 0.0 && number.fract() == 0.0 { number as usize } else { usize::MAX }
        };
        let levels: Vec<usize> = rows.iter().map(level).collect();
        let boxes: Vec<T> = rows.iter().flat_map(|row| row[1..].iter().copied()).collect();
        if let Some(grad) = grad {
            return Ok(pyramid.backward_rois(&boxes, &levels, elements(grad.0, grad.1)?)?.concat());
        }
        let mut tiles = vec![T::zero(); levels.len() * pyramid.tile_len()];
        pyramid.pool(&boxes, &levels, &mut tiles)?;
        Ok(tiles)
    }
}

/// Kernel `(rois, maps) -> (R, ph·pw·C)`. With the gradient in this as the last argument, it gives `(R, shares, 4)`, whose
/// sums are the gradient in the boxes.
struct Pool {
    settings: Settings,
    shares: usize,
}

impl<const N: usize> Kernel<N> for Pool {
    const NAME: &'static str = OP;
    const STRIDED: bool = true;

    fn shape(&self, arguments: [&Shape; N]) -> CandleResult<Shape> {
        let (boxes, _) = arguments[0].dims2()?;
        Ok(if N > 1 + LEVELS { Shape::from((boxes, self.shares, 4)) } else { self.settings.pooled(boxes) })
    }

    fn cpu(&self, arguments: [Argument<'_>; N]) -> CandleResult<CpuStorage> {
        let (maps, grad) = (&arguments[1..=LEVELS], arguments.get(1 + LEVELS));
        by_type!(OP, [arguments[0]], |[rows]| {
            self.settings.on_host(rows, maps, grad).map_err(candle_core::Error::wrap)?
        })
    }

    /// Launches the kernels of `levels.cu`.
    #[cfg(feature = "cuda")]
    fn cuda(&self, arguments: [cuda::Argument<'_>; N]) -> cuda::Made {
        /// Threads of a block, as in `levels.cu`.
        const THREADS: usize = 256;
        let (rois, maps, grad) = (arguments[0], &arguments[1..=LEVELS], arguments.get(1 + LEVELS));
        let (device, (boxes, _), out) = (cuda::device(rois), rois.1.shape().dims2()?, self.settings.out);
        // Height and width of each map.
        let mut extents = [[0; 2]; LEVELS];
        for (extents, (_, layout)) in extents.iter_mut().zip(maps) {
            let (_, _, height, width) = layout.shape().dims4()?;
            *extents = cuda::sizes([height, width])?;
        }
        let (images, channels, _, _) = maps[0].1.shape().dims4()?;
        let [levels, images, channels, rows, columns] =
            &cuda::sizes([self.settings.count, images, channels, out.0, out.1])?;
        let ([[h0, w0], [h1, w1], [h2, w2], [h3, w3]], [s0, s1, s2, s3]) = (&extents, &self.settings.scales);
        let innermost = |i: usize| maps[i].1.permute(&[0, 2, 3, 1]);
        let layouts = [innermost(0)?, innermost(1)?, innermost(2)?, innermost(3)?];
        let threads = boxes * out.0 * THREADS;
        cuda::by_type!(rois, OP, T => {
            let map = |i: usize| cuda::elements::<T>((maps[i].0, &layouts[i]));
            let (boxes_at, [a, b, c, d]) = (cuda::elements::<T>(rois)?, [map(0)?, map(1)?, map(2)?, map(3)?]);
            if let Some(grad) = grad {
                let grad = cuda::elements::<T>(*grad)?;
                return cuda::made!(device, LEVELS::"levels_slopes", T, threads => 4 * boxes * out.0;
                    &boxes_at, &grad; &a, h0, w0, s0, &b, h1, w1, s1, &c, h2, w2, s2, &d, h3, w3, s3,
                    levels, images, channels, rows, columns);
            }
            cuda::made!(device, LEVELS::"levels_pool", T, threads => self.settings.pooled(boxes).elem_count();
                &boxes_at; &a, h0, w0, s0, &b, h1, w1, s1, &c, h2, w2, s2, &d, h3, w3, s3,
                levels, images, channels, rows, columns)
        })
    }
}
