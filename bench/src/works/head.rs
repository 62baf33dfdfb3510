//! Linear layers of a box head.

use anyhow::Result;
use candle_core::Tensor;
use ebm_nn::init;
use ebm_ops::nn::PackedLinear;
use ebm_ops::{Workspace, backward as gradients, linear, relu};

use super::{Place, Run};

/// Prepares layers of these widths on `rows` rows. With `backward`, the gradients of the output's sum.
pub fn prepare(place: &Place<'_>, widths: [usize; 4], rows: usize, backward: bool) -> Result<Run> {
    if !backward {
        // Inference: parameters and input stay out of the graph.
        place.freeze();
    }
    let vb = place.var_builder();
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
    if !backward && place.packs() {
        return packed(&x, &layers);
    }
    let forward = move || -> Result<Tensor> {
        let [first, second, last] = &layers;
        let mut y = x.clone();
        for (weight, bias) in [first, second] {
            y = relu(&linear(&y, weight, Some(bias))?)?;
        }
        Ok(linear(&y, &last.0, Some(&last.1))?)
    };
    if !backward {
        return Ok(Box::new(move || Ok(Box::new(forward()?))));
    }
    Ok(Box::new(move || Ok(Box::new(gradients(&forward()?)?))))
}

/// Prepares inference with packed weights, without a graph.
fn packed(x: &Tensor, layers: &[(Tensor, Tensor)]) -> Result<Run> {
    let pack = |(weight, bias): &(Tensor, Tensor)| PackedLinear::new(weight, Some(bias));
    let layers = layers.iter().map(pack).collect::<ebm_nn::Result<Vec<_>>>()?;
    let (x, workspace) = (x.flatten_all()?.to_vec1::<f32>()?, Workspace::new());
    Ok(Box::new(move || {
        let mut y: Option<Vec<f32>> = None;
        for (i, layer) in layers.iter().enumerate() {
            let relu = i + 1 < layers.len();
            let next = layer.forward(y.as_deref().unwrap_or(&x), relu, &workspace)?;
            y.replace(next).into_iter().for_each(|old| workspace.give(old));
        }
        Ok(Box::new(y))
    }))
}
