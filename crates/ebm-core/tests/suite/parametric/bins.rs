//! Softmax over bins, and ordinal regression.

use candle_core::{Device, Tensor};
use ebm_core::Error;
use ebm_core::parametric::{Bins, Ordinal, OrdinalHead, Parametric, Softmax, coral_logits};

use super::{grid, nll, rows, scalar, waves};
use crate::zoo::{assert_close, candidates, flat};

fn uneven() -> Bins {
    Bins::new(vec![0.0, 1.0, 5.0]).unwrap() // borders −0.5, 0.5, 3, 7
}

#[test]
fn values_belong_to_the_nearest_centre() {
    let ages = Bins::uniform(0.0, 1.0, 101).unwrap();
    assert_eq!((ages.len(), ages.centers()[100]), (101, 100.0));
    for (y, nearest) in [(-7.0, 0), (0.0, 0), (0.49, 0), (0.5, 1), (37.2, 37), (99.6, 100), (1e9, 100)] {
        assert_eq!(ages.nearest(y), nearest, "{y}");
    }
    let bins = uneven();
    for (y, inside) in [
        (-0.6, None),
        (-0.5, Some(0)),
        (0.5, Some(1)),
        (2.9, Some(1)),
        (3.0, Some(2)),
        (6.9, Some(2)),
        (7.0, None),
    ] {
        assert_eq!(bins.containing(y), inside, "{y}");
    }
    assert_eq!(bins.containing(f64::NAN), None);
}

#[test]
fn bad_bins_have_typed_errors() {
    for centers in
        [vec![], vec![1.0], vec![1.0, 1.0], vec![2.0, 1.0], vec![0.0, f64::NAN], vec![0.0, f64::INFINITY]]
    {
        let error = Bins::new(centers).unwrap_err();
        assert!(matches!(error, Error::Setting { name: "bins", .. }), "{error}");
    }
    assert!(Bins::uniform(0.0, -1.0, 5).is_err() && Bins::uniform(0.0, 1.0, 1).is_err());
    assert!(Bins::uniform(0.0, 1.0, usize::MAX).is_err());
    // Too close for f64 to tell them apart.
    assert!(Bins::uniform(1e20, 1.0, 5).is_err());
}

#[test]
fn cross_entropy_is_the_likelihood_but_for_the_width() {
    let model = Softmax::new(2, uneven(), 0.0, 0.0).unwrap();
    let outputs = waves((2, 6), 0.2, 2.0);
    let y = rows(&[&[0.2, 4.0], &[2.9, -0.3]]); // widths 1 and 4, 2.5 and 1
    let loss = scalar(&model.loss(&outputs, &y).unwrap());
    let widths = (4f64.ln() + 2.5f64.ln()) / 2.0;
    assert_close(&[nll(&model, &outputs, &y)], &[loss + widths], 1e-14);
    let outside = candidates(2, &[&[0.2, 7.5], &[2.9, -0.6]]);
    assert_eq!(flat(&model.log_prob(&outputs, &outside).unwrap().unwrap()), [f64::NEG_INFINITY; 2]);
}

#[test]
fn moments_of_a_known_softmax() {
    // p = (1/6, 1/3, 1/2) over the centres 0, 1, 5.
    let outputs = rows(&[&[1f64.ln(), 2f64.ln(), 3f64.ln()]]);
    let y = rows(&[&[1.4]]);
    let mean = 1.0 / 3.0 + 2.5;
    let variance = 1.0 / 3.0 + 12.5 - mean * mean;
    let loss = |l2, var| {
        let model = Softmax::new(1, uneven(), l2, var).unwrap();
        assert_close(&flat(&model.mean(&outputs).unwrap()), &[mean], 1e-14);
        scalar(&model.loss(&outputs, &y).unwrap())
    };
    assert_close(&[loss(0.0, 0.0)], &[3f64.ln()], 1e-14);
    assert_close(&[loss(0.1, 0.0)], &[3f64.ln() + 0.1 * (mean - 1.4).powi(2)], 1e-14);
    assert_close(&[loss(0.1, 0.05)], &[3f64.ln() + 0.1 * (mean - 1.4).powi(2) + 0.05 * variance], 1e-14);
}

