//! Choice of settings on validation data.

/// Returns the candidate with the highest score, and that score; the first one on a tie. `None` if no score is a
/// number.
pub fn best(candidates: &[f64], scores: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for (&candidate, score) in candidates.iter().zip(scores) {
        if !score.is_nan() && best.is_none_or(|(_, highest)| score > highest) {
            best = Some((candidate, score));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_best_is_chosen() {
        assert_eq!(best(&[0.25, 1.0, 4.0], [0.1, 0.3, 0.3]), Some((1.0, 0.3)));
        assert_eq!(best(&[0.25, 1.0], [f64::NAN, -1.0]), Some((1.0, -1.0)));
        assert_eq!(best(&[1.0], [f64::NAN]), None);
    }
}
