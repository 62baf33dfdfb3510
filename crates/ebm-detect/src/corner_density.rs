//! p(y | x) of a box as the paper's Figure 1 shows it: where a corner may lie, and where each edge.
//!
//! Importance samples of the four coordinates together (Eq. 1, about the refined box, from Eq. 5's mixture)
//! give every marginal by leaving coordinates out; a kernel makes a density of the weighted points. The
//! widths of the kernels follow Silverman's rule for the effective sample size, which broadens what it shows
//! by a few per cent.

mod corner_map;

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, GaussianMixture, Grid, GridDensity, ImportanceDensity, Region};
use ebm_nn::boxes::{BBox, BoxConvention};
use rand::RngCore;

use crate::{
    energy_head::BoxFeatures,
    error::{Error, Result},
};

pub use corner_map::CornerMap;

/// One of the four corners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Left and top edge.
    TopLeft,
    /// Right and top edge, the corner of Figure 1.
    TopRight,
    /// Left and bottom edge.
    BottomLeft,
    /// Right and bottom edge.
    BottomRight,
}

impl Corner {
    /// The places of its x and y in `[left, top, right, bottom]`.
    pub fn coordinates(self) -> [usize; 2] {
        match self {
            Self::TopLeft => [0, 1],
            Self::TopRight => [2, 1],
            Self::BottomLeft => [0, 3],
            Self::BottomRight => [2, 3],
        }
    }
}

/// Boxes in the images of a batch.
#[derive(Clone, Copy, Debug)]
pub struct PlacedBoxes<'a> {
    /// The image of each box.
    pub images: &'a [u32],
    /// The class of each.
    pub labels: &'a [u32],
    /// In input pixels.
    pub boxes: &'a [BBox],
}

/// What a density is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// The mixture of Eq. 5, as in training.
    pub proposal: &'a GaussianMixture,
    /// Samples of each box.
    pub num_samples: usize,
}

/// Weighted samples of p(y | x) about one box, as edges in pixels: `[left, top, right, bottom]` with
/// exclusive ends.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: Vec<[f64; 4]>,
    /// Their sum is 1.
    weights: Vec<f64>,
    effective_sample_size: f64,
    /// Columns and rows of the image, where edges end at its border.
    bounds: Option<[f64; 2]>,
    /// What a calibration knows of each edge.
    calibrated: Option<[CalibratedEdge; 4]>,
}

/// How an edge's interval follows from p(y | x) where a calibration tells how wide it has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibratedEdge {
    /// The refined edge, about which the interval lies.
    pub edge: f64,
    /// What half the width that p(y | x) says is added to, …
    pub least: f64,
    /// … and what the sum is multiplied by.
    pub factor: f64,
}

/// Rounds in which a quarter of the samples finds where the density is.
const PILOTS: usize = 3;
/// Effective samples that the proposal's own widths are worth.
const PRIOR: f64 = 4.0;
/// Standard deviations of a kernel that are drawn.
const REACH: f64 = 3.0;
/// The mass beyond each end of the samples that the grids leave out.
const TAIL: f64 = 0.0005;
/// Points of an edge's density.
const POINTS: usize = 512;

impl BoxDensity {
    /// The least effective sample size at which intervals mean what they say: of 100 draws, the share in an
    /// interval of probability 0.9 has a standard error of √(0.9 · 0.1 / 100) = 0.03.
    pub const ENOUGH: f64 = 100.0;

    /// The probability of [`edge_intervals`](Self::edge_intervals).
    pub const LEVEL: f64 = 0.9;