#[test]
fn large_logits_in_single_precision() {
    let model = Softmax::new(1, Bins::uniform(0.0, 1.0, 3).unwrap(), 0.1, 0.05).unwrap();
    let outputs = Tensor::new(&[[1e3f32, -1e3, 0.0], [-1e3, 1e3, 1e3]], &Device::Cpu).unwrap();
    let y = Tensor::new(&[[0.0f32], [2.0]], &Device::Cpu).unwrap();
    assert!(scalar(&model.loss(&outputs, &y).unwrap()).is_finite());
    assert_close(&flat(&model.mean(&outputs).unwrap()), &[0.0, 1.5], 1e-6);
    for head in [OrdinalHead::Niu, OrdinalHead::Coral] {
        let model = Ordinal::new(Bins::uniform(0.0, 1.0, 3).unwrap(), head);
        let outputs: &[f32] = match head {
            OrdinalHead::Niu => &[-1e3, 1e3, 1e3, -1e3],
            OrdinalHead::Coral => &[1e3, -1e3],
        };
        let outputs = Tensor::from_slice(outputs, (1, model.num_outputs()), &Device::Cpu).unwrap();
        let loss =
            |y: f32| scalar(&model.loss(&outputs, &Tensor::new(&[[y]], &Device::Cpu).unwrap()).unwrap());
        assert_eq!(loss(1.0), 0.0);
        assert!(loss(0.0) >= 1e3 && loss(0.0).is_finite());
        assert_eq!(flat(&model.predict(&outputs).unwrap()), [1.0]);
        assert_eq!(flat(&model.mean(&outputs).unwrap()), [1.0]);
    }
}

#[test]
fn ordinal_predictions_count_the_answers() {
    let ranks = Bins::uniform(21.0, 1.0, 4).unwrap();
    let coral = Ordinal::new(ranks.clone(), OrdinalHead::Coral);
    let logits = rows(&[&[-0.1, -2.0, -3.0], &[3.0, 0.1, -0.1], &[3.0, 2.0, 1.0], &[0.0, 0.0, 0.0]]);
    assert_eq!(flat(&coral.predict(&logits).unwrap()), [21.0, 23.0, 24.0, 21.0]);
    assert_close(&flat(&coral.mean(&logits).unwrap())[3..], &[22.5], 1e-15);

    // Niu's pairs with the same differences give the same answers, even inconsistent ones.
    let niu = Ordinal::new(ranks, OrdinalHead::Niu);
    let pairs = rows(&[&[1.0, 0.9, 1.0, -1.0, 3.0, 0.0], &[0.0, 3.0, 1.0, 1.1, 0.1, 0.0]]);
    let y = rows(&[&[22.0], &[24.0]]);
    let of = |model: &Ordinal, outputs: &Tensor| scalar(&model.loss(outputs, &y).unwrap());
    assert_close(&[of(&niu, &pairs)], &[of(&coral, &logits.narrow(0, 0, 2).unwrap())], 1e-14);
    assert_eq!(flat(&niu.predict(&pairs).unwrap()), [21.0, 23.0]);
    let inconsistent = rows(&[&[0.0, -1.0, 0.0, 1.0, 0.0, -1.0]]);
    assert_eq!(flat(&niu.predict(&inconsistent).unwrap()), [22.0]);
    assert!(niu.log_prob(&inconsistent, &candidates(1, &[&[22.0]])).unwrap().is_none());
}

