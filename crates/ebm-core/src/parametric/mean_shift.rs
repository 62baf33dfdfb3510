//! The ascent to a mode of a mixture of Gaussians.

/// How many steps an ascent may take; it converges long before, unless two modes are about to merge.
const MAX_STEPS: usize = 500;

/// The length of a step, in local standard deviations, below which the ascent has arrived.
const ARRIVED: f64 = 1e-9;

/// One mixture `Σ_k w_k N(y; μ_k, diag(σ_k²))` of K components in D coordinates, on the host.
pub(super) struct MeanShift<'a> {
    /// K × D.
    means: &'a [f64],
    /// `1/σ²`, K × D.
    precisions: Vec<f64>,
    /// `log w_k − Σ_d log σ_kd`: the log-densities of the weighted components at their means, but for a
    /// constant.
    log_heights: Vec<f64>,
    dim: usize,
}

impl<'a> MeanShift<'a> {
    /// The mixture with K `log_weights`, and with K × D `means` and `log_variances`.
    pub(super) fn new(log_weights: &[f64], means: &'a [f64], log_variances: &[f64]) -> Self {
        let dim = means.len() / log_weights.len();
        let volumes = log_variances.chunks_exact(dim).map(|s| 0.5 * s.iter().sum::<f64>());
        Self {
            means,
            precisions: log_variances.iter().map(|s| (-s).exp()).collect(),
            log_heights: log_weights.iter().zip(volumes).map(|(weight, volume)| weight - volume).collect(),
            dim,
        }
    }

    /// The modes, K × D, that are reached from the component means.
    pub(super) fn modes(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.log_heights.len()];
        self.means.chunks_exact(self.dim).flat_map(|start| self.climb(start, &mut shares)).collect()
    }

    /// The mode that is reached from `start`.
    ///
    /// Where the gradient of the density vanishes, y is the mean of the `μ_k` weighted with each component's
    /// share of the density and with `1/σ_k²`. One step moves y to that mean: a step of
    /// expectation-maximisation, which never descends.
    fn climb(&self, start: &[f64], shares: &mut [f64]) -> Vec<f64> {
        let mut y = start.to_vec();
        for _ in 0..MAX_STEPS {
            // Relative to the largest: their sum cancels.
            for ((share, height), (means, precisions)) in
                shares.iter_mut().zip(&self.log_heights).zip(self.components())
            {
                let terms = y.iter().zip(means).zip(precisions).map(|((y, m), p)| (y - m).powi(2) * p);
                *share = height - 0.5 * terms.sum::<f64>();
            }
            let largest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            shares.iter_mut().for_each(|share| *share = (*share - largest).exp());
            let total: f64 = shares.iter().sum();

            let mut squared_step = 0.0;
            for (d, y) in y.iter_mut().enumerate() {
                let (mut numerator, mut denominator) = (0.0, 0.0);
                for (share, (means, precisions)) in shares.iter().zip(self.components()) {
                    numerator += share * precisions[d] * means[d];
                    denominator += share * precisions[d];
                }
                let next = numerator / denominator;
                squared_step += (next - *y).powi(2) * denominator / total;
                *y = next;
            }
            if squared_step < ARRIVED * ARRIVED {
                break;
            }
        }
        y
    }

    /// Each component's means and precisions.
    fn components(&self) -> impl Iterator<Item = (&[f64], &[f64])> {
        self.means.chunks_exact(self.dim).zip(self.precisions.chunks_exact(self.dim))
    }
}
