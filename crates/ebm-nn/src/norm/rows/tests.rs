use candle_core::{D, Var};

use super::*;
use crate::ops::testing::{check_gradients_there, noise_tensor};

/// [`fused`] as tensor operations, by autograd.
fn composed(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    residual: Option<&Tensor>,
    relu: bool,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let rows = x.reshape(((), x.dim(D::Minus1)?))?;
    let mean = rows.mean_keepdim(0)?;
    let centered = rows.broadcast_sub(&mean)?;
    let var = centered.sqr()?.mean_keepdim(0)?;
    let scale = weight.broadcast_div(&(&var + eps)?.sqrt()?)?;
    let mut y = centered.broadcast_mul(&scale)?.broadcast_add(bias)?.reshape(x.shape())?;
    if let Some(residual) = residual {
        y = (y + residual)?;
    }
    if relu {
        y = crate::ops::relu(&y).map_err(candle_core::Error::wrap)?;
    }
    Ok((y, mean.detach().flatten_all()?, var.detach().flatten_all()?))
}

#[test]
fn it_is_the_composed_form_and_what_follows() {
    // More than one block of rows.
    let shape = [3, 7, 11, 5];
    let inputs =
        [noise_tensor(&shape, 1), noise_tensor(&[5], 2), noise_tensor(&[5], 3), noise_tensor(&shape, 4)];
    let vars = inputs.map(|t| Var::from_tensor(&t.unwrap()).unwrap());
    let [x, weight, bias, residual] = &vars;
    let g = noise_tensor(&shape, 5).unwrap();
    for (with_residual, relu) in [(false, false), (false, true), (true, false), (true, true)] {
        let added = with_residual.then(|| residual.as_tensor());
        let (y, mean, var) = fused(x, [weight, bias], added, relu, 1e-3).unwrap();
        let (y2, mean2, var2) = composed(x, [weight, bias], added, relu, 1e-3).unwrap();
        let same = |a: &Tensor, b: &Tensor| {
            let d = (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
            assert!(d < 1e-10, "{with_residual} {relu}: {d}");
        };
        same(&y, &y2);
        same(&mean, &mean2);
        same(&var, &var2);
        let grads = [y, y2].map(|y| (y * &g).unwrap().sum_all().unwrap().backward().unwrap());
        for var in &vars[..3 + usize::from(with_residual)] {
            same(grads[0].get(var).unwrap(), grads[1].get(var).unwrap());
        }
    }
}

#[test]
fn gradients_against_differences() {
    let inputs = [
        noise_tensor(&[2, 3, 2, 3], 1),
        noise_tensor(&[3], 2),
        noise_tensor(&[3], 3),
        noise_tensor(&[2, 3, 2, 3], 4),
    ];
    let run = |t: &[Tensor]| Ok(fused(&t[0], [&t[1], &t[2]], Some(&t[3]), true, 1e-3)?.0);
    check_gradients_there(run, &inputs.map(|t| t.unwrap()), 1e-6, 1e-7).unwrap();
}