#[test]
fn coral_probabilities_are_differences_and_lose_no_digits() {
    let model = Ordinal::new(Bins::uniform(1.0, 1.0, 4).unwrap(), OrdinalHead::Coral);
    let at = candidates(1, &[&[1.0], &[2.0], &[3.0], &[4.0]]);
    let p = |logits: &[f64]| flat(&model.log_prob(&rows(&[logits]), &at).unwrap().unwrap());
    let s = |x: f64| 1.0 / (1.0 + (-x).exp());
    let want = [1.0 - s(1.2), s(1.2) - s(0.4), s(0.4) - s(-0.9), s(-0.9)].map(f64::ln);
    assert_close(&p(&[1.2, 0.4, -0.9]), &want, 1e-14);
    // s(0) − s(−d) = d/4 − …, with a relative error of d²/12.
    let d = 1e-9;
    assert_close(&p(&[5.0, 0.0, -d])[2..3], &[(d / 4.0).ln()], 1e-12);
    // Far out, both probabilities round to 1.
    assert_close(&p(&[60.0, 50.0, 0.0])[1..2], &[-50.0 + (1.0 - (-10f64).exp()).ln()], 1e-14);
    assert_eq!(p(&[0.0, 0.0, 0.0])[1], f64::NEG_INFINITY);

    let two = Ordinal::new(Bins::uniform(0.0, 1.0, 2).unwrap(), OrdinalHead::Coral);
    let log_p = two.log_prob(&rows(&[&[0.3]]), &candidates(1, &[&[0.0], &[1.0]])).unwrap().unwrap();
    assert_close(&flat(&log_p), &[(1.0 - s(0.3)).ln(), s(0.3).ln()], 1e-14);
}

#[test]
fn inconsistent_ranks_are_no_density() {
    let model = Ordinal::new(Bins::uniform(1.0, 1.0, 4).unwrap(), OrdinalHead::Coral);
    let outputs = rows(&[&[2.0, 1.0, 0.0], &[2.0, 0.5, 0.75]]);
    let y = candidates(2, &[&[1.0], &[2.0]]);
    let error = model.log_prob(&outputs, &y).unwrap_err();
    let expected = matches!(error, Error::InconsistentRanks(1, 2, ..));
    assert!(expected && error.to_string().contains("0.75"), "{error}");
    // Prediction and loss do not need a density.
    assert_eq!(flat(&model.predict(&outputs).unwrap()), [3.0, 4.0]);
    assert!(model.loss(&outputs, &rows(&[&[1.0], &[2.0]])).is_ok());
}

#[test]
fn coral_shares_one_score() {
    let scores = rows(&[&[0.5], &[-2.0]]);
    let biases = Tensor::new(&[1.0, 0.0, -1.0], &Device::Cpu).unwrap();
    assert_eq!(flat(&coral_logits(&scores, &biases).unwrap()), [1.5, 0.5, -0.5, -1.0, -2.0, -3.0]);
    assert!(matches!(coral_logits(&rows(&[&[0.5, 1.0]]), &biases), Err(Error::Shape { .. })));
    assert!(matches!(coral_logits(&scores, &scores), Err(Error::Shape { .. })));
}

#[test]
fn the_prediction_of_coral_is_the_median() {
    let model = Ordinal::new(Bins::uniform(1.0, 1.0, 5).unwrap(), OrdinalHead::Coral);
    let outputs = rows(&[&[1.2, 0.4, -0.9, -1.5]]);
    let (y, width) = grid(0.5, 5.5, 500);
    let mut below = 0.0;
    let log_p = flat(&model.log_prob(&outputs, &y).unwrap().unwrap());
    let median = flat(&y).into_iter().zip(log_p).find(|(_, l)| {
        below += l.exp() * width;
        below > 0.5
    });
    let median = median.unwrap().0;
    assert!((median - scalar(&model.predict(&outputs).unwrap())).abs() < 0.5, "{median}");
}

#[test]
fn log_odds_are_those_of_the_targets_beyond_each_rank() {
    let model = Ordinal::new(Bins::uniform(1.0, 1.0, 4).unwrap(), OrdinalHead::Coral);
    // Five of six targets are above 1, and three are above 2 and above 3; half an answer is added to both counts.
    let found = model.log_odds([1.2, 2.0, 1.9, 4.0, 3.6, 9.0]);
    let expected = [(5.5f64 / 1.5).ln(), 0.0, 0.0];
    assert!(found.len() == 3 && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    assert_eq!(model.log_odds([]), [0.0; 3]);
}
