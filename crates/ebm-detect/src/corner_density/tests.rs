//! Closed forms of densities of boxes.

use ebm_base::Key;
use ebm_ops::boxes::BBox;

use super::*;
use crate::Error;

/// Energy f(y) = −½ Σ ((y − μ) / σ)² + c for every image: a box with independent normal coordinates.
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
    density_from(BOX, model, proposal, samples)
}

/// Returns the density around `from`, which must have the size of `BOX`.
fn density_from(from: BBox, model: &Normal, proposal: &[f64], samples: usize) -> BoxDensity {
    let pyramid = [Tensor::zeros((1, 1, 4, 4), DType::F32, &Device::Cpu).unwrap()];
    let proposal = GaussianMixture::isotropic(proposal, 4).unwrap();
    let features = BoxFeatures::new(&pyramid, vec![0], vec![1], &[from], BoxConvention::HalfOpen).unwrap();
    BoxDensity::about(model, &features, &proposal, samples, &mut Key::new(7).rng()).unwrap()
}

/// Returns an input of `width` columns and `height` rows, from an image that has `factors` times as many.
fn sample(width: usize, height: usize, factors: [usize; 2]) -> Sample {
    let (original, boxes, labels) = ((height * factors[1], width * factors[0]), vec![], vec![]);
    Sample { image_id: 0, index: 0, height, width, original, boxes, labels, flipped: false }
}

fn normal() -> BoxDensity {
    density(&Normal { sigma: SIGMA, constant: 0.0 }, &[0.03, WIDEST], 40_000)
}

const WIDEST: f64 = 0.06;

/// Returns the standard deviation of the product of two Gaussians.
fn product(sigma: f64, widest: f64) -> f64 {
    (sigma.powi(-2) + widest.powi(-2)).sqrt().recip()
}

/// Returns mean and standard deviation of each edge c ± w/2 of [`normal`], where c is normal and w log-normal.
fn expected() -> [(f64, f64); 4] {
    let [width, height] = [40.0, 20.0];
    let sigma = SIGMA.map(|sigma| product(sigma, WIDEST));
    let side = |center: f64, size: f64, sigma: f64, log_sigma: f64, sign: f64| {
        let square = log_sigma * log_sigma;
        let mean = center + sign * 0.5 * size * (0.5 * square).exp();
        let variance = 0.25 * size * size * square.exp() * (square.exp() - 1.0);
        (mean, (variance + (sigma * size).powi(2)).sqrt())
    };
    [
        side(40.0, width, sigma[0], sigma[2], -1.0),
        side(40.0, height, sigma[1], sigma[3], -1.0),
        side(40.0, width, sigma[0], sigma[2], 1.0),
        side(40.0, height, sigma[1], sigma[3], 1.0),
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
        // The share of samples in this set is the same.
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
    for ((a, v), (b, w)) in plain.samples().zip(raised.samples()) {
        // In single precision f + 64 has an error of 4e-6.
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3) && (v - w).abs() < 1e-3 * v.max(1e-4));
    }
}

#[test]
fn the_samples_follow_the_density() {
    // A tenth of the samples come from the mixture, the others from fits to the density.
    for sigma in [[0.05; 4], SIGMA] {
        let found = density(&Normal { sigma, constant: 0.0 }, &[0.0375, 0.075, 0.15], 4000);
        let share = found.effective_sample_size() / 4000.0;
        assert!(share > 0.8 && share < 1.0, "{share}");
        assert!((found.samples().map(|(_, weight)| weight).sum::<f64>() - 1.0).abs() < 1e-9);
    }
    // From a box that is 12 pixels away; the left edge's standard deviation is 1.1.
    let from = [32.0, 30.0, 72.0, 50.0];
    let found = density_from(from, &Normal { sigma: SIGMA, constant: 0.0 }, &[0.0375, 0.075, 0.15], 4000);
    let share = found.effective_sample_size() / 4000.0;
    assert!(share > 0.7, "{share}");
    let left = found.edge(0).unwrap().mean();
    // The quadratic term about that box pulls the centre by σ² / (σ² + 0.15²) of the 12 pixels.
    let pull = 12.0 * (product(SIGMA[0], 0.15) / 0.15).powi(2);
    assert!((left - 20.0 - pull).abs() < 0.1, "{left}");
}

#[test]
fn scaling_scales_edges_by_their_axis() {
    let density = density(&Normal { sigma: SIGMA, constant: 0.0 }, &[0.05], 10);
    for (convention, end) in [(BoxConvention::HalfOpen, 0.0), (BoxConvention::Inclusive, 1.0)] {
        let scaled = density.clone().in_image(&sample(100, 100, [2, 3]), convention, false);
        for ((a, _), (b, _)) in density.samples().zip(scaled.samples()) {
            // The last pixel is scaled; behind it the edge is one pixel further.
            let far = [2.0 * (a[2] - end) + end, 3.0 * (a[3] - end) + end];
            assert_eq!([2.0 * a[0], 3.0 * a[1], far[0], far[1]], *b);
        }
    }
}

#[test]
fn samples_without_spread_are_refused() {
    let one = density(&Normal { sigma: SIGMA, constant: 0.0 }, &[0.05], 1);
    let refused = |error: Error| matches!(error, Error::Core(ebm_core::Error::NoSpread { .. }));
    assert!(refused(one.edge(0).unwrap_err()) && refused(one.corner(Corner::TopRight, 50).unwrap_err()));
}

#[test]
fn calibrated_intervals_lie_about_the_given_edges() {
    let density = normal().in_image(&sample(61, 100, [1, 1]), BoxConvention::HalfOpen, true);
    let regions = density.edge_regions(BoxDensity::LEVEL).unwrap();
    let edges = [25.0, 30.0, 60.0, 50.0].map(|edge| CalibratedEdge { edge, least: 2.0, factor: 0.5 });
    let found = density.calibrated(edges).edge_intervals().unwrap();
    for (place, (region, found)) in regions.iter().zip(found).enumerate() {
        let half = 0.5 * (0.5 * region.width() + 2.0);
        let high = (edges[place].edge + half).min([61.0, 100.0][place % 2]);
        assert_eq!(found.intervals, [[edges[place].edge - half, high]]);
    }
}
