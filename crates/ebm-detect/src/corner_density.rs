//! p(y | x) of a box as the paper's Figure 1 shows it: where a corner may lie, and where each edge.
//!
//! Importance samples of the four coordinates together (Eq. 1, about the refined box, from Eq. 5's mixture) give every
//! marginal by leaving coordinates out; a kernel makes a density of the weighted points. The widths of the kernels follow
//! Silverman's rule for the effective sample size, which broadens what it shows by a few per cent.

use candle_core::{DType, Tensor};
use ebm_core::{EnergyModel, Grid, GridDensity, ImportanceDensity, Proposal};
use ebm_nn::boxes::{BBox, BoxConvention};
use rand::RngCore;

use crate::{
    energy_head::BoxFeatures,
    error::{Error, Result},
};

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

/// Weighted samples of p(y | x) about one box, as edges in pixels: `[left, top, right, bottom]` with exclusive ends.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: Vec<[f64; 4]>,
    /// Their sum is 1.
    weights: Vec<f64>,
    effective_sample_size: f64,
}

/// Standard deviations of a kernel that are drawn.
const REACH: f64 = 3.0;
/// The mass beyond each end of the samples that the grids leave out.
const TAIL: f64 = 0.0005;
/// Points of an edge's density.
const POINTS: usize = 512;

impl BoxDensity {
    /// The densities about `boxes`, box i of class `labels[i]` in image `images[i]` of the `pyramid`, each from
    /// `num_samples` samples of `proposal`, whose coordinates are those of f: `(c_x/w, c_y/h, log w, log h)` with the
    /// box's own size as reference. f is known where it was trained: take the proposal of the training, or a broader one
    /// to see what f says beyond.
    ///
    /// # Errors
    /// Those of [`BoxFeatures::new`] and of [`ImportanceDensity::from_model`].
    pub fn about<M: EnergyModel<Features = BoxFeatures>>(
        head: &M,
        pyramid: &[Tensor],
        (images, labels, boxes): (Vec<u32>, Vec<u32>, &[BBox]),
        convention: BoxConvention,
        (proposal, num_samples): (&impl Proposal, usize),
        rng: &mut dyn RngCore,
    ) -> Result<Vec<Self>> {
        if boxes.is_empty() {
            return Ok(Vec::new());
        }
        let features = BoxFeatures::new(pyramid, images, labels, boxes, convention)?;
        let center = features.targets()?.squeeze(1)?;
        let densities = ImportanceDensity::from_model(head, &features, proposal, &center, num_samples, rng)?;
        let samples: Vec<f64> = densities.iter().flat_map(|d| d.samples().flatten().copied()).collect();
        let samples = Tensor::from_vec(samples, (boxes.len(), num_samples, 4), &candle_core::Device::Cpu)?;
        let samples = samples.to_dtype(center.dtype())?.to_device(center.device())?;
        let edges = features.continuous_corners(&samples)?.to_dtype(DType::F64)?.to_vec3::<f64>()?;
        let of_box = |(density, edges): (ImportanceDensity, Vec<Vec<f64>>)| Self {
            edges: edges.iter().map(|e| [e[0], e[1], e[2], e[3]]).collect(),
            weights: density.weights().to_vec(),
            effective_sample_size: density.effective_sample_size(),
        };
        Ok(densities.into_iter().zip(edges).map(of_box).collect())
    }

    /// The same in an image whose pixels are these `factors` (x, y) times smaller.
    pub fn scaled(mut self, factors: [f64; 2]) -> Self {
        for edges in &mut self.edges {
            edges.iter_mut().enumerate().for_each(|(place, edge)| *edge *= factors[place % 2]);
        }
        self
    }

    /// From 1 to M: as many draws from p itself would be about as good.
    pub fn effective_sample_size(&self) -> f64 {
        self.effective_sample_size
    }

    /// The samples and their weights, whose sum is 1.
    pub fn samples(&self) -> impl Iterator<Item = (&[f64; 4], f64)> {
        self.edges.iter().zip(self.weights.iter().copied())
    }

    /// The marginal density of one edge: 0 left, 1 top, 2 right, 3 bottom. Its
    /// [`highest_density_region`](GridDensity::highest_density_region) has several intervals where the edge may lie in
    /// several places.
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

    /// Where the density of one coordinate is drawn, and its kernel's width, which shrinks with the `root`-th root of the
    /// effective sample size: 4 more than the number of coordinates that are drawn together.
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
        // Of a normal distribution the quartiles are 1.349 standard deviations apart; of one with long tails, less.
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

