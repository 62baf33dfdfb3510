//! A box head's linear layers.

use anyhow::Result;
use candle_core::Tensor;
use ebm_nn::ops::linear;
use ebm_nn::params::ParamStore;
use ebm_nn::{init, resnet::relu};

use super::{DEVICE, DTYPE, Run};

/// Layers of these widths on `rows` rows; with `backward`, the gradients in input and parameters, from ones.
pub fn prepare(store: &ParamStore, widths: [usize; 4], rows: usize, backward: bool) -> Result<Run> {
    if !backward {
        // Parameters and input outside the graph.
        store.freeze(|_| true);
    }
    let vb = store.var_builder(DTYPE, &DEVICE);
    let x = vb.get_with_hints((rows, widths[0]), "x", init::normal(1.0))?;
    let layer = |i: usize| -> Result<(Tensor, Tensor)> {
        let vb = vb.pp(format!("fc{i}"));
        let (input, output) = (widths[i], widths[i + 1]);
        Ok((
            vb.get_with_hints((output, input), "weight", init::default_weight())?,
            vb.get_with_hints(output, "bias", init::default_bias(input))?,
        ))
    };
    let layers = [layer(0)?, layer(1)?, layer(2)?];
    let forward = move || -> Result<Tensor> {
        let [first, second, last] = &layers;
        let mut y = x.clone();
        for (weight, bias) in [first, second] {
            y = relu(&linear(&y, weight, Some(bias))?)?;
        }
        Ok(linear(&y, &last.0, Some(&last.1))?)
    };
    if backward {
        Ok(Box::new(move || Ok(Box::new(forward()?.backward()?))))
    } else {
        Ok(Box::new(move || Ok(Box::new(forward()?))))
    }
}
