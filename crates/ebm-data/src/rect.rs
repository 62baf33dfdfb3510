//! Boxes in pixels.

/// Box `(x, y, width, height)` in pixels, from the upper left corner. It is continuous: it covers `width`
/// columns. All four numbers are NaN if a dataset has no box for a frame.
pub type Rect = [f64; 4];

/// Returns the intersection over union, in \[0, 1\]; 0 if a box has no area or a number is NaN. Networks use the
/// function for corners in `f32` in ebm-nn, which knows no dataset.
pub fn overlap(a: &Rect, b: &Rect) -> f64 {
    let side = |i: usize| ((a[i] + a[i + 2]).min(b[i] + b[i + 2]) - a[i].max(b[i])).max(0.0);
    // `min` and `max` ignore NaN, which the areas do not.
    let intersection = side(0) * side(1);
    let union = a[2] * a[3] + b[2] * b[3] - intersection;
    let proper = [a[2], a[3], b[2], b[3]].iter().all(|&side| side > 0.0);
    let known = a.iter().chain(b).all(|value| value.is_finite());
    // Rounding can lift the ratio of a box with itself above 1.
    if proper && known { (intersection / union).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn boxes_in_closed_form() {
        let (a, b) = ([0., 0., 10., 10.], [5., 5., 10., 10.]);
        assert!((overlap(&a, &b) - 1.0 / 7.0).abs() < 1e-15);
        assert_eq!(
            (overlap(&a, &a), overlap(&a, &[10., 0., 5., 5.]), overlap(&a, &[2., 2., 0., 4.])),
            (1.0, 0.0, 0.0)
        );
        assert_eq!(overlap(&a, &[f64::NAN, 0., 10., 10.]), 0.0);
    }

    fn rect() -> impl Strategy<Value = Rect> {
        [-50.0..50.0, -50.0..50.0, 0.0..40.0, 0.0..40.0f64]
    }

    proptest! {
        #[test]
        fn overlap_is_symmetric_and_a_fraction(a in rect(), b in rect()) {
            prop_assert_eq!(overlap(&a, &b), overlap(&b, &a));
            prop_assert!((0.0..=1.0).contains(&overlap(&a, &b)));
        }
    }
}
