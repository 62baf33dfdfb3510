//! Gauss-Newton steps, each solved approximately by conjugate gradients.

use super::blocks::{Blocks, add_scaled, adjoint, differential, dot, filter, scale};
use super::least_squares::Samples;
use crate::Result;

/// Runs `steps` Gauss-Newton steps from `theta` and returns the last θ. Each step linearises the scores about θ and
/// minimises the quadratic model by `iterations` of conjugate gradients. `lambda` has the factor of each ‖θ_b‖².
pub(super) fn gauss_newton(
    samples: &Samples,
    lambda: &[f64],
    mut theta: Blocks,
    steps: usize,
    iterations: usize,
) -> Result<Blocks> {
    let inverse: Vec<f64> = lambda.iter().map(|lambda| lambda.recip()).collect();
    for _ in 0..steps {
        let linearised = samples.linearise(&filter(&theta)?)?;
        // (JᵀJ + Λ) δ = −(Jᵀ r + Λ θ).
        let gradient = adjoint(&theta, &linearised.residual_gradient()?)?;
        let gradient = add_scaled(&gradient, 1.0, &scale(&theta, lambda)?)?;
        let right = scale(&gradient, &vec![-1.0; lambda.len()])?;
        let curvature = |change: &Blocks| {
            let change_of_filter = differential(&theta, change)?;
            let product = adjoint(&theta, &linearised.curvature(&change_of_filter)?)?;
            add_scaled(&product, 1.0, &scale(change, lambda)?)
        };
        let change = conjugate_gradient(curvature, right, &inverse, iterations)?;
        theta = add_scaled(&theta, 1.0, &change)?;
    }
    Ok(theta)
}

