//! Sums of losses with a graph each.

use candle_core::{Device, Result, Tensor, Var};
use ebm_ops::{backward, linear, relu, sum_of_losses};

use crate::differences::{devices, noise_tensor};

/// Returns the losses of three inputs, on the CPU, by a layer and one more weight that the first loss does not depend on.
fn losses(x: &Tensor, [weight, other]: [&Var; 2]) -> impl Iterator<Item = Result<Tensor>> {
    (0..3).map(move |i| {
        let wrapped = candle_core::Error::wrap;
        let y = linear(&x.get(i)?, weight, None).map_err(wrapped)?;
        let y = relu(&y).map_err(wrapped)?.sqr()?.sum_all()?;
        let y = if i == 0 { y } else { (y * other.as_tensor().sqr()?)? };
        y.to_device(&Device::Cpu)
    })
}

#[test]
fn it_is_the_sum_with_its_gradients() {
    for device in devices() {
        let on = |shape: &[usize], seed| noise_tensor(shape, seed).unwrap().to_device(&device).unwrap();
        let [weight, other] = [on(&[4, 5], 1), on(&[], 2)].map(|t| Var::from_tensor(&t).unwrap());
        let (x, variables) = (on(&[3, 7, 5], 3), [&weight, &other]);
        let sum = sum_of_losses(losses(&x, variables)).unwrap().unwrap();
        let whole = losses(&x, variables).reduce(|a, b| a? + b?).unwrap().unwrap();
        let close = |a: &Tensor, b: &Tensor| {
            assert!(a.device().same_device(b.device()));
            let difference = (a - b).unwrap().abs().unwrap().max_all().unwrap();
            assert!(difference.to_scalar::<f64>().unwrap() < 1e-12);
        };
        close(&sum, &whole);
        // Also as a part of another expression.
        let [found, expected] = [sum, whole].map(|loss| backward(&(loss * 0.25).unwrap()).unwrap());
        for variable in variables {
            close(found.get(variable).unwrap(), expected.get(variable).unwrap());
        }
    }
}

#[test]
fn no_loss_gives_none_and_an_error_ends_it() {
    assert!(sum_of_losses(std::iter::empty::<Result<Tensor>>()).unwrap().is_none());
    let constant = || Tensor::new(2f32, &Device::Cpu);
    let found = sum_of_losses([constant(), constant()]).unwrap().unwrap();
    assert_eq!((found.to_scalar::<f32>().unwrap(), found.track_op()), (4.0, false));
    let wrong = || Err(candle_core::Error::Msg("no batch".to_owned()));
    let mut asked = 0;
    let losses = std::iter::from_fn(|| {
        asked += 1;
        Some(if asked == 2 { wrong() } else { constant() })
    });
    assert!(sum_of_losses(losses).unwrap_err().to_string().contains("no batch"));
    assert_eq!(asked, 2);
}
