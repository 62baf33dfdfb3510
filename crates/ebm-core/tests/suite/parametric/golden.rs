//! Values of the paper's formulas, and of PyTorch.

use candle_core::{Device, Tensor, Var};
use ebm_core::parametric::{Baseline, Gaussian, JointLaplace, Laplace, Parametric};
use serde::Deserialize;

use super::{rows, scalar};
use crate::zoo::{assert_close, flat};

#[test]
fn losses_of_the_supplement() {
    // d²/σ² + log σ² and |d|/β + log β with d = 1.5 and s = log 4; the root of 2²/2 + 1²/1 + 0.5²/0.5.
    let s = 4f64.ln();
    let (outputs, y) = (rows(&[&[35.5, s]]), rows(&[&[37.0]]));
    let loss = |model: &dyn Parametric| scalar(&model.loss(&outputs, &y).unwrap());
    assert_close(&[loss(&Gaussian::new(1).unwrap())], &[s + 0.5625], 1e-15);
    assert_close(&[loss(&Laplace::new(1).unwrap())], &[s + 0.375], 1e-15);

    let outputs = rows(&[&[8.0, -4.0, 3.5, 2f64.ln(), 0.0, 0.5f64.ln()]]);
    let loss = JointLaplace::new(3).unwrap().loss(&outputs, &rows(&[&[10.0, -5.0, 3.0]])).unwrap();
    assert_close(&[scalar(&loss)], &[3.5f64.sqrt()], 1e-15);
}

#[derive(Deserialize)]
struct Golden {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    baseline: Baseline,
    outputs: Vec<Vec<f64>>,
    y: Vec<Vec<f64>>,
    at: Vec<Vec<Vec<f64>>>,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    mean: Vec<Vec<f64>>,
    log_prob: Option<Vec<Vec<f64>>>,
}

#[test]
fn the_models_agree_with_pytorch() {
    let golden: Golden = toml::from_str(include_str!("../../golden/parametric.toml")).unwrap();
    assert_eq!(golden.case.len(), 13);
    for case in golden.case {
        let model = &case.baseline;
        let tensor = |rows: Vec<Vec<f64>>| Tensor::new(rows, &Device::Cpu).unwrap();
        let outputs = Var::from_tensor(&tensor(case.outputs)).unwrap();
        assert_eq!(outputs.dims()[1], model.num_outputs(), "{}", case.name);

        let loss = model.loss(&outputs, &tensor(case.y)).unwrap();
        assert_close(&[scalar(&loss)], &[case.loss], 1e-13);
        let gradients = loss.backward().unwrap();
        assert_close(&flat(gradients.get(&outputs).unwrap()), &case.gradient.concat(), 1e-13);
        assert_close(&flat(&model.mean(&outputs).unwrap()), &case.mean.concat(), 1e-13);

        let at = Tensor::new(case.at, &Device::Cpu).unwrap();
        let log_prob = model.log_prob(&outputs, &at).unwrap();
        assert_eq!(log_prob.is_some(), case.log_prob.is_some(), "{}", case.name);
        if let (Some(got), Some(want)) = (log_prob, case.log_prob) {
            assert_close(&flat(&got), &want.concat(), 1e-12);
        }
    }
}
