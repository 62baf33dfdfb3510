//! Normalisation by the batch on the CPU, with what follows in the same pass.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use ebm_ops::Activation;
use ebm_ops::internals::{NormEpilogue, fused};

use crate::differences::{check_gradients_there, noise_tensor};

/// Computes [`fused`] as tensor operations, with candle's gradients.
fn composed(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    epilogue: NormEpilogue<'_>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let rows = x.reshape(((), x.dim(D::Minus1)?))?;
    let mean = rows.mean_keepdim(0)?;
    let centered = rows.broadcast_sub(&mean)?;
    let var = centered.sqr()?.mean_keepdim(0)?;
    let scale = weight.broadcast_div(&(&var + eps)?.sqrt()?)?;
    let y = centered.broadcast_mul(&scale)?.broadcast_add(bias)?.reshape(x.shape())?;
    let y = epilogue.apply(&y).map_err(candle_core::Error::wrap)?;
    Ok((y, mean.detach().flatten_all()?, var.detach().flatten_all()?))
}

/// Returns inputs (x, γ, β, residual, slope) of more than one block of rows, and a gradient.
fn inputs() -> ([Var; 5], Tensor) {
    let shape = [3, 7, 11, 5];
    let inputs =
        [&shape[..], &[5], &[5], &shape, &[5]].map(|shape| noise_tensor(shape, shape.len() as u64).unwrap());
    (inputs.map(|input| Var::from_tensor(&(input * 3.).unwrap()).unwrap()), noise_tensor(&shape, 5).unwrap())
}

#[test]
fn it_is_the_composed_form_and_what_follows() {
    let (vars, g) = inputs();
    let [x, weight, bias, residual, slope] = &vars;
    for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
        for (with_residual, with_slope) in [(false, false), (true, false), (false, true), (true, true)] {
            let residual = with_residual.then(|| residual.as_tensor());
            let epilogue =
                NormEpilogue { residual, activation, slope: with_slope.then(|| slope.as_tensor()) };
            let ((y, mean, var), rest) = fused(x, [weight, bias], epilogue, 1e-3).unwrap();
            let y = rest.apply(&y).unwrap();
            let (y2, mean2, var2) = composed(x, [weight, bias], epilogue, 1e-3).unwrap();
            let same = |a: &Tensor, b: &Tensor| {
                let d = (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
                assert!(d < 1e-10, "{activation:?} {with_residual} {with_slope}: {d}");
            };
            same(&y, &y2);
            same(&mean, &mean2);
            same(&var, &var2);
            let grads = [y, y2].map(|y| (y * &g).unwrap().sum_all().unwrap().backward().unwrap());
            let used = [true, true, true, with_residual, with_slope];
            for (var, _) in vars.iter().zip(used).filter(|(_, used)| *used) {
                same(grads[0].get(var).unwrap(), grads[1].get(var).unwrap());
            }
        }
    }
}

#[test]
fn only_prelu_behind_a_residual_is_left() {
    let (vars, _) = inputs();
    let [x, weight, bias, residual, slope] = &vars;
    for with_residual in [false, true] {
        let residual = with_residual.then(|| residual.as_tensor());
        let epilogue = NormEpilogue { residual, activation: Activation::Relu, slope: Some(slope) };
        let (_, rest) = fused(x, [weight, bias], epilogue, 1e-3).unwrap();
        assert_eq!((rest.slope.is_some(), rest.residual.is_some()), (with_residual, false));
        assert_eq!(rest.activation, Activation::None);
    }
}

#[test]
fn a_mean_far_from_zero_leaves_the_variance_exact() {
    // 1 000 rows around 1 000 with a variance of about 1/12, in single precision.
    let x: Vec<f32> = (0..3000).map(|i| 1000.0 + (i * 7919 % 1009) as f32 / 1009.0).collect();
    let x = Tensor::from_vec(x, (1000, 3), &Device::Cpu).unwrap();
    let wide = x.to_dtype(DType::F64).unwrap();
    let mean = wide.mean_keepdim(0).unwrap();
    let var = wide.broadcast_sub(&mean).unwrap().sqr().unwrap().mean(0).unwrap();
    let affine = Tensor::ones(3, DType::F32, &Device::Cpu).unwrap();
    let ((_, found_mean, found_var), _) =
        fused(&x, [&affine, &affine], NormEpilogue::default(), 1e-3).unwrap();
    let found = [found_mean, found_var].map(|moment| moment.to_vec1::<f64>().unwrap());
    for (found, expected) in found.iter().zip([mean.flatten_all().unwrap(), var]) {
        for (found, expected) in found.iter().zip(expected.to_vec1::<f64>().unwrap()) {
            assert!((found - expected).abs() < 1e-5 * expected, "{found} {expected}");
        }
    }
}

#[test]
fn gradients_against_differences() {
    let shape = [2, 3, 2, 3];
    let inputs = [&shape[..], &[3], &[3], &shape].map(|of| noise_tensor(of, of.len() as u64 + 1).unwrap());
    fn of(t: &[Tensor], epilogue: NormEpilogue<'_>) -> Result<Tensor> {
        Ok(fused(&t[0], [&t[1], &t[2]], epilogue, 1e-3)?.0.0)
    }
    let relu = |t: &[Tensor]| {
        of(t, NormEpilogue { residual: Some(&t[3]), activation: Activation::Relu, slope: None })
    };
    check_gradients_there(relu, &inputs, 1e-6, 1e-7).unwrap();
    let slope = noise_tensor(&[3], 7).unwrap();
    let [x, weight, bias, _] = inputs;
    let prelu = |t: &[Tensor]| of(t, NormEpilogue { slope: Some(&t[3]), ..NormEpilogue::default() });
    check_gradients_there(prelu, &[x, weight, bias, slope], 1e-6, 1e-7).unwrap();
}
