//! A predicted box against the annotated one, both continuous `(x, y, width, height)`.

use ebm_data::sequences::Rect;

/// Intersection over union, in \[0, 1\]; 0 where a box has no area or a number is NaN.
pub fn overlap(a: &Rect, b: &Rect) -> f64 {
    let side = |i: usize| ((a[i] + a[i + 2]).min(b[i] + b[i + 2]) - a[i].max(b[i])).max(0.0);
    // `min` and `max` pass over NaN, which the areas do not.
    let intersection = side(0) * side(1);
    let union = a[2] * a[3] + b[2] * b[3] - intersection;
    let proper = [a[2], a[3], b[2], b[3]].iter().all(|&side| side > 0.0);
    let known = a.iter().chain(b).all(|value| value.is_finite());
    // Rounding can lift the ratio of a box with itself above 1.
    if proper && known { (intersection / union).min(1.0) } else { 0.0 }
}

/// The distance of the two centres, in pixels.
pub fn center_error(prediction: &Rect, annotation: &Rect) -> f64 {
    let [dx, dy] = offset(prediction, annotation);
    dx.hypot(dy)
}

/// The distance of the two centres, with x in widths and y in heights of the annotated box.
pub fn normalized_center_error(prediction: &Rect, annotation: &Rect) -> f64 {
    let [dx, dy] = offset(prediction, annotation);
    (dx / annotation[2]).hypot(dy / annotation[3])
}

fn offset(a: &Rect, b: &Rect) -> [f64; 2] {
    [0, 1].map(|i| (a[i] - b[i]) + (a[i + 2] - b[i + 2]) / 2.0)
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
        assert_eq!(center_error(&a, &[3., 4., 10., 10.]), 5.0);
        assert_eq!(center_error(&[0., 0., 4., 2.], &[1., 1., 2., 0.]), 0.0);
        assert_eq!(normalized_center_error(&[3., 8., 10., 20.], &[0., 0., 10., 20.]), 0.5);
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