    /// Calls `each` with the points near `value` and the kernel there, whose values sum to 1 where none is cut off.
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

/// The marginal density of a corner on a grid of points.
#[derive(Clone, Debug, PartialEq)]
pub struct CornerMap {
    /// The point (x, y) in the first row and column, in pixels …
    pub first: [f64; 2],
    /// … and the step (x, y) between points.
    pub step: [f64; 2],
    /// Points along each side.
    pub size: usize,
    /// The probability of each point's cell, in rows; the sum is 1.
    pub p: Vec<f64>,
}

impl CornerMap {
    /// The level that the smallest set of probability `mass` exceeds: the points with at least this p have `mass` or a
    /// little more together.
    pub fn level(&self, mass: f64) -> f64 {
        let mut falling = self.p.clone();
        falling.sort_by(|a, b| b.total_cmp(a));
        let mut sum = 0.0;
        let reached = falling.iter().find(|p| {
            sum += **p;
            sum >= mass
        });
        reached.or(falling.last()).copied().unwrap_or(0.0)
    }

    /// The area of that set, in square pixels.
    pub fn area(&self, mass: f64) -> f64 {
        let level = self.level(mass);
        self.p.iter().filter(|p| **p >= level).count() as f64 * self.step[0] * self.step[1]
    }
}

#[cfg(test)]
mod tests {
    use ebm_core::GaussianMixture;
    use ebm_seed::Key;

    use candle_core::Device;

    use super::*;

    /// f(y) = −½ Σ ((y − μ) / σ)² + c, whatever the image: a box with independent normal coordinates.
    struct Normal {
        sigma: [f64; 4],
        constant: f64,
    }

    const BOX: BBox = [20.0, 30.0, 60.0, 50.0];
    /// Centre and size of `BOX` in the coordinates of f.
    const MEAN: [f64; 4] = [1.0, 2.0, 3.688_879_454_113_936, 2.995_732_273_553_991];

    impl EnergyModel for Normal {
        type Features = BoxFeatures;

        fn score(&self, _: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
            let [mean, sigma] = [MEAN, self.sigma].map(|values| Tensor::new(&values, y.device()));
            let z = y.to_dtype(DType::F64)?.broadcast_sub(&mean?)?.broadcast_div(&sigma?)?;
            Ok(((z.sqr()?.sum(2)? * -0.5)? + self.constant)?.to_dtype(y.dtype())?)
        }
    }

    const SIGMA: [f64; 4] = [0.02, 0.05, 0.04, 0.03];

    fn density(model: &Normal, proposal: &[f64], samples: usize) -> BoxDensity {
        let pyramid = [Tensor::zeros((1, 1, 4, 4), DType::F32, &Device::Cpu).unwrap()];
        let proposal = GaussianMixture::isotropic(proposal, 4).unwrap();
        let found = BoxDensity::about(
            model,
            &pyramid,
            (vec![0], vec![1], &[BOX]),
            BoxConvention::HalfOpen,
            (&proposal, samples),
            &mut Key::new(7).rng(),
        );
        found.unwrap().remove(0)
    }

    fn normal() -> BoxDensity {
        density(&Normal { sigma: SIGMA, constant: 0.0 }, &[0.03, 0.06], 40_000)
    }

    /// Mean and standard deviation of each edge c ± w/2, where c is normal and w log-normal.
    fn expected() -> [(f64, f64); 4] {
        let [width, height] = [40.0, 20.0];
        let side = |center: f64, size: f64, sigma: f64, log_sigma: f64, sign: f64| {
            let square = log_sigma * log_sigma;
            let mean = center + sign * 0.5 * size * (0.5 * square).exp();
            let variance = 0.25 * size * size * square.exp() * (square.exp() - 1.0);
            (mean, (variance + (sigma * size).powi(2)).sqrt())
        };
        [
            side(40.0, width, SIGMA[0], SIGMA[2], -1.0),
            side(40.0, height, SIGMA[1], SIGMA[3], -1.0),
            side(40.0, width, SIGMA[0], SIGMA[2], 1.0),
            side(40.0, height, SIGMA[1], SIGMA[3], 1.0),
        ]
    }

