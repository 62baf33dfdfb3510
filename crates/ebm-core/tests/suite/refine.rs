//! Algorithms S1 and S2 and plain ascent, against closed forms and golden values.

use std::cell::Cell;

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{
    EnergyModel, Error, GradientAscent, Refined, Result, Status, StepRule, Tempered, refine, refine_observed,
};

use crate::zoo::{Counted, Function, assert_close, candidates, flat, gaussian};

/// f = -(y - 2)².
fn parabola() -> Function<'static> {
    Function::new(|y: &Tensor| Ok((y - 2.0)?.sqr()?.neg()?.sum(2)?))
}

fn ascent(rule: StepRule, steps: usize, lambda: f64, decay: f64) -> GradientAscent {
    GradientAscent { steps, step_length: vec![lambda], decay, rule }
}

const S2: StepRule =
    StepRule::EarlyStopping { change_threshold: 1e-3, degeneration_tolerance: -1e-2, keep_best: false };
const S2_KEEP_BEST: StepRule =
    StepRule::EarlyStopping { change_threshold: 1e-3, degeneration_tolerance: -1e-2, keep_best: true };

fn climb(y0: f64, ascent: &GradientAscent) -> Refined {
    refine(&parabola(), &(), &candidates(1, &[&[y0]]), ascent).unwrap()
}

#[track_caller]
fn assert_ends(refined: &Refined, y: f64, accepted: usize, rejected: usize, status: Status) {
    assert_close(&flat(&refined.y), &[y], 1e-14);
    assert_close(&flat(&refined.f), &[-(y - 2.0).powi(2)], 1e-14);
    let outcome = refined.outcome.candidates[0];
    assert_eq!((outcome.accepted, outcome.rejected, outcome.status), (accepted, rejected, status));
}

#[test]
fn golden_values_of_algorithm_s1() {
    let refined = climb(0.0, &ascent(StepRule::Backtracking, 10, 1.2, 0.5));
    assert_ends(&refined, 2.000_001_024, 9, 1, Status::Completed);
    assert_close(&[1.2 * refined.outcome.candidates[0].step_scale], &[0.6], 1e-15);
    assert_eq!(flat(&refined.f_init), [-4.0]);

    let refined = climb(0.0, &ascent(StepRule::Backtracking, 10, 0.25, 0.5));
    assert_ends(&refined, 1.998_046_875, 10, 0, Status::Completed);
}

#[test]
fn golden_values_of_algorithm_s2() {
    assert_ends(&climb(0.0, &ascent(S2, 5, 0.25, 1.0)), 1.9375, 5, 0, Status::Completed);

    let refined = climb(0.0, &ascent(S2, 5, 1.2, 1.0));
    assert_ends(&refined, 4.8, 1, 0, Status::Degenerated);
    assert_eq!(refined.outcome.evaluations, 2);

    let refined = climb(1.99, &ascent(S2, 5, 0.25, 1.0));
    assert_ends(&refined, 1.995, 1, 0, Status::Converged);
    assert_eq!(refined.outcome.evaluations, 2);
}

#[test]
fn keep_best_returns_the_best_point_of_algorithm_s2() {
    assert_ends(&climb(0.0, &ascent(S2_KEEP_BEST, 5, 1.2, 1.0)), 0.0, 1, 0, Status::Degenerated);
    assert_ends(&climb(0.0, &ascent(S2_KEEP_BEST, 5, 0.25, 1.0)), 1.9375, 5, 0, Status::Completed);
}

#[test]
fn on_a_quadratic_plain_ascent_follows_the_closed_form() {
    // y - 2 is multiplied by 1 - 2 λ in each step; for λ > 1 it diverges, and plain ascent lets it.
    for lambda in [0.1, 0.5, 0.9, 1.1] {
        for steps in [0, 1, 5] {
            let refined = climb(0.5, &ascent(StepRule::Plain, steps, lambda, 1.0));
            let y = 2.0 - 1.5 * (1.0 - 2.0 * lambda).powi(steps as i32);
            assert_ends(&refined, y, steps, 0, Status::Completed);
        }
    }
}

/// y − 2 is multiplied by 1 − 2 λ = 0.5 in each step: after two of three steps it is −1.5 / 4, and f there
/// −(1.5 / 4)².
#[test]
fn f_before_is_where_the_last_step_began() {
    let refined = climb(0.5, &ascent(StepRule::Plain, 3, 0.25, 1.0));
    assert_close(&flat(&refined.f_before), &[-0.140_625], 1e-14);
    assert_close(&flat(&refined.f), &[-0.140_625 / 4.0], 1e-14);
    let unmoved = climb(0.5, &ascent(StepRule::Plain, 0, 0.25, 1.0));
    assert_eq!((flat(&unmoved.f_before), flat(&unmoved.f)), (vec![-2.25], vec![-2.25]));
}

