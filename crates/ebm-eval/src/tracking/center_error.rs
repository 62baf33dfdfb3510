//! How far a predicted box is from the annotated one, both continuous `(x, y, width, height)`.

use ebm_data::sequences::Rect;

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

    #[test]
    fn boxes_in_closed_form() {
        let a = [0., 0., 10., 10.];
        assert_eq!(center_error(&a, &[3., 4., 10., 10.]), 5.0);
        assert_eq!(center_error(&[0., 0., 4., 2.], &[1., 1., 2., 0.]), 0.0);
        assert_eq!(normalized_center_error(&[3., 8., 10., 20.], &[0., 0., 10., 20.]), 0.5);
    }
}
