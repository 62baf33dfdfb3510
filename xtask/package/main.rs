//! A program outside the tree that depends on `ebm-core` alone, as it is packed: `cargo xtask package` builds and runs it.

use ebm_core::candle_core::{Device, Tensor};
use ebm_core::{EnergyModel, GradientAscent, Grid, StepRule};

/// f(x, y) = -(y - x)²: p(y | x) is a Gaussian with mean x and variance 1/2.
struct Parabola;

impl EnergyModel for Parabola {
    type Features = Tensor;
    fn score(&self, x: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(y.broadcast_sub(x)?.sqr()?.neg()?.sum(2)?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::new(&[[[1f32]]], &Device::Cpu)?;
    let conditional = Parabola.bind(&x, 1);
    let p = &conditional.grid(&Grid::new(-5.0, 7.0, 1201)?)?[0];
    let region = p.highest_density_region(0.9)?.intervals;
    let ascent = GradientAscent { steps: 50, step_length: vec![0.25], decay: 0.5, rule: StepRule::Backtracking };
    let uphill = conditional.refine(&x.zeros_like()?, &ascent)?.y.flatten_all()?.to_vec1::<f32>()?[0];
    println!("mean {:.2}, variance {:.2}, 90 % in {region:.2?}, uphill from 0 {uphill:.2}", p.mean(), p.variance());
    Ok(())
}