/// Solves A δ = b approximately by `iterations` of preconditioned conjugate gradients from δ = 0. β is Polak and
/// Ribière's, at least 0, which restarts when a direction has lost its conjugacy. The preconditioner multiplies each
/// block by a number.
fn conjugate_gradient(
    product: impl Fn(&Blocks) -> Result<Blocks>,
    b: Blocks,
    preconditioner: &[f64],
    iterations: usize,
) -> Result<Blocks> {
    let mut x = scale(&b, &vec![0.0; b.len()])?;
    let mut residual = b;
    let mut direction: Option<(Blocks, f64, Blocks)> = None;
    for _ in 0..iterations {
        let z = scale(&residual, preconditioner)?;
        let rho = dot(&residual, &z)?;
        // The solution is reached, or numerical precision is exhausted.
        if rho.is_nan() || rho <= 0.0 {
            break;
        }
        let p = match &direction {
            Some((p, last, last_residual)) => {
                let beta = ((rho - dot(last_residual, &z)?) / last).max(0.0);
                add_scaled(&z, beta, p)?
            }
            None => z,
        };
        let q = product(&p)?;
        let bend = dot(&p, &q)?;
        if bend.is_nan() || bend <= 0.0 {
            break;
        }
        let alpha = dot(&residual, &p)? / bend;
        x = add_scaled(&x, alpha, &p)?;
        let next = add_scaled(&residual, -alpha, &q)?;
        direction = Some((p, rho, std::mem::replace(&mut residual, next)));
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};
    use ebm_base::Key;
    use rand::Rng;

    use super::super::blocks::number;
    use super::super::least_squares::Mlu;
    use super::*;

    const KERNEL: usize = 2;

    fn noise(shape: &[usize], name: &str) -> Tensor {
        let mut rng = Key::new(1).split(name).rng();
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|_| rng.random_range(-1.0..1.0)).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    /// Returns four samples of 3 × 5 pixels with three channels and unequal weights.
    fn samples() -> Samples {
        samples_with(&noise(&[4, 3, 5], "t"), 0.05)
    }

    fn samples_with(targets: &Tensor, bend: f64) -> Samples {
        let weights = Tensor::new(&[0.1, 0.4, 0.3, 0.2], &Device::Cpu).unwrap();
        Samples::new(&noise(&[4, 15, 3], "x"), targets, &weights, KERNEL, Mlu(bend)).unwrap()
    }

    fn loss(samples: &Samples, lambda: &[f64], theta: &Blocks) -> f64 {
        let data = samples.linearise(&filter(theta).unwrap()).unwrap().loss().unwrap();
        theta.iter().zip(lambda).fold(data, |sum, (block, lambda)| {
            sum + lambda * number(&block.sqr().unwrap().sum_all().unwrap()).unwrap()
        })
    }

    fn flat(blocks: &Blocks) -> Vec<f64> {
        blocks.iter().flat_map(|b| b.flatten_all().unwrap().to_vec1::<f64>().unwrap()).collect()
    }

    /// Returns θ with coordinate `i` moved.
    fn moved(theta: &Blocks, i: usize, by: f64) -> Blocks {
        let mut values = flat(theta);
        values[i] += by;
        let mut values = values.as_slice();
        let mut blocks = Vec::new();
        for block in theta {
            let (own, rest) = values.split_at(block.elem_count());
            blocks.push(Tensor::from_slice(own, block.shape(), &Device::Cpu).unwrap());
            values = rest;
        }
        blocks
    }

    /// Solves a x = b by Gaussian elimination with pivoting.
    fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        let n = b.len();
        for i in 0..n {
            let pivot = (i..n).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs())).unwrap();
            a.swap(i, pivot);
            b.swap(i, pivot);
            for row in i + 1..n {
                let factor = a[row][i] / a[i][i];
                let pivot = a[i].clone();
                a[row].iter_mut().zip(&pivot).skip(i).for_each(|(value, pivot)| *value -= factor * pivot);
                b[row] -= factor * b[i];
            }
        }
        for i in (0..n).rev() {
            b[i] = (b[i] - (i + 1..n).map(|j| a[i][j] * b[j]).sum::<f64>()) / a[i][i];
        }
        b
    }

    /// Returns the step of one dense Gauss-Newton solve, with the Jacobian of the stacked residuals by central
    /// differences.
    fn dense_step(samples: &Samples, lambda: &[f64], theta: &Blocks) -> Vec<f64> {
        let residuals = |theta: &Blocks| -> Vec<f64> {
            let linearised = samples.linearise(&filter(theta).unwrap()).unwrap();
            let mut all = linearised.residuals();
            for (block, lambda) in theta.iter().zip(lambda) {
                let root = lambda.sqrt();
                all.extend(block.flatten_all().unwrap().to_vec1::<f64>().unwrap().iter().map(|v| v * root));
            }
            all
        };
        let n = flat(theta).len();
        let columns: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let (plus, minus) = (residuals(&moved(theta, i, 1e-6)), residuals(&moved(theta, i, -1e-6)));
                plus.iter().zip(minus).map(|(plus, minus)| (plus - minus) / 2e-6).collect()
            })
            .collect();
        let r = residuals(theta);
        let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let a = columns.iter().map(|u| columns.iter().map(|v| inner(u, v)).collect()).collect();
        solve(a, columns.iter().map(|u| -inner(u, &r)).collect())
    }

    fn agrees_with_dense(lambda: &[f64], theta: Blocks) {
        let samples = samples();
        let expected = dense_step(&samples, lambda, &theta);
        let n = expected.len();
        let solved = gauss_newton(&samples, lambda, theta.clone(), 1, 4 * n).unwrap();
        for ((new, old), step) in flat(&solved).iter().zip(flat(&theta)).zip(&expected) {
            assert!((new - old - step).abs() < 1e-6 * (1.0 + step.abs()), "{} {step}", new - old);
        }
    }

    #[test]
    fn many_iterations_are_a_dense_solve() {
        agrees_with_dense(&[0.1], vec![noise(&[3, 4], "w")]);
        let theta = vec![noise(&[2, 4], "w2"), noise(&[3, 2], "w1")];
        agrees_with_dense(&[0.1, 0.01], theta);
    }

    /// The targets are reachable by some θ. With more iterations, w₁ and w₂ would change in directions that keep their
    /// product, where the quadratic model is wrong. So the method needs few iterations.
    #[test]
    fn steps_find_a_filter_that_fits() {
        let lambda = [1e-6, 1e-6];
        let truth = vec![noise(&[2, 4], "true w2"), noise(&[3, 2], "true w1")];
        let reached =
            samples_with(&noise(&[4, 3, 5], "t"), 1.0).linearise(&filter(&truth).unwrap()).unwrap().values();
        let samples = samples_with(&reached, 1.0);
        let start = add_scaled(&truth, 0.1, &vec![noise(&[2, 4], "w2"), noise(&[3, 2], "w1")]).unwrap();
        let few = gauss_newton(&samples, &lambda, start.clone(), 1, 4).unwrap();
        let end = gauss_newton(&samples, &lambda, start.clone(), 6, 10).unwrap();
        let [start, few, end] = [&start, &few, &end].map(|theta| loss(&samples, &lambda, theta));
        assert!(few < 0.5 * start && end < 1e-2 * start, "{start} {few} {end}");
    }

    #[test]
    fn mlu_has_its_golden_values_and_its_derivative() {
        let x = Tensor::new(&[1.0, 0.0, -0.01, -0.05, -1.0], &Device::Cpu).unwrap();
        let (y, slope) = Mlu(0.05).value_and_slope(&x).unwrap();
        // Below 0 it is 0.05 (e^(x / 0.05) − 1).
        let below = [-0.2f64, -1.0, -20.0].map(|x| 0.05 * x.exp_m1());
        for (y, expected) in y.to_vec1::<f64>().unwrap().iter().zip([1.0, 0.0].into_iter().chain(below)) {
            assert!((y - expected).abs() < 1e-12, "{y} {expected}");
        }
        let at =
            |by: f64| Mlu(0.05).value_and_slope(&(&x + by).unwrap()).unwrap().0.to_vec1::<f64>().unwrap();
        let (plus, minus, slope) =
            (at(1e-6), at(-1e-6), slope.to_dtype(DType::F64).unwrap().to_vec1::<f64>().unwrap());
        for i in [0, 2, 3, 4] {
            assert!(((plus[i] - minus[i]) / 2e-6 - slope[i]).abs() < 1e-6, "{i}");
        }
    }
}
