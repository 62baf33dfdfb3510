//! Average precision of detections that are known to be right or wrong.

use hotcoco::params::default_rec_thrs;

/// The detections of one category that count, and how many objects there are to find.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    /// Score, place among equal scores, right or wrong.
    pub detections: Vec<(f64, usize, bool)>,
    /// Objects.
    pub objects: usize,
}

impl Ranking {
    /// COCO's average precision: the mean over 101 recalls of the highest precision at that recall or a
    /// higher one.
    ///
    /// Where nothing is to be found it is 1 if nothing was claimed, and 0 otherwise; COCO leaves such
    /// categories out, and only a fix can take the objects from a category that had some.
    pub fn average_precision(&mut self) -> f64 {
        if self.objects == 0 {
            return if self.detections.is_empty() { 1.0 } else { 0.0 };
        }
        self.detections.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut right = 0usize;
        // Recall and precision after each detection.
        let mut curve: Vec<(f64, f64)> = Vec::with_capacity(self.detections.len());
        for (seen, (_, _, is_right)) in (1usize..).zip(&self.detections) {
            right += usize::from(*is_right);
            curve.push((right as f64 / self.objects as f64, right as f64 / seen as f64));
        }
        let mut highest = 0f64;
        for (_, precision) in curve.iter_mut().rev() {
            highest = highest.max(*precision);
            *precision = highest;
        }
        let recalls = default_rec_thrs();
        let precision = |recall: &f64| {
            let reached = curve.partition_point(|(reached, _)| reached < recall);
            curve.get(reached).map_or(0.0, |(_, precision)| *precision)
        };
        recalls.iter().map(precision).sum::<f64>() / recalls.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_averaged_over_101_recalls() {
        let ap = |detections: &[(f64, bool)], objects| {
            let detections = detections.iter().zip(0..).map(|(&(score, right), at)| (score, at, right));
            Ranking { detections: detections.collect(), objects }.average_precision()
        };
        assert_eq!(ap(&[(0.5, true)], 1), 1.0);
        assert_eq!(ap(&[(0.5, true)], 2), 51.0 / 101.0);
        // Recalls 0 to 0.5 at precision 1, those above it at 2/3; the order given is no matter.
        let expected = (51.0 + 50.0 * 2.0 / 3.0) / 101.0;
        assert!((ap(&[(0.2, true), (0.9, true), (0.4, false)], 2) - expected).abs() < 1e-15);
        // Of equal scores the first given counts first.
        assert_eq!(ap(&[(0.5, false), (0.5, true)], 1), 0.5);
        assert_eq!([ap(&[], 1), ap(&[], 0), ap(&[(0.1, false)], 0)], [0.0, 1.0, 0.0]);
    }
}
