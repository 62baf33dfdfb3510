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