    /// The densities about the boxes `placed` in the images of the `pyramid`. Eq. 5's mixture about the box, in the coordinates of f,
    /// `(c_x/w, c_y/h, log w, log h)` with the box's own size as reference, finds the density; a mixture
    /// about what it found draws the samples.
    ///
    /// f is known where it was trained: take the `proposal` of the training. The samples spread no further
    /// from the mean than twice its largest standard deviation, which is what a density without bounds shows.
    ///
    /// # Errors
    /// Those of [`BoxFeatures::new`] and of [`ImportanceDensity::from_model`].
    pub fn about<M: EnergyModel<Features = BoxFeatures>>(
        head: &M,
        pyramid: &[Tensor],
        placed: PlacedBoxes<'_>,
        convention: BoxConvention,
        sampling: Sampling<'_>,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<Self>> {
        // In the layout that pooling reads, once for all boxes.
        let pyramid = &BoxFeatures::readable(pyramid)?;
        let objects = placed.images.iter().zip(placed.labels).zip(placed.boxes);
        let density = |((&image, &label), &bbox): ((&u32, &u32), &BBox)| {
            let features = BoxFeatures::new(pyramid, vec![image], vec![label], &[bbox], convention)?;
            Self::of_object(head, &features, sampling, &mut *rng)
        };
        objects.map(density).collect()
    }

    /// The density of the one object of `features`.
    fn of_object<M: EnergyModel<Features = BoxFeatures>>(
        head: &M,
        features: &BoxFeatures,
        Sampling { proposal, num_samples }: Sampling<'_>,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        let mut center = features.targets()?.squeeze(1)?;
        let mut adapted = proposal.clone();
        for _ in 0..PILOTS {
            let pilot = num_samples.div_ceil(4);
            let found = ImportanceDensity::from_model(head, features, &adapted, &center, pilot, rng)?;
            for density in &found {
                let mean = Tensor::from_vec(density.mean(), (1, 4), &Device::Cpu)?;
                center = mean.to_dtype(center.dtype())?.to_device(center.device())?;
                adapted = adapt(proposal, density)?;
            }
        }
        let densities = ImportanceDensity::from_model(head, features, &adapted, &center, num_samples, rng)?;
        let samples: Vec<f64> = densities.iter().flat_map(|d| d.samples().flatten().copied()).collect();
        let samples = Tensor::from_vec(samples, (1, num_samples, 4), &Device::Cpu)?;
        let samples = samples.to_dtype(center.dtype())?.to_device(center.device())?;
        let edges =
            features.continuous_corners(&samples)?.squeeze(0)?.to_dtype(DType::F64)?.to_vec2::<f64>()?;
        Ok(Self {
            edges: edges.iter().map(|e| [e[0], e[1], e[2], e[3]]).collect(),
            weights: densities.iter().flat_map(|density| density.weights().to_vec()).collect(),
            effective_sample_size: densities.iter().map(ImportanceDensity::effective_sample_size).sum(),
            bounds: None,
            calibrated: None,
        })
    }

    /// The same in an image whose pixels are these `factors` (x, y) times smaller, as
    /// [`to_original`](crate::input::to_original) takes boxes of that convention there.
    pub fn scaled(mut self, factors: [f64; 2], convention: BoxConvention) -> Self {
        let end = f64::from(convention.offset());
        let ends = [0.0, 0.0, end, end];
        for edges in &mut self.edges {
            for (place, (edge, end)) in edges.iter_mut().zip(ends).enumerate() {
                *edge = (*edge - end) * factors[place % 2] + end;
            }
        }
        self
    }

    /// The same where edges end at the border of an image of so many columns and rows.
    #[must_use]
    pub fn within(self, size: [f64; 2]) -> Self {
        Self { bounds: Some(size), ..self }
    }

    /// The same with [`edge_intervals`](Self::edge_intervals) of a calibration: of left, top, right and bottom
    /// in pixels.
    #[must_use]
    pub fn calibrated(self, edges: [CalibratedEdge; 4]) -> Self {
        Self { calibrated: Some(edges), ..self }
    }

    /// Whether a calibration tells how wide intervals have to be.
    pub fn is_calibrated(&self) -> bool {
        self.calibrated.is_some()
    }

