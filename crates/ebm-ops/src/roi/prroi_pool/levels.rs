//! PrRoIPool of boxes that lie in several maps, on tensors and without a graph: for prediction.

use candle_core::{CpuStorage, Result as CandleResult, Shape, Tensor};

use super::OP;
use super::pyramid::Pyramid;
use crate::error::{Error, Result};
use crate::float::Float;
use crate::kernel::{Argument, Kernel, by_type};
use crate::layout::{ChannelsLast, channels_last};

/// Most maps that boxes may lie in.
const LEVELS: usize = 4;

/// The maps of a batch at several scales, finest first as a rule: a [`Pyramid`] on any device.
///
/// Boxes are rows (level, image, x0, y0, x1, y1) in pixels of the image, `(R, 6)`, of the maps' type, f32 or
/// f64, on their device. Pooled tiles are (ph, pw, C), the order in which the kernels make them. On a GPU each
/// function is one launch, and a row that names no level or image of the batch, or is not finite, pools zeros;
/// on the CPU it is refused.
#[derive(Debug)]
pub struct Levels {
    /// Some, the last one repeated.
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
    /// Each level's map (N, C, H, W), without its history, and its pixels per image pixel; boxes are pooled to
    /// `out` = (ph, pw) bins. At most four levels.
    ///
    /// # Errors
    /// [`Error::Argument`] where there is no map, or too many, or two differ in N or C.
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

    /// The boxes `rois (R, 6)` pooled, `(R, ph·pw·C)`.
    ///
    /// # Errors
    /// [`Error::Argument`] for another shape; on the CPU, where a row is refused.
    pub fn pool(&self, rois: &Tensor) -> Result<Tensor> {
        check(rois)?;
        let [a, b, c, d] = &self.maps;
        Ok(Pool(self.settings).run([&rois.contiguous()?, a, b, c, d])?)
    }

    /// The gradient in the boxes' coordinates x0, y0, x1, y1, `(R, 4)` on the CPU, from `grad (R, ph·pw·C)`.
    ///
    /// # Errors
    /// As [`pool`](Self::pool), and where `grad` is not of that shape.
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
        let found = Slopes { settings: self.settings, shares }.run([&rois, &grad, a, b, c, d])?;
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

