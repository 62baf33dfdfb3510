//! Boxes that end where their image does.

/// The part of a box `[x, y, width, height]` that lies in an image of `size`, columns and rows; none where
/// that is empty.
pub fn clipped([x, y, width, height]: [f64; 4], size: [f64; 2]) -> Option<[f64; 4]> {
    let clip = |ends: [f64; 2], extent: f64| ends.map(|end| end.clamp(0.0, extent));
    let ([x0, x1], [y0, y1]) = (clip([x, x + width], size[0]), clip([y, y + height], size[1]));
    (x1 > x0 && y1 > y0).then_some([x0, y0, x1 - x0, y1 - y0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_cut_off() {
        let size = [640.0, 480.0];
        assert_eq!(clipped([10.0, 20.0, 30.0, 40.0], size), Some([10.0, 20.0, 30.0, 40.0]));
        assert_eq!(clipped([-10.0, 470.0, 30.0, 40.0], size), Some([0.0, 470.0, 20.0, 10.0]));
        assert_eq!(clipped([-1.0, -1.0, 900.0, 900.0], size), Some([0.0, 0.0, 640.0, 480.0]));
        assert_eq!(clipped([640.0, 0.0, 30.0, 40.0], size), None);
    }
}