#[test]
fn a_step_that_changes_nothing_is_rejected() {
    // At the maximum NewValue = PrevValue, and Algorithm S1 asks for more.
    let refined = climb(2.0, &ascent(StepRule::Backtracking, 3, 0.25, 0.5));
    assert_ends(&refined, 2.0, 0, 3, Status::Completed);
    assert_eq!(refined.outcome.candidates[0].step_scale, 0.125);
}

#[test]
fn each_coordinate_has_its_own_step_length() {
    // f's gradient is -y / σ² = (-1, -4, -1), and no step is taken along the last coordinate.
    let model = gaussian(&[0.0, 0.0, 0.0], &[1.0, 0.5, 1.0], 0.0);
    let settings =
        GradientAscent { steps: 1, step_length: vec![0.1, 0.05, 0.0], decay: 1.0, rule: StepRule::Plain };
    let refined = refine(&model, &(), &candidates(1, &[&[1.0, 1.0, 1.0]]), &settings).unwrap();
    assert_close(&flat(&refined.y), &[0.9, 0.8, 1.0], 1e-15);
}

#[test]
fn one_evaluation_per_step() {
    for (rule, decay) in [(StepRule::Backtracking, 0.5), (StepRule::Plain, 1.0)] {
        let model = Counted::new(parabola());
        let y0 = candidates(2, &[&[0.0], &[1.0], &[4.0], &[2.5]]);
        let refined = refine(&model, &(), &y0, &ascent(rule, 10, 0.3, decay)).unwrap();
        // T + 1 values; the last one needs no gradient.
        assert_eq!((model.gradients.get(), model.values.get()), (10, 1));
        assert_eq!(refined.outcome.evaluations, 11);
    }
    let model = Counted::new(parabola());
    refine(&model, &(), &candidates(1, &[&[0.0]]), &ascent(StepRule::Plain, 0, 0.3, 1.0)).unwrap();
    assert_eq!((model.gradients.get(), model.values.get()), (0, 1));
}

#[test]
fn a_batch_equals_its_candidates_one_by_one() {
    // Two inputs x with different curvature, so that candidates differ in accepted steps and stopping.
    struct Curved;
    impl EnergyModel for Curved {
        type Features = Tensor; // (B, 1)
        fn score(&self, curvature: &Tensor, y: &Tensor) -> Result<Tensor> {
            Ok(((y - 2.0)?.sqr()?.sum(2)?.broadcast_mul(curvature)? * -1.0)?)
        }
    }
    let curvature = Tensor::new(&[[0.3], [2.0]], &Device::Cpu).unwrap();
    let rows: [&[f64]; 6] =
        [&[0.0, 1.0], &[1.99, 2.01], &[2.0, 2.0], &[5.0, -3.0], &[2.0, 2.001], &[9.0, 2.0]];
    let y0 = candidates(2, &rows);
    let settings = [
        ascent(StepRule::Backtracking, 6, 0.7, 0.5),
        ascent(S2, 6, 0.7, 1.0),
        ascent(S2_KEEP_BEST, 6, 0.7, 1.0),
        ascent(StepRule::Plain, 6, 0.2, 1.0),
    ];
    for ascent in settings {
        let all = refine(&Curved, &curvature, &y0, &ascent).unwrap();
        let (y, f) = (flat(&all.y), flat(&all.f));
        for index in 0..6 {
            let features = curvature.narrow(0, index / 3, 1).unwrap();
            let one = refine(&Curved, &features, &candidates(1, &[rows[index]]), &ascent).unwrap();
            assert_eq!(flat(&one.y), y[2 * index..2 * index + 2]);
            assert_eq!(flat(&one.f), f[index..=index]);
            assert_eq!(one.outcome.candidates, all.outcome.candidates[index..=index]);
        }
        let outcomes = &all.outcome.candidates;
        if ascent.rule != StepRule::Plain {
            assert!(outcomes.iter().any(|o| o.accepted != outcomes[0].accepted), "{outcomes:?}");
        }
    }
}