    /// On the CPU: what `run` makes of the pyramid of `maps`, the rows (image, x0, y0, x1, y1) and their levels.
    fn on_host<T: Float>(
        &self,
        rows: &[T],
        maps: &[Argument<'_>],
        run: impl FnOnce(&Pyramid<'_, T>, &[T], &[usize]) -> Result<Vec<T>>,
    ) -> CandleResult<Vec<T>> {
        let levels = maps.iter().zip(self.scales).take(self.count);
        let levels = levels.map(|(map, scale)| Ok((ChannelsLast::of_storage(map.0, map.1)?, scale)));
        let pyramid = Pyramid::new(levels.collect::<CandleResult<_>>()?, self.out);
        let rows = rows.as_chunks::<6>().0;
        // What is no number of a level is refused as one that is not there.
        let level = |row: &[T; 6]| {
            let number = row[0].to_f64();
            if number >= 0.0 && number.fract() == 0.0 { number as usize } else { usize::MAX }
        };
        let levels: Vec<usize> = rows.iter().map(level).collect();
        let boxes: Vec<T> = rows.iter().flat_map(|row| row[1..].iter().copied()).collect();
        pyramid.and_then(|pyramid| run(&pyramid, &boxes, &levels)).map_err(candle_core::Error::wrap)
    }

    fn pooled_on_host<T: Float>(&self, rows: &[T], maps: &[Argument<'_>]) -> CandleResult<Vec<T>> {
        self.on_host(rows, maps, |pyramid, boxes, levels| {
            let mut tiles = vec![T::zero(); levels.len() * pyramid.tile_len()];
            pyramid.pool(boxes, levels, &mut tiles)?;
            Ok(tiles)
        })
    }

    fn slopes_on_host<T: Float>(
        &self,
        [rows, grad]: [&[T]; 2],
        maps: &[Argument<'_>],
    ) -> CandleResult<Vec<T>> {
        self.on_host(rows, maps, |pyramid, boxes, levels| {
            Ok(pyramid.backward_rois(boxes, levels, grad)?.concat())
        })
    }
}

/// `(rois, maps) -> (R, ph·pw·C)`.
struct Pool(Settings);

impl Kernel<{ 1 + LEVELS }> for Pool {
    const STRIDED: bool = true;

    fn name(&self) -> &'static str {
        OP
    }

    fn shape(&self, [rois, ..]: [&Shape; 1 + LEVELS]) -> CandleResult<Shape> {
        Ok(self.0.pooled(rois.dims2()?.0))
    }

    fn cpu(&self, [rois, maps @ ..]: [Argument<'_>; 1 + LEVELS]) -> CandleResult<CpuStorage> {
        by_type!(OP, [rois], |[rows]| self.0.pooled_on_host(rows, &maps)?)
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        [rois, maps @ ..]: [crate::cuda::Argument<'_>; 1 + LEVELS],
    ) -> CandleResult<candle_core::CudaStorage> {
        device::run(&self.0, rois, None, maps)
    }
}

/// `(rois, gradient of the pooled boxes, maps) -> (R, shares, 4)`, whose sums are the gradient in the boxes.
struct Slopes {
    settings: Settings,
    shares: usize,
}

impl Kernel<{ 2 + LEVELS }> for Slopes {
    const STRIDED: bool = true;

    fn name(&self) -> &'static str {
        OP
    }

    fn shape(&self, [rois, ..]: [&Shape; 2 + LEVELS]) -> CandleResult<Shape> {
        Ok(Shape::from((rois.dims2()?.0, self.shares, 4)))
    }

    fn cpu(&self, [rois, grad, maps @ ..]: [Argument<'_>; 2 + LEVELS]) -> CandleResult<CpuStorage> {
        by_type!(OP, [rois, grad], |numbers| self.settings.slopes_on_host(numbers, &maps)?)
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        [rois, grad, maps @ ..]: [crate::cuda::Argument<'_>; 2 + LEVELS],
    ) -> CandleResult<candle_core::CudaStorage> {
        device::run(&self.settings, rois, Some(grad), maps)
    }
}

/// On a GPU (`levels.cu`).
#[cfg(feature = "cuda")]
mod device {
    use candle_core::backend::BackendStorage;
    use candle_core::cuda_backend::cudarc::driver::CudaView;
    use candle_core::{CudaStorage, Result};

    use super::{LEVELS, Settings};
    use crate::cuda::{Argument, Element, by_type, elements, launch, sizes, unwritten};

    /// Threads of a block, as in `levels.cu`.
    const THREADS: usize = 256;

    /// The maps in pixels (height, width), and images, channels.
    fn extents(maps: &[Argument<'_>; LEVELS], settings: &Settings) -> Result<([[i32; 2]; LEVELS], [i32; 5])> {
        let mut of = [[0; 2]; LEVELS];
        for (of, (_, layout)) in of.iter_mut().zip(maps) {
            let (_, _, height, width) = layout.shape().dims4()?;
            *of = sizes([height, width])?;
        }
        let (images, channels, _, _) = maps[0].1.shape().dims4()?;
        let (rows, columns) = settings.out;
        Ok((of, sizes([settings.count, images, channels, rows, columns])?))
    }

    macro_rules! launch_levels {
        ($name:literal, $t:ty, $settings:expr, $rois:expr, $maps:expr; $($argument:expr),*) => {{
            let ([h0, h1, h2, h3], [levels, images, channels, rows, columns]) = extents(&$maps, $settings)?;
            let [a, b, c, d] = &$maps;
            let [a, b, c, d] = [innermost::<$t>(a)?, innermost::<$t>(b)?, innermost::<$t>(c)?, innermost::<$t>(d)?];
            let [s0, s1, s2, s3] = &$settings.scales;
            let boxes = elements::<$t>($rois.0, $rois.1)?;
            let blocks = $rois.1.shape().dims2()?.0 * $settings.out.0;
            launch!($rois.0.device(), LEVELS::$name, $t, blocks * THREADS;
                &boxes, $($argument,)* &a, &h0[0], &h0[1], s0, &b, &h1[0], &h1[1], s1, &c, &h2[0], &h2[1], s2,
                &d, &h3[0], &h3[1], s3, &levels, &images, &channels, &rows, &columns);
        }};
    }

    /// The pooled boxes, or with the gradient in those the shares of the boxes' own.
    pub(super) fn run(
        settings: &Settings,
        rois: Argument<'_>,
        grad: Option<Argument<'_>>,
        maps: [Argument<'_>; LEVELS],
    ) -> Result<CudaStorage> {
        fn typed<T: Element>(
            settings: &Settings,
            rois: Argument<'_>,
            grad: Option<Argument<'_>>,
            maps: [Argument<'_>; LEVELS],
        ) -> Result<CudaStorage> {
            let (device, boxes) = (rois.0.device(), rois.1.shape().dims2()?.0);
            let mut to;
            if let Some(grad) = grad {
                to = unwritten::<T>(device, 4 * boxes * settings.out.0)?;
                let grad = elements::<T>(grad.0, grad.1)?;
                launch_levels!("levels_slopes", T, settings, rois, maps; &grad, &mut to);
            } else {
                to = unwritten::<T>(device, settings.pooled(boxes).elem_count())?;
                launch_levels!("levels_pool", T, settings, rois, maps; &mut to);
            }
            Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
        }
        by_type!(rois.0, super::OP, typed(settings, rois, grad, maps))
    }

    /// The numbers of a map (N, C, H, W) with the channels innermost.
    fn innermost<'a, T: Element>(map: &Argument<'a>) -> Result<CudaView<'a, T>> {
        elements(map.0, &map.1.permute(&[0, 2, 3, 1])?)
    }
}
