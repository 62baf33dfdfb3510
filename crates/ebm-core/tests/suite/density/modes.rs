//! Mode search from many starts.

use candle_core::{DType, Device, Tensor};
use ebm_core::{Error, GradientAscent, Mode, Result, StepRule, find_modes};

use crate::zoo::{Function, assert_close, candidates};

const ASCENT: GradientAscent =
    GradientAscent { steps: 200, step_length: Vec::new(), decay: 0.5, rule: StepRule::Backtracking };

fn ascent(steps: usize) -> GradientAscent {
    GradientAscent { steps, step_length: vec![0.05], ..ASCENT }
}

/// f = −(a² − 1)² − b²/2 + a/10: two modes near a = ±1.
fn double_well() -> Function<impl Fn(&Tensor) -> Result<Tensor>> {
    Function(|y: &Tensor| {
        let (a, b) = (y.narrow(2, 0, 1)?, y.narrow(2, 1, 1)?);
        let well = (a.sqr()? - 1.0)?.sqr()?;
        Ok((((a * 0.1)? - well)? - (b.sqr()? * 0.5)?)?.squeeze(2)?)
    })
}

/// f of the double well at (a, 0).
fn height(a: f64) -> f64 {
    0.1 * a - (a * a - 1.0).powi(2)
}

#[test]
fn many_starts_merge_into_the_modes_by_height() {
    let rows: [&[f64]; 6] =
        [&[-0.3, 2.0], &[0.4, 1.0], &[2.0, -1.0], &[-1.5, 0.0], &[-0.9, 0.1], &[1.0, 0.0]];
    let starts = Tensor::cat(&[&candidates(1, &rows), &candidates(1, &[&[-1.0, 0.0][..]; 6])], 0).unwrap();
    let modes = find_modes(&double_well(), &(), &starts, &ascent(300), 1e-3).unwrap();
    // The roots of 0.1 = 4 a (a² − 1).
    let (right, left) = (1.012_273_131, -0.987_257_477);
    assert_eq!((modes.len(), modes[0].len(), modes[1].len()), (2, 2, 1));
    for (mode, a) in [(&modes[0][0], right), (&modes[0][1], left), (&modes[1][0], left)] {
        assert_close(&mode.y, &[a, 0.0], 1e-5);
        assert_close(&[mode.f], &[height(a)], 1e-6);
    }
    // A tolerance that spans both leaves the higher; one of zero merges only what is equal.
    let one = find_modes(&double_well(), &(), &starts, &ascent(300), 3.0).unwrap();
    assert_eq!((one[0].len(), &one[0][0]), (1, &modes[0][0]));
    let same = find_modes(&double_well(), &(), &starts, &ascent(0), 0.0).unwrap();
    assert_eq!((same[0].len(), same[1].len()), (6, 1));
    assert!(same[0].windows(2).all(|pair| pair[0].f >= pair[1].f));
}

#[test]
fn a_start_without_a_finite_f_leads_nowhere() {
    let model = Function(|y: &Tensor| Ok((y.log()? - y)?.sum(2)?));
    let starts = candidates(2, &[&[-1.0], &[0.5], &[-1.0], &[-2.0]]);
    let modes = find_modes(&model, &(), &starts, &ascent(400), 1e-4).unwrap();
    assert_eq!(modes[1], Vec::<Mode>::new());
    assert_eq!(modes[0].len(), 1);
    assert_close(&modes[0][0].y, &[1.0], 1e-5);
}

#[test]
fn bad_settings_and_inputs_have_typed_errors() {
    let starts = candidates(1, &[&[0.0, 0.0]]);
    let refuse = |starts: &Tensor, tolerance| {
        find_modes(&double_well(), &(), starts, &ascent(3), tolerance).unwrap_err()
    };
    for tolerance in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(refuse(&starts, tolerance), Error::Setting { name: "tolerance", .. }));
    }
    let empty = Tensor::zeros((1, 0, 2), DType::F64, &Device::Cpu).unwrap();
    assert!(matches!(refuse(&empty, 0.1), Error::Empty { what: "the starts", .. }));
    assert!(matches!(refuse(&candidates(1, &[&[f64::NAN, 0.0]]), 0.1), Error::NonFinite { .. }));
    let bad = GradientAscent { decay: 0.0, ..ascent(1) };
    let error = find_modes(&double_well(), &(), &starts, &bad, 0.1).unwrap_err();
    assert!(matches!(error, Error::Setting { name: "decay", .. }), "{error}");
}
