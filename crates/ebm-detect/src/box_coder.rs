//! Box parametrisation of Faster-RCNN: offsets of a box from a reference box.

use ebm_ops::boxes::{BBox, BoxConvention};

/// Upper bound of a decoded log(w/w_r) or log(h/h_r): log(1000 / 16).
const MAX_LOG_RATIO: f32 = 4.135_166_6;

/// Coder of boxes as offsets from a reference box:
/// `(dx, dy, dw, dh)` = weights · ((x − x_r)/w_r, (y − y_r)/h_r, log(w/w_r), log(h/h_r)), with x and y the centres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoxCoder {
    /// Multipliers of the four offsets; (10, 10, 5, 5) for the box head, 1 for the region proposal network.
    pub weights: [f32; 4],
    /// Convention of the boxes: whether widths count both end pixels.
    pub convention: BoxConvention,
}

impl BoxCoder {
    /// Returns the offsets from `reference` to `target`.
    pub fn encode(&self, target: &BBox, reference: &BBox) -> [f32; 4] {
        let (t, r) = (self.centre_size(target), self.centre_size(reference));
        let offsets = [(t[0] - r[0]) / r[2], (t[1] - r[1]) / r[3], (t[2] / r[2]).ln(), (t[3] / r[3]).ln()];
        std::array::from_fn(|i| self.weights[i] * offsets[i])
    }

    /// Returns the box at `offsets` from `reference`; its sides are limited to 1000/16 of the reference's.
    pub fn decode(&self, offsets: &[f32], reference: &BBox) -> BBox {
        let r = self.centre_size(reference);
        let [dx, dy, dw, dh] = std::array::from_fn(|i| offsets[i] / self.weights[i]);
        let (x, y) = (dx * r[2] + r[0], dy * r[3] + r[1]);
        let (w, h) = (dw.min(MAX_LOG_RATIO).exp() * r[2], dh.min(MAX_LOG_RATIO).exp() * r[3]);
        let end = self.convention.offset();
        [x - 0.5 * w, y - 0.5 * h, x + 0.5 * w - end, y + 0.5 * h - end]
    }

    fn centre_size(&self, b: &BBox) -> [f32; 4] {
        let end = self.convention.offset();
        let (w, h) = (b[2] - b[0] + end, b[3] - b[1] + end);
        [b[0] + 0.5 * w, b[1] + 0.5 * h, w, h]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_offsets_of_inclusive_boxes() {
        let coder = BoxCoder { weights: [10., 10., 5., 5.], convention: BoxConvention::Inclusive };
        let offsets = coder.encode(&[12., 20., 61., 99.], &[10., 15., 49., 94.]);
        for (value, golden) in offsets.iter().zip([1.75, 0.625, 5.0 * 1.25f32.ln(), 0.0]) {
            assert!((value - golden).abs() < 1e-5, "{offsets:?}");
        }
    }

    #[test]
    fn a_decoded_inclusive_box_ends_on_its_last_pixel() {
        let coder = BoxCoder { weights: [1.0; 4], convention: BoxConvention::Inclusive };
        // A box of 40 × 80 pixels, unchanged, and with twice its sides about the same centre.
        let reference = [10., 15., 49., 94.];
        assert_eq!(coder.decode(&[0.0; 4], &reference), reference);
        let double = coder.decode(&[0.0, 0.0, 2f32.ln(), 2f32.ln()], &reference);
        for (value, golden) in double.iter().zip([-10., -25., 69., 134.]) {
            assert!((value - golden).abs() < 1e-4, "{double:?}");
        }
    }

    #[test]
    fn decode_inverts_encode() {
        for convention in [BoxConvention::HalfOpen, BoxConvention::Inclusive] {
            let coder = BoxCoder { weights: [10., 10., 5., 5.], convention };
            let (target, reference) = ([3.5, 7.25, 40.0, 33.0], [0.0, 10.0, 31.0, 50.0]);
            let back = coder.decode(&coder.encode(&target, &reference), &reference);
            for (a, b) in back.iter().zip(target) {
                assert!((a - b).abs() < 1e-4, "{back:?}");
            }
        }
    }

    #[test]
    fn a_huge_size_offset_is_limited() {
        let coder = BoxCoder { weights: [1.0; 4], convention: BoxConvention::HalfOpen };
        let decoded = coder.decode(&[0.0, 0.0, 1e6, 0.0], &[0.0, 0.0, 16.0, 16.0]);
        assert!((decoded[2] - decoded[0] - 1000.0).abs() < 0.01, "{decoded:?}");
    }
}
