//! Refinement of models that produce NaN and infinities.

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, GradientAscent, Result, Status, StepRule, refine};
use proptest::prelude::*;

use crate::zoo::{assert_close, candidates, flat};

/// Model with f(y) and its derivative from a function of one number; it panics at a non-finite y.
struct Scalar<'a>(&'a dyn Fn(f64) -> (f64, f64));

impl EnergyModel for Scalar<'_> {
    type Features = ();
    fn score(&self, (): &(), y: &Tensor) -> Result<Tensor> {
        Ok(self.score_and_grad(&(), y)?.0)
    }
    fn score_and_grad(&self, (): &(), y: &Tensor) -> Result<(Tensor, Tensor)> {
        let values = flat(y);
        assert!(values.iter().all(|v| v.is_finite()), "the model was asked about {values:?}");
        let (f, gradient): (Vec<f64>, Vec<f64>) = values.into_iter().map(&self.0).unzip();
        let (batch, count, dim) = y.dims3()?;
        let f = Tensor::from_vec(f, (batch, count), &Device::Cpu)?.to_dtype(y.dtype())?;
        let gradient = Tensor::from_vec(gradient, (batch, count, dim), &Device::Cpu)?.to_dtype(y.dtype())?;
        Ok((f, gradient))
    }
}

const S2: StepRule =
    StepRule::EarlyStopping { change_threshold: 1e-3, degeneration_tolerance: -1e-2, keep_best: false };

fn settings(rule: StepRule) -> GradientAscent {
    let decay = if rule == StepRule::Backtracking { 0.5 } else { 1.0 };
    GradientAscent { steps: 10, step_length: vec![1.0], decay, rule }
}

#[test]
fn a_candidate_that_starts_at_a_non_finite_f_stays_and_the_others_go_on() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let model =
            Scalar(&|y: f64| if y < 0.0 { (bad, 1.0) } else { (-(y - 2.0).powi(2), -2.0 * (y - 2.0)) });
        for rule in [StepRule::Backtracking, S2, StepRule::Plain] {
            let ascent = GradientAscent { step_length: vec![0.25], ..settings(rule) };
            let refined = refine(&model, &(), &candidates(1, &[&[-1.0], &[0.0]]), &ascent).unwrap();
            let (y, f) = (flat(&refined.y), flat(&refined.f));
            assert_eq!((y[0], f[0].to_bits()), (-1.0, bad.to_bits()));
            assert!((y[1] - 2.0).abs() < 0.05);
            let outcome = refined.outcome.candidates[0];
            assert_eq!((outcome.status, outcome.accepted, outcome.rejected), (Status::NonFinite, 0, 0));
            assert_eq!(refined.outcome.candidates[1].rejected, 0);
        }
    }
}

#[test]
fn backtracking_recovers_from_a_step_into_nan() {
    // f = y up to 1, NaN beyond: the steps shrink until they end below 1.
    let model = Scalar(&|y: f64| if y > 1.0 { (f64::NAN, f64::NAN) } else { (y, 1.0) });
    let refined = refine(&model, &(), &candidates(1, &[&[0.3]]), &settings(StepRule::Backtracking)).unwrap();
    let y = flat(&refined.y)[0];
    assert!((0.8..=1.0).contains(&y), "{y}");
    assert_eq!(flat(&refined.f), [y]);
}

#[test]
fn the_other_rules_undo_a_step_into_nan_and_stop() {
    for bad in [f64::NAN, f64::INFINITY] {
        let model = Scalar(&|y: f64| if y > 1.5 { (bad, 1.0) } else { (y, 1.0) });
        for rule in [S2, StepRule::Plain] {
            let refined = refine(&model, &(), &candidates(1, &[&[0.3]]), &settings(rule)).unwrap();
            assert_close(&flat(&refined.y), &[1.3], 1e-15);
            let outcome = refined.outcome.candidates[0];
            assert_eq!((outcome.accepted, outcome.rejected, outcome.status), (1, 1, Status::NonFinite));
            assert_eq!(refined.outcome.evaluations, 3);
        }
    }
}

#[test]
fn a_step_that_overflows_only_in_f32_is_rejected() {
    let model = Scalar(&|y: f64| (y, 1e38));
    let y0 = candidates(1, &[&[0.0f32]]);
    let ascent = GradientAscent { step_length: vec![10.0], ..settings(StepRule::Plain) };
    let refined = refine(&model, &(), &y0, &ascent).unwrap();
    assert_eq!(flat(&refined.y), [0.0]);
    assert_eq!(refined.outcome.candidates[0].status, Status::NonFinite);
}

/// A bumpy function with patches of NaN and infinities in value, gradient, or both.
fn hostile(frequency: f64, slope: f64, patches: u64) -> impl Fn(f64) -> (f64, f64) {
    move |y| {
        let f = (frequency * y).sin() + slope * y;
        let gradient = frequency * (frequency * y).cos() + slope;
        // A fixed but irregular function of where y lies.
        let cell = (y.clamp(-1e9, 1e9) * 4.0).floor() as i64 as u64;
        let hash = (cell ^ patches).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
        match hash {
            0 => (f64::NAN, gradient),
            1 => (f, f64::NAN),
            2 => (f64::INFINITY, gradient),
            3 => (f64::NEG_INFINITY, f64::INFINITY),
            4 => (f, f64::NEG_INFINITY),
            5 => (f, gradient * 1e300),
            _ => (f, gradient),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_model_does_y_stays_finite(
        y0 in proptest::collection::vec(-10.0..10.0f64, 1..6),
        (frequency, slope, patches) in (0.0..5.0f64, -2.0..2.0f64, any::<u64>()),
        (lambda, decay, steps) in (0.0..3.0f64, 0.05..1.0f64, 0..12usize),
        rule in prop_oneof![Just(StepRule::Backtracking), Just(StepRule::Plain), Just(S2)],
        single in any::<bool>(),
    ) {
        let hostile = hostile(frequency, slope, patches);
        let model = Scalar(&hostile);
        let dtype = if single { DType::F32 } else { DType::F64 };
        let count = y0.len();
        let y0 = Tensor::from_vec(y0, (1, count, 1), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        let decay = if rule == StepRule::Backtracking { decay } else { 1.0 };
        let ascent = GradientAscent { steps, step_length: vec![lambda], decay, rule };
        let refined = refine(&model, &(), &y0, &ascent).unwrap();

        prop_assert!(refined.outcome.evaluations <= steps + 1);
        let (start, f_init) = (flat(&y0), flat(&refined.f_init));
        let (y, f) = (flat(&refined.y), flat(&refined.f));
        // The reported f is that of the reported y.
        let again = flat(&model.score(&(), &refined.y).unwrap());
        for i in 0..count {
            let outcome = refined.outcome.candidates[i];
            prop_assert!(y[i].is_finite());
            prop_assert!(f[i] == again[i] || (f[i].is_nan() && again[i].is_nan()), "{} {}", f[i], again[i]);
            prop_assert_eq!(f[i].is_finite(), f_init[i].is_finite());
            if rule == StepRule::Backtracking && f_init[i].is_finite() {
                prop_assert!(f[i] >= f_init[i]);
                prop_assert_eq!(outcome.accepted > 0, f[i] > f_init[i]);
            }
            if outcome.accepted == 0 {
                prop_assert_eq!(y[i], start[i]);
            }
        }
    }
}
