//! The head of Student's t and late fusion.

use candle_core::{DType, Device, Tensor, Var};
use ebm_ops::heads::StudentFusion;
use ebm_ops::relu;

use crate::differences::{check_gradients_there, distance, noise_tensor};

/// Returns x, y, W, w, the bias and log(ν − 1).
fn arguments(batch: usize, count: usize, dim: usize, hidden: usize) -> Vec<Tensor> {
    let shapes: [&[usize]; 6] =
        [&[batch, 2 * dim + hidden], &[batch, count, dim], &[hidden, 5 * dim], &[1, hidden], &[1], &[1]];
    shapes.iter().zip(1..).map(|(shape, salt)| noise_tensor(shape, salt).unwrap()).collect()
}

fn fused(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let head = StudentFusion::new(&t[2], &t[3], &t[4], &t[5]).unwrap();
    Ok(head.forward(&t[0], &t[1]).unwrap())
}

/// The formula in tensor operations.
fn composed(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let (batch, count, dim) = t[1].dims3()?;
    let hidden = t[2].dim(0)?;
    let location = t[0].narrow(1, 0, dim)?.unsqueeze(1)?;
    let scale = t[0].narrow(1, dim, dim)?.unsqueeze(1)?.exp()?;
    let a = t[0].narrow(1, 2 * dim, hidden)?.unsqueeze(1)?;
    let u = t[1].broadcast_sub(&location)?.broadcast_div(&scale)?;
    let nu = (t[5].exp()? + 1.0)?;
    let tails = (u.sqr()?.broadcast_div(&nu)? + 1.0)?.log()?.sum(2)?;
    let tails = tails.broadcast_mul(&((nu + 1.0)? * -0.5)?)?;
    let widths = [0.5, 1.0, 2.0, 4.0, 8.0];
    let g = widths.iter().map(|width| (&u / *width)?.tanh()).collect::<candle_core::Result<Vec<_>>>()?;
    let g = Tensor::cat(&g, 2)?.reshape((batch * count, 5 * dim))?;
    let z = g.matmul(&t[2].t()?)?.reshape((batch, count, hidden))?.broadcast_add(&a)?;
    let h = relu(&z).unwrap().reshape((batch * count, hidden))?;
    tails + h.matmul(&t[3].t()?)?.broadcast_add(&t[4])?.reshape((batch, count))?
}

/// Returns f, and the gradients of `sum(f * noise)` in all arguments.
fn run(arguments: &[Tensor], f: fn(&[Tensor]) -> candle_core::Result<Tensor>) -> Vec<Tensor> {
    let vars: Vec<Var> = arguments.iter().map(|t| Var::from_tensor(t).unwrap()).collect();
    let tracked: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let f = f(&tracked).unwrap();
    let weights = noise_tensor(f.dims(), 99).unwrap().to_dtype(f.dtype()).unwrap();
    let gradients = (&f * weights).unwrap().sum_all().unwrap().backward().unwrap();
    std::iter::once(f.detach()).chain(vars.iter().map(|v| gradients.get(v).unwrap().clone())).collect()
}

#[test]
fn it_is_the_composition_whatever_the_sizes() {
    // Blocks hold 96 candidates and vectors 8.
    for (batch, count, dim, hidden) in
        [(1, 1, 1, 1), (3, 7, 2, 5), (2, 64, 1, 64), (2, 96, 3, 4), (3, 97, 1, 9), (1, 205, 2, 3)]
    {
        let all = arguments(batch, count, dim, hidden);
        let expected = run(&all, composed);
        for (found, expected) in run(&all, fused).iter().zip(&expected) {
            assert!(distance(found, expected).unwrap() < 1e-13);
        }
        let narrow: Vec<Tensor> = all.iter().map(|t| t.to_dtype(DType::F32).unwrap()).collect();
        for (place, (found, expected)) in run(&narrow, fused).iter().zip(&expected).enumerate() {
            // A unit within rounding of 0 may be open in one and closed in the other.
            let bound = if place == 0 { 1e-5 } else { 1e-3 };
            assert!(distance(found, expected).unwrap() < bound, "{place} of {:?}", (batch, count, dim));
        }
    }
}

#[test]
fn gradients_against_differences() {
    for dim in [1, 2, 3] {
        check_gradients_there(fused, &arguments(2, 3, dim, 5), 1e-6, 1e-7).unwrap();
    }
}

#[test]
fn nan_is_seen_and_far_candidates_have_finite_scores() {
    let all: Vec<Tensor> = arguments(1, 2, 1, 3).iter().map(|t| t.to_dtype(DType::F32).unwrap()).collect();
    let with = |place: usize, value: f32| {
        let mut all = all.clone();
        all[place] = Tensor::full(value, all[place].shape(), &Device::Cpu).unwrap();
        fused(&all).unwrap().to_vec2::<f32>().unwrap().remove(0)
    };
    for place in 0..all.len() {
        assert!(with(place, f32::NAN).iter().all(|f| f.is_nan()), "{place}");
    }
    for y in [1e18, -1e30] {
        let f = with(1, y);
        assert!(f[0].is_finite() && f[0] < -40.0, "{y}: {f:?}");
    }
    assert!(fused(&arguments(2, 0, 1, 3)).unwrap().elem_count() == 0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let t = arguments(2, 3, 1, 4);
    let head = StudentFusion::new(&t[2], &t[3], &t[4], &t[5]).unwrap();
    let wide = arguments(2, 3, 2, 4);
    for (x, y) in [(&wide[0], &t[1]), (&t[0], &wide[1]), (&t[0], &t[1].to_dtype(DType::F32).unwrap())] {
        let error = head.forward(x, y).unwrap_err().to_string();
        assert!(error.contains("student_fusion") && error.contains("(B, 6)"), "{error}");
    }
    let wrong = [
        StudentFusion::new(&wide[2], &t[4], &t[4], &t[5]),
        StudentFusion::new(&t[3].t().unwrap(), &t[3], &t[4], &t[5]),
        StudentFusion::new(&Tensor::cat(&[&wide[2], &wide[2]], 1).unwrap(), &t[3], &t[4], &t[5]),
    ];
    assert!(wrong.iter().all(|found| found.is_err()));
}
