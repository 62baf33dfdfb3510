//! Assignment of ground-truth boxes to anchors and proposals, and the balanced sampling of these for training.

use ebm_ops::boxes::{BBox, BoxConvention, iou};
use rand::{RngCore, seq::SliceRandom};
use rayon::prelude::*;

/// Training target of a candidate box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Ground-truth box with this index.
    Object(usize),
    /// No object.
    Background,
    /// No target: the IoU is between the thresholds, and the candidate is not trained on.
    Ignore,
}

/// Matcher of candidates to objects by IoU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matcher {
    /// Least IoU of a candidate that is matched to an object.
    pub foreground: f32,
    /// IoU below which a candidate is background.
    pub background: f32,
    /// Whether the candidates with an object's highest IoU are matched too, however low it is (the anchors' rule).
    pub allow_low_quality: bool,
    /// Box convention of the IoU.
    pub convention: BoxConvention,
}

impl Matcher {
    /// Returns one [`Match`] for each candidate.
    pub fn assign(&self, candidates: &[BBox], objects: &[BBox]) -> Vec<Match> {
        if objects.is_empty() {
            return vec![Match::Background; candidates.len()];
        }
        let overlap = |object: &BBox, candidate: &BBox| iou(object, candidate, self.convention);
        let best_of = |candidate: &BBox| -> (usize, f32) {
            let better = |best: (usize, f32), (i, value)| if value > best.1 { (i, value) } else { best };
            objects.iter().map(|object| overlap(object, candidate)).enumerate().fold((0, f32::MIN), better)
        };
        let most = |object: &BBox| candidates.iter().map(|c| overlap(object, c)).fold(0.0, f32::max);
        // Best overlap of each object with any candidate.
        let best_of_object: Vec<f32> =
            if self.allow_low_quality { objects.par_iter().map(most).collect() } else { vec![] };
        let rescued = |candidate: &BBox| {
            let mut objects = objects.iter().zip(&best_of_object);
            objects.any(|(object, &best)| best > 0.0 && overlap(object, candidate) == best)
        };
        let assign = |candidate: &BBox| {
            let (object, value) = best_of(candidate);
            if value >= self.foreground || (value > 0.0 && rescued(candidate)) {
                Match::Object(object)
            } else if value < self.background {
                Match::Background
            } else {
                Match::Ignore
            }
        };
        candidates.par_iter().map(assign).collect()
    }
}

/// Sampler of at most `size` candidates, with at most a share `positive_fraction` matched to objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalancedSampler {
    /// Candidates per image.
    pub size: usize,
    /// Largest share of candidates that are matched to objects.
    pub positive_fraction: f32,
}

impl BalancedSampler {
    /// Draws a sample, and returns the ascending indices of its candidates matched to objects and of its background.
    pub fn sample(&self, matches: &[Match], rng: &mut dyn RngCore) -> (Vec<usize>, Vec<usize>) {
        let indices = |wanted: fn(&Match) -> bool| -> Vec<usize> {
            matches.iter().enumerate().filter(|(_, m)| wanted(m)).map(|(i, _)| i).collect()
        };
        let positives = indices(|m| matches!(m, Match::Object(_)));
        let negatives = indices(|m| *m == Match::Background);
        let quota = ((self.size as f32 * self.positive_fraction) as usize).min(positives.len());
        let positives = draw(positives, quota, rng);
        let negatives = draw(negatives, self.size - quota, rng);
        (positives, negatives)
    }
}

fn draw(mut indices: Vec<usize>, count: usize, rng: &mut dyn RngCore) -> Vec<usize> {
    let count = count.min(indices.len());
    indices.partial_shuffle(rng, count);
    // `partial_shuffle` leaves its sample at the end of the slice.
    let mut sample = indices.split_off(indices.len() - count);
    sample.sort_unstable();
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_base::Key;

    fn matcher(allow_low_quality: bool) -> Matcher {
        Matcher { foreground: 0.7, background: 0.3, allow_low_quality, convention: BoxConvention::HalfOpen }
    }

    #[test]
    fn thresholds_and_the_low_quality_rule() {
        let objects = [[0., 0., 10., 10.], [100., 100., 110., 110.]];
        let candidates = [
            [0., 0., 10., 9.],        // IoU 0.9 with the first
            [0., 0., 10., 5.],        // 0.5: between
            [50., 50., 60., 60.],     // nothing
            [100., 100., 104., 110.], // 0.4 with the second, its best
        ];
        assert_eq!(
            matcher(false).assign(&candidates, &objects),
            [Match::Object(0), Match::Ignore, Match::Background, Match::Ignore]
        );
        assert_eq!(
            matcher(true).assign(&candidates, &objects),
            [Match::Object(0), Match::Ignore, Match::Background, Match::Object(1)]
        );
    }

    #[test]
    fn an_image_without_objects_is_background() {
        assert_eq!(matcher(true).assign(&[[0., 0., 1., 1.]], &[]), [Match::Background]);
    }

    #[test]
    fn the_sample_is_balanced_and_reproducible() {
        let mut matches = vec![Match::Background; 100];
        for m in matches.iter_mut().take(40) {
            *m = Match::Object(0);
        }
        matches[99] = Match::Ignore;
        let sampler = BalancedSampler { size: 32, positive_fraction: 0.25 };
        let draw = |seed| sampler.sample(&matches, &mut Key::new(seed).rng());
        let (positives, negatives) = draw(1);
        assert_eq!((positives.len(), negatives.len()), (8, 24));
        assert!(positives.iter().all(|&i| i < 40) && negatives.iter().all(|&i| (40..99).contains(&i)));
        assert_eq!((positives, negatives), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