    /// Where each edge lies with probability `level` as p(y | x) says, the smallest sets: left, top, right,
    /// bottom.
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the samples have no spread.
    pub fn edge_regions(&self, level: f64) -> Result<[Region; 4]> {
        let region = |edge: usize| -> Result<Region> { Ok(self.edge(edge)?.highest_density_region(level)?) };
        Ok(self.bounded([region(0)?, region(1)?, region(2)?, region(3)?]))
    }

    /// Where each edge lies with probability 0.9, left, top, right, bottom: what p(y | x) says, or, where
    /// there is a calibration, what holds as often as it says on images like those of the calibration.
    ///
    /// # Errors
    /// When the samples have no spread.
    pub fn edge_intervals(&self) -> Result<[Region; 4]> {
        let mut regions = self.edge_regions(Self::LEVEL)?;
        for (region, calibrated) in regions.iter_mut().zip(self.calibrated.into_iter().flatten()) {
            region.intervals = vec![calibrated.interval(region)];
        }
        Ok(self.bounded(regions))
    }

    fn bounded(&self, mut regions: [Region; 4]) -> [Region; 4] {
        for (place, region) in regions.iter_mut().enumerate() {
            if let Some(size) = self.bounds {
                let ends = region.intervals.iter_mut().flatten();
                ends.for_each(|end| *end = end.clamp(0.0, size[place % 2]));
            }
        }
        regions
    }

    /// From 1 to M: as many draws from p itself would be about as good.
    pub fn effective_sample_size(&self) -> f64 {
        self.effective_sample_size
    }

    /// Whether the intervals are to be believed: from [`ENOUGH`](Self::ENOUGH) effective samples on.
    pub fn is_reliable(&self) -> bool {
        self.effective_sample_size >= Self::ENOUGH
    }

    /// The samples and their weights, whose sum is 1.
    pub fn samples(&self) -> impl Iterator<Item = (&[f64; 4], f64)> {
        self.edges.iter().zip(self.weights.iter().copied())
    }

    /// The marginal density of one edge: 0 left, 1 top, 2 right, 3 bottom. Its
    /// [`highest_density_region`](GridDensity::highest_density_region) has several intervals where the edge
    /// may lie in several places.
    ///
    /// # Errors
    /// [`Error::NonFinite`] where all samples agree.
    pub fn edge(&self, edge: usize) -> Result<GridDensity> {
        let axis = self.axis(edge, 5.0)?;
        let grid = Grid::new(axis.low, axis.high, POINTS)?;
        let mut p = vec![0.0; POINTS];
        for (edges, weight) in self.samples() {
            axis.spread(edges[edge], POINTS, |point, kernel| p[point] += weight * kernel);
        }
        let log_p: Vec<f64> = p.iter().map(|p| p.ln()).collect();
        Ok(GridDensity::from_scores(&grid, &log_p)?)
    }