    #[test]
    fn edges_have_the_moments_and_the_intervals_of_the_closed_form() {
        let density = normal();
        for (edge, (mean, deviation)) in expected().into_iter().enumerate() {
            let marginal = density.edge(edge).unwrap();
            assert!((marginal.mean() - mean).abs() < 0.05 * deviation, "edge {edge}: {}", marginal.mean());
            // Nearly normal: the region of mass 0.9 reaches 1.645 deviations to both sides.
            let region = marginal.highest_density_region(0.9).unwrap();
            assert_eq!(region.intervals.len(), 1);
            let half = 0.5 * region.width();
            assert!((half / (1.645 * deviation) - 1.0).abs() < 0.05, "edge {edge}: {half} of {deviation}");
            let inside = density.samples().filter(|(edges, _)| region.contains(edges[edge]));
            let mass: f64 = inside.map(|(_, weight)| weight).sum();
            assert!((mass - 0.9).abs() < 0.02, "edge {edge}: {mass}");
        }
    }

    #[test]
    fn a_corner_is_distributed_as_its_two_edges() {
        let (density, expected) = (normal(), expected());
        for corner in [Corner::TopLeft, Corner::TopRight, Corner::BottomLeft, Corner::BottomRight] {
            let map = density.corner(corner, 101).unwrap();
            assert!((map.p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (axis, place) in corner.coordinates().into_iter().enumerate() {
                let at = |i: usize| {
                    let index = if axis == 0 { i % map.size } else { i / map.size };
                    map.first[axis] + map.step[axis] * index as f64
                };
                let mean: f64 = map.p.iter().enumerate().map(|(i, p)| p * at(i)).sum();
                let variance: f64 = map.p.iter().enumerate().map(|(i, p)| p * (at(i) - mean).powi(2)).sum();
                let (center, deviation) = expected[place];
                assert!((mean - center).abs() < 0.05 * deviation, "{corner:?}: {mean} is not {center}");
                let found = variance.sqrt() / deviation;
                assert!((found - 1.0).abs() < 0.05, "{corner:?}: {found} of the deviation");
            }
            // Two independent normal coordinates: the smallest set of mass 0.9 is an ellipse, χ² = 2 ln 10.
            let [(_, x), (_, y)] = corner.coordinates().map(|place| expected[place]);
            let ellipse = std::f64::consts::TAU * 10f64.ln() * x * y;
            assert!((map.area(0.9) / ellipse - 1.0).abs() < 0.08, "{} of {ellipse}", map.area(0.9));
            let level = map.level(0.9);
            let mass: f64 = map.p.iter().filter(|p| **p >= level).sum();
            assert!((0.9..0.902).contains(&mass), "{mass}");
            // The samples themselves are in it as often.
            let inside = density.samples().filter(|(edges, _)| {
                let [column, row] = [0, 1].map(|axis| {
                    let value = edges[corner.coordinates()[axis]];
                    ((value - map.first[axis]) / map.step[axis]).round()
                });
                let within = |place: f64| place >= 0.0 && place < map.size as f64;
                within(column) && within(row) && map.p[row as usize * map.size + column as usize] >= level
            });
            let mass: f64 = inside.map(|(_, weight)| weight).sum();
            assert!((mass - 0.9).abs() < 0.02, "{mass}");
        }
    }

    #[test]
    fn a_constant_added_to_f_changes_nothing() {
        let [plain, raised] =
            [0.0, 64.0].map(|constant| density(&Normal { sigma: SIGMA, constant }, &[0.05], 2000));
        assert_eq!(plain.edges, raised.edges);
        for (a, b) in plain.weights.iter().zip(&raised.weights) {
            assert!((a - b).abs() < 1e-4 * plain.weights.iter().copied().fold(0.0, f64::max));
        }
    }

    #[test]
    fn the_effective_sample_size_is_all_where_the_proposal_is_the_density() {
        let same = density(&Normal { sigma: [0.05; 4], constant: 0.0 }, &[0.05], 1000);
        assert!((same.effective_sample_size() / 1000.0 - 1.0).abs() < 1e-3);
        let other = normal().effective_sample_size();
        assert!(other > 1000.0 && other < 30_000.0, "{other}");
        assert!((same.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn scaling_scales_edges_by_their_axis() {
        let density = density(&Normal { sigma: SIGMA, constant: 0.0 }, &[0.05], 10);
        let scaled = density.clone().scaled([2.0, 3.0]);
        for (a, b) in density.edges.iter().zip(&scaled.edges) {
            assert_eq!([2.0 * a[0], 3.0 * a[1], 2.0 * a[2], 3.0 * a[3]], *b);
        }
    }

    #[test]
    fn samples_without_spread_are_refused() {
        let one = density(&Normal { sigma: SIGMA, constant: 0.0 }, &[0.05], 1);
        assert!(matches!(one.edge(0), Err(Error::NonFinite { .. })));
        assert!(matches!(one.corner(Corner::TopRight, 50), Err(Error::NonFinite { .. })));
    }
}
