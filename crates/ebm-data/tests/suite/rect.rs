//! Overlaps of boxes.

use ebm_data::rect::{Rect, overlap};
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