#[test]
fn f32_agrees_with_f64_and_keeps_its_type() {
    let y0 = candidates(1, &[&[0.0, 1.0, 2.0, 3.0], &[0.4, 0.6, 3.0, 4.0]]);
    let model = gaussian(&[0.5, 0.5, 3.0, 4.0], &[1.0, 1.5, 2.0, 1.0], 0.0);
    let ascent = GradientAscent {
        steps: 10,
        step_length: vec![0.1, 0.1, 0.4, 0.4],
        decay: 0.5,
        rule: StepRule::Backtracking,
    };
    let double = refine(&model, &(), &y0, &ascent).unwrap();
    let single = refine(&model, &(), &y0.to_dtype(DType::F32).unwrap(), &ascent).unwrap();
    assert_eq!(
        (single.y.dtype(), single.f.dtype(), single.f_init.dtype()),
        (DType::F32, DType::F32, DType::F32)
    );
    assert_close(&flat(&single.y), &flat(&double.y), 1e-6);
    assert_close(&flat(&single.f), &flat(&double.f), 1e-6);
}

#[test]
fn the_result_is_detached() {
    let weight = Var::new(1.0, &Device::Cpu).unwrap();
    let model = Function::new(|y: &Tensor| Ok(y.sqr()?.neg()?.broadcast_mul(&weight)?.sum(2)?));
    let y0 = Var::from_tensor(&candidates(1, &[&[1.0]])).unwrap();
    for steps in [0, 3] {
        let refined = refine(&model, &(), &y0, &ascent(StepRule::Backtracking, steps, 0.1, 0.5)).unwrap();
        assert!([&refined.y, &refined.f, &refined.f_init].iter().all(|t| !t.track_op()));
    }
}

#[test]
fn without_candidates_the_model_is_not_called() {
    let model = Counted::new(parabola());
    for (batch, count) in [(0, 3), (2, 0)] {
        let y0 = Tensor::zeros((batch, count, 1), DType::F32, &Device::Cpu).unwrap();
        let refined = refine(&model, &(), &y0, &ascent(StepRule::Backtracking, 10, 0.3, 0.5)).unwrap();
        assert_eq!((refined.y.dims(), refined.f.dims()), (&[batch, count, 1][..], &[batch, count][..]));
        assert_eq!((refined.f_init.dims(), refined.outcome.evaluations), (&[batch, count][..], 0));
    }
    assert_eq!((model.gradients.get(), model.values.get()), (0, 0));
}

#[test]
fn bad_settings_and_inputs_have_typed_errors() {
    let refuse = |settings: GradientAscent| {
        refine(&parabola(), &(), &candidates(1, &[&[0.0, 1.0]]), &settings).unwrap_err()
    };
    let base = ascent(StepRule::Backtracking, 3, 0.1, 0.5);
    for decay in [0.0, -0.5, 1.5, f64::NAN] {
        assert!(matches!(
            refuse(GradientAscent { decay, ..base.clone() }),
            Error::Setting { name: "decay", .. }
        ));
    }
    for rule in [StepRule::Plain, S2] {
        let error = refuse(GradientAscent { rule, ..base.clone() });
        assert!(matches!(error, Error::Setting { name: "decay", .. }), "{error}");
    }
    for step_length in [vec![], vec![0.1; 3], vec![-0.1], vec![f64::NAN, 0.1], vec![f64::INFINITY]] {
        let error = refuse(GradientAscent { step_length, ..base.clone() });
        assert!(matches!(error, Error::Setting { name: "step_length", .. }), "{error}");
    }
    for (omega1, omega2, name) in [
        (-1e-3, -1e-2, "change_threshold"),
        (f64::NAN, -1e-2, "change_threshold"),
        (1e-3, 1e-2, "degeneration_tolerance"),
        (1e-3, f64::NEG_INFINITY, "degeneration_tolerance"),
    ] {
        let rule = StepRule::EarlyStopping {
            change_threshold: omega1,
            degeneration_tolerance: omega2,
            keep_best: false,
        };
        let error = refuse(GradientAscent { rule, decay: 1.0, ..base.clone() });
        assert!(matches!(error, Error::Setting { name: got, .. } if got == name), "{error}");
    }

    let with_y0 = |y0: Tensor| refine(&parabola(), &(), &y0, &base).unwrap_err();
    assert!(matches!(with_y0(candidates(1, &[&[0.0, f64::NAN]])), Error::NonFinite { index: 1, .. }));
    assert!(matches!(with_y0(Tensor::new(&[[0.0]], &Device::Cpu).unwrap()), Error::Shape { .. }));

    let broken = Function::new(|y: &Tensor| Ok(y.clone()));
    let error = refine(&broken, &(), &candidates(1, &[&[0.0]]), &base).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    let constant = Function::new(|y: &Tensor| Ok(y.detach().sum(2)?));
    let error = refine(&constant, &(), &candidates(1, &[&[0.0]]), &base).unwrap_err();
    assert!(matches!(error, Error::NoGradient), "{error}");
}