    /// The marginal density of a corner, over `size` points along each side of what the samples reach.
    ///
    /// # Errors
    /// [`Error::NonFinite`] where all samples agree.
    pub fn corner(&self, corner: Corner, size: usize) -> Result<CornerMap> {
        let size = size.max(2);
        let places = corner.coordinates();
        let [x, y] = [self.axis(places[0], 6.0)?, self.axis(places[1], 6.0)?];
        let mut p = vec![0.0; size * size];
        let mut columns = Vec::new();
        for (edges, weight) in self.samples().filter(|(_, weight)| *weight > 0.0) {
            columns.clear();
            x.spread(edges[places[0]], size, |column, kernel| columns.push((column, kernel)));
            y.spread(edges[places[1]], size, |row, kernel| {
                for (column, along) in &columns {
                    p[row * size + column] += weight * kernel * along;
                }
            });
        }
        let sum: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= sum);
        Ok(CornerMap { first: [x.low, y.low], step: [x.step(size), y.step(size)], size, p })
    }

    /// Where the density of one coordinate is drawn, and its kernel's width, which shrinks with the `root`-th
    /// root of the effective sample size: 4 more than the number of coordinates that are drawn together.
    fn axis(&self, edge: usize, root: f64) -> Result<Axis> {
        let mut order: Vec<(f64, f64)> =
            self.samples().map(|(edges, weight)| (edges[edge], weight)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantile = |probability: f64| {
            let mut sum = 0.0;
            let beyond = order.iter().find(|(_, weight)| {
                sum += weight;
                sum >= probability
            });
            beyond.or(order.last()).map_or(f64::NAN, |(value, _)| *value)
        };
        let mean: f64 = order.iter().map(|(value, weight)| value * weight).sum();
        let deviation =
            order.iter().map(|(value, weight)| weight * (value - mean).powi(2)).sum::<f64>().sqrt();
        // Of a normal distribution the quartiles are 1.349 standard deviations apart; of one with long tails,
        // less.
        let spread = deviation.min((quantile(0.75) - quantile(0.25)) / 1.349);
        let spread = if spread > 0.0 { spread } else { deviation };
        let width = 0.9 * spread * self.effective_sample_size.powf(-1.0 / root);
        if !(width > 0.0 && width.is_finite()) {
            return Err(Error::NonFinite {
                place: "the density of a box",
                reason: format!(
                    "its samples have no spread (effective sample size {:.1}); draw more samples, or from a narrower \
                     proposal",
                    self.effective_sample_size
                ),
            });
        }
        let (low, high) = (quantile(TAIL) - REACH * width, quantile(1.0 - TAIL) + REACH * width);
        Ok(Axis { low, high, width })
    }
}

impl CalibratedEdge {
    /// Half of the interval for a factor of 1, given what p(y | x) says of the edge.
    pub(crate) fn scale(&self, region: &Region) -> f64 {
        0.5 * region.width() + self.least
    }

    fn interval(&self, region: &Region) -> [f64; 2] {
        let half = self.factor * self.scale(region);
        [self.edge - half, self.edge + half]
    }
}

/// A mixture about the mean of `found`: its own standard deviations, and twice those for the tails. A few
/// effective samples tell little of them: they count as [`PRIOR`] more with those of `proposal`, whose
/// largest is not exceeded.
fn adapt(proposal: &GaussianMixture, found: &ImportanceDensity) -> Result<GaussianMixture> {
    let all: Vec<f64> = proposal.sigmas().iter().flatten().copied().collect();
    let square = all.iter().map(|sigma| sigma * sigma).sum::<f64>() / all.len() as f64;
    let most = all.iter().copied().fold(0.0, f64::max);
    let count = found.effective_sample_size();
    let own = |variance: &f64| ((count * variance + PRIOR * square) / (count + PRIOR)).sqrt().min(most);
    let own: Vec<f64> = found.variance().iter().map(own).collect();
    let wide = own.iter().map(|sigma| 2.0 * sigma).collect();
    Ok(GaussianMixture::new(vec![own, wide])?)
}

/// A range of one coordinate, and the standard deviation of the kernel along it.
struct Axis {
    low: f64,
    high: f64,
    width: f64,
}

impl Axis {
    fn step(&self, points: usize) -> f64 {
        (self.high - self.low) / (points - 1) as f64
    }

    /// Calls `each` with the points near `value` and the kernel there, whose values sum to 1 where none is
    /// cut off.
    fn spread(&self, value: f64, points: usize, mut each: impl FnMut(usize, f64)) {
        let step = self.step(points);
        // No narrower than the points are apart.
        let width = self.width.max(step);
        let place = |at: f64| ((at - self.low) / step).clamp(0.0, (points - 1) as f64);
        let (first, last) = (place(value - REACH * width).ceil(), place(value + REACH * width).floor());
        let scale = step / (width * std::f64::consts::TAU.sqrt());
        for point in first as usize..=last as usize {
            let z = (self.low + step * point as f64 - value) / width;
            if z.abs() <= REACH {
                each(point, scale * (-0.5 * z * z).exp());
            }
        }
    }
}

#[cfg(test)]
mod tests;
