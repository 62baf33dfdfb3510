//! Products of matrices in every form.

use candle_core::DType;
use ebm_ops::Activation;
use ebm_ops::internals::{Epilogue, Left, Output, Panels, Right, Sizes, dense};

use crate::differences::noise_tensor;

fn numbers(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
    let noise = noise_tensor(&[rows, columns], seed).unwrap().to_dtype(DType::F32).unwrap();
    noise.flatten_all().unwrap().to_vec1().unwrap()
}

fn transposed(data: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns * rows).map(|i| data[i % rows * columns + i / rows]).collect()
}

/// Computes the sums in f64.
fn expected(a: &[f32], b: &[f32], sizes: Sizes) -> Vec<f64> {
    let Sizes { rows, depth, columns } = sizes;
    let mut c = vec![0.0; rows * columns];
    for i in 0..rows {
        for k in 0..depth {
            for j in 0..columns {
                c[i * columns + j] += f64::from(a[i * depth + k]) * f64::from(b[k * columns + j]);
            }
        }
    }
    c
}

#[test]
fn it_is_the_product_in_every_form_for_every_number_of_threads() {
    // One task, cut by rows, cut by panels, one part of the depth, several parts, and sizes that are multiples of nothing.
    for (rows, depth, columns) in [(1, 1, 1), (3, 10, 7), (300, 65, 33), (5, 1200, 517), (61, 801, 260)] {
        let sizes = Sizes { rows, depth, columns };
        let (a, b, bias) = (numbers(rows, depth, 1), numbers(depth, columns, 2), numbers(1, columns, 3));
        let wanted = expected(&a, &b, sizes);
        let (a_t, panels) =
            (transposed(&a, rows, depth), Panels::transposed(&transposed(&b, depth, columns), depth, 1));
        let scale = wanted.iter().chain(&[1.0]).fold(0.0f64, |m, v| m.max(v.abs()));
        // Rounding errors add up as a random walk does.
        let bound = f64::from(f32::EPSILON) * scale * (1.0 + (depth as f64).sqrt());
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut results = Vec::new();
            for (left, right) in [
                (Left::Rows(&a), Right::Panels(&panels)),
                (Left::Rows(&a), Right::Rows(&b)),
                (Left::Columns(&a_t), Right::Panels(&panels)),
                (Left::Columns(&a_t), Right::Rows(&b)),
            ] {
                let mut c = vec![f32::NAN; rows * columns];
                let mut c_t = c.clone();
                let epilogue = Epilogue { bias: &bias, residual: None, activation: Activation::Relu };
                pool.install(|| dense(left, right, sizes, Output::Rows(&mut c, epilogue)).unwrap());
                pool.install(|| dense(left, right, sizes, Output::Columns(&mut c_t)).unwrap());
                for (i, wanted) in wanted.iter().enumerate() {
                    let with_bias = (wanted + f64::from(bias[i % columns])).max(0.0);
                    assert!((f64::from(c[i]) - with_bias).abs() < bound, "{i}");
                    let found = c_t[i % columns * rows + i / columns];
                    assert!((f64::from(found) - wanted).abs() < bound, "{i}");
                }
                results.push((c, c_t));
            }
            results
        };
        // The tasks are cut differently.
        let one = run(1);
        assert!([2, 3, 8].into_iter().all(|threads| run(threads) == one));
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let (sizes, mut c) = (Sizes { rows: 2, depth: 3, columns: 4 }, [0.0; 8]);
    let mut refused = |a: usize, b: usize, c_len: usize| {
        let (a, b) = (vec![0.0; a], vec![0.0; b]);
        let output = Output::Rows(&mut c[..c_len], Epilogue::default());
        dense(Left::Rows(&a), Right::Rows(&b), sizes, output).is_err()
    };
    assert!(!refused(6, 12, 8));
    assert!(refused(5, 12, 8) && refused(6, 11, 8) && refused(6, 12, 7));
}