/// Returns the gradient where it is needed and a huge number elsewhere, and counts the needed gradients.
struct OnlyRead<M>(M, Cell<usize>);

impl<M: EnergyModel> EnergyModel for OnlyRead<M> {
    type Features = M::Features;
    fn score(&self, features: &M::Features, y: &Tensor) -> Result<Tensor> {
        self.0.score(features, y)
    }
    fn score_and_grad_where(
        &self,
        features: &M::Features,
        y: &Tensor,
        needs_gradient: &dyn Fn(usize, f64) -> bool,
    ) -> Result<(Tensor, Tensor)> {
        let (f, gradient) = self.0.score_and_grad(features, y)?;
        let mut rows = gradient.flatten_to(1)?.to_vec2::<f64>()?;
        for (place, (row, f)) in rows.iter_mut().zip(flat(&f)).enumerate() {
            match needs_gradient(place, f) {
                true => self.1.set(self.1.get() + 1),
                false => row.fill(1e300),
            }
        }
        Ok((f, Tensor::from_vec(rows.concat(), y.shape(), y.device())?))
    }
}

/// A refinement needs the gradients at its starts and at the steps that it keeps, except the last step, and uses
/// no other gradient. [`Tempered`] passes the predicate on.
#[test]
fn gradients_are_read_where_a_step_was_kept() {
    let starts = candidates(2, &[&[0.0, 1.0], &[1.99, 2.0], &[-5.0, 3.0], &[2.001, 1.999]]);
    for (rule, decay, lambda) in [
        (StepRule::Backtracking, 0.5, 0.9),
        (S2, 1.0, 0.3),
        (S2_KEEP_BEST, 1.0, 1.1),
        (StepRule::Plain, 1.0, 0.2),
    ] {
        for steps in [0, 1, 6] {
            let ascent = ascent(rule, steps, lambda, decay);
            let plain = parabola();
            let expected = refine(&Tempered::new(&plain, 1.5).unwrap(), &(), &starts, &ascent).unwrap();
            let model = OnlyRead(parabola(), Cell::new(0));
            let found = refine(&Tempered::new(&model, 1.5).unwrap(), &(), &starts, &ascent).unwrap();
            assert_eq!((flat(&found.y), found.outcome), (flat(&expected.y), expected.outcome.clone()));
            // One at each start, and one at every kept step that another step follows.
            let kept: usize = expected.outcome.candidates.iter().map(|own| own.accepted).sum();
            let most = 4 * usize::from(steps > 0) + kept;
            assert!(model.1.get() <= most && model.1.get() + 4 >= most, "{} of {most}", model.1.get());
        }
    }
}

/// With λ = 1 the distance d from 2 becomes −d, and f stays; with λ = 3/2 it becomes −2 d.
#[test]
fn algorithm_s2_stops_below_its_bounds_and_keeps_the_first_best() {
    let rule = |change_threshold, degeneration_tolerance, keep_best| {
        ascent(
            StepRule::EarlyStopping { change_threshold, degeneration_tolerance, keep_best },
            3,
            if keep_best { 1.0 } else { 1.5 },
            1.0,
        )
    };
    // f falls from −1 to −4 and to −16. A change that equals a bound is not below it.
    assert_ends(&climb(3.0, &rule(0.5, -3.0, false)), 6.0, 2, 0, Status::Degenerated);
    assert_ends(&climb(3.0, &rule(3.0, -100.0, false)), -6.0, 3, 0, Status::Completed);
    assert_ends(&climb(3.0, &rule(0.0, -1.0, true)), 3.0, 3, 0, Status::Completed);
}

#[test]
fn an_observer_sees_no_step_of_a_candidate_that_has_stopped() {
    let (mut seen, y0) = ([0; 2], candidates(1, &[&[2.0], &[3.0]]));
    let observe = &mut |stand: ebm_core::Stand<'_>| seen[stand.candidate] += 1;
    // The first candidate starts at the maximum, so that its first step changes nothing.
    let refined = refine_observed(&parabola(), &(), &y0, &ascent(S2, 5, 0.01, 1.0), observe).unwrap();
    let status: Vec<Status> = refined.outcome.candidates.iter().map(|candidate| candidate.status).collect();
    assert_eq!(status, [Status::Converged, Status::Completed]);
    assert_eq!(seen, [2, 6]);
}
