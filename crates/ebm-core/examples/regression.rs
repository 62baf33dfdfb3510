//! Fits a candle model to the rows `x,y` of a CSV file: `--example regression -- FILE.csv`.
#![allow(clippy::print_stdout)]
use candle_core::{DType, Device::Cpu, Tensor};
use candle_nn::{AdamW, Linear, Module, Optimizer, VarBuilder, VarMap, linear};
use ebm_core::{
    EnergyModel, GaussianMixture, GradientAscent, Grid, MonteCarloNll, Objective, Result, StepRule,
};
use rand::{Rng, SeedableRng};

/// f(x, y): the features of x are computed once and joined with each y in the first layer.
struct Mlp([Linear; 4]);

impl EnergyModel for Mlp {
    type Features = Tensor; // (B, 1, 32)
    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let hidden = self.0[1].forward(y)?.broadcast_add(x)?.tanh()?;
        Ok(self.0[3].forward(&self.0[2].forward(&hidden)?.tanh()?)?.squeeze(2)?)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/points.csv");
    let text = std::fs::read_to_string(std::env::args().nth(1).as_deref().unwrap_or(bundled))?;
    let pair = |line: &str| line.split_once(',').and_then(|(x, y)| Some([x.parse().ok()?, y.parse().ok()?]));
    let rows: Vec<[f32; 2]> = text.lines().filter_map(pair).collect(); // skips a header

    let parameters = VarMap::new();
    let vb = VarBuilder::from_varmap(&parameters, DType::F32, &Cpu);
    let layer = |inputs, outputs, name| linear(inputs, outputs, vb.pp(name));
    let model = Mlp([layer(1, 32, "x")?, layer(1, 32, "y")?, layer(32, 32, "hidden")?, layer(32, 1, "out")?]);
    let features = |x: &Tensor| model.0[0].forward(&x.unsqueeze(1)?);

    let objective = MonteCarloNll { proposal: GaussianMixture::isotropic(&[0.1, 0.8], 1)?, num_samples: 64 };
    let mut optimizer = AdamW::new_lr(parameters.all_vars(), 0.01)?;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
    for step in 1..=1000 {
        let batch: Vec<f32> = (0..64).flat_map(|_| rows[rng.random_range(0..rows.len())]).collect();
        let batch = Tensor::from_vec(batch, (64, 2), &Cpu)?;
        let (x, y) = (batch.narrow(1, 0, 1)?.contiguous()?, batch.narrow(1, 1, 1)?);
        let loss = objective.loss(&model, &features(&x)?, &y, &mut rng)?; // Eq. 4
        optimizer.backward_step(&loss)?;
        if step % 250 == 0 {
            println!("step {step}: loss {:.3}", loss.to_scalar::<f32>()?);
        }
    }
    let grid = Grid::new(-4.0, 4.0, 2001)?;
    let ascent =
        GradientAscent { steps: 10, step_length: vec![0.02], decay: 0.5, rule: StepRule::Backtracking };
    for x in [-2f32, -1.0, 1.0, 2.0] {
        let features = features(&Tensor::new(&[[x]], &Cpu)?)?.detach();
        let given_x = model.bind(&features, 1);
        let p = &given_x.grid(&grid)?[0];
        let start = Tensor::new(&[[[p.mean() as f32]]], &Cpu)?;
        let mode = given_x.refine(&start, &ascent)?.y.flatten_all()?.to_vec1::<f32>()?[0]; // S1
        let region = p.highest_density_region(0.9)?.intervals;
        println!("x = {x}: mean {:.2}, uphill from there {mode:.2}, 90 % in {region:.2?}", p.mean());
    }
    Ok(())
}
