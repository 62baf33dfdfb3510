//! The classifier on made-up features.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_track::{Classifier, ClassifierConfig};
use rand::Rng;

const SIZE: usize = 18;

/// Returns noise in 16 channels, with one pattern at the target's cell and another one at the cell `other`.
fn features(seed: u64, target: (usize, usize), other: (usize, usize)) -> Tensor {
    let mut rng = Key::new(seed).rng();
    let mut x: Vec<f32> = (0..16 * SIZE * SIZE).map(|_| rng.random_range(-0.3..0.3)).collect();
    for c in 0..16 {
        x[(c * SIZE + target.0) * SIZE + target.1] += if c < 8 { 2.0 } else { -1.0 };
        x[(c * SIZE + other.0) * SIZE + other.1] += if c % 2 == 0 { 2.0 } else { -1.0 };
    }
    Tensor::from_vec(x, (1, 16, SIZE, SIZE), &Device::Cpu).unwrap()
}

fn argmax(scores: &Tensor) -> (usize, usize) {
    let scores = scores.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
    (best / SIZE, best % SIZE)
}

/// Returns a classifier of the pattern at cell (9, 9), trained on four views.
fn trained() -> Classifier {
    let views: Vec<Tensor> = [(9, 9), (6, 9), (9, 12), (11, 6)]
        .iter()
        .enumerate()
        .map(|(i, cell)| features(i as u64, *cell, (3, 14)))
        .collect();
    // Cell 9 is half a cell right of the grid's centre.
    let offsets = [[0.5, 0.5], [-2.5, 0.5], [0.5, 3.5], [2.5, -2.5]];
    let config = ClassifierConfig { channels: 8, ..ClassifierConfig::default() };
    let views = Classifier::normalised(&Tensor::cat(&views, 0).unwrap()).unwrap();
    Classifier::new(&config, &views, &offsets, 3.6, &mut Key::new(9).rng()).unwrap()
}

#[test]
fn it_finds_the_target_beside_a_distractor() {
    let classifier = trained();
    for cell in [(4, 5), (12, 10), (9, 9)] {
        let projected = classifier.project(&features(77, cell, (15, 2))).unwrap();
        let scores = classifier.scores(&projected).unwrap();
        // The score of a target between cells 8.5 and 9.5 is at 9.5 to 10: the filter is even.
        let (y, x) = argmax(&scores);
        assert!(y.abs_diff(cell.0) <= 1 && x.abs_diff(cell.1) <= 1, "{:?} {cell:?}", (y, x));
    }
}

#[test]
fn an_update_learns_what_is_remembered() {
    let mut classifier = trained();
    // From now on the distractor's pattern is the target.
    let x = features(50, (2, 2), (9, 9));
    let projected = classifier.project(&x).unwrap();
    let before = classifier.scores(&projected).unwrap();
    assert!(argmax(&before).0 < 5);
    for _ in 0..200 {
        classifier.remember(&projected, [0.5, 0.5], false).unwrap();
    }
    for _ in 0..5 {
        classifier.update().unwrap();
    }
    let (y, _) = argmax(&classifier.scores(&projected).unwrap());
    assert!(y.abs_diff(9) <= 1, "{y}");
}

#[test]
fn settings_that_make_no_classifier_are_refused() {
    let config = ClassifierConfig { filter_regularisation: 0.0, ..ClassifierConfig::default() };
    let x = features(1, (9, 9), (3, 3));
    let error = Classifier::new(&config, &x, &[[0.0; 2]], 3.6, &mut Key::new(9).rng()).unwrap_err();
    assert!(error.to_string().contains("regularisation"), "{error}");
    assert_eq!(x.dtype(), DType::F32);
}
