//! The skin: eyes, brows, mouth, beard, and what age does to it.

use super::geometry::{Vec3, length, segment_distance, smoothstep};
use super::identity::{Identity, Rgb, blend};
use super::noise::noise;

/// Where a face is painted on: in front of the ears.
const FRONT: f32 = 0.12;

impl Identity {
    /// The colour of the skin at `p`, with all that is on it. The left and right halves differ only by noise.
    pub(super) fn skin_at(&self, p: Vec3) -> Rgb {
        let blotches = noise(p.map(|value| 8.0 * value), self.seed);
        let mut color = self.skin.map(|value| value * (0.86 + 0.28 * blotches));
        if p[2] < FRONT {
            return color;
        }
        let mirrored = [p[0].abs(), p[1]];
        let dark = self.wrinkles(p) * self.shade_of_sockets(mirrored);
        color = color.map(|value| value * dark);
        let blush = bump(mirrored, [0.38, -0.25], [0.25, 0.22]);
        color = [
            color[0] * (1.0 + 0.08 * blush),
            color[1] * (1.0 - 0.06 * blush),
            color[2] * (1.0 - 0.05 * blush),
        ];
        color = self.with_beard(color, p);
        color = self.with_mouth(color, mirrored);
        color = self.with_brow(color, p);
        let nostril = if p[2] > 0.7 { bump(mirrored, [0.065, -0.385], [0.06, 0.04]) } else { 0.0 };
        color = color.map(|value| value * (1.0 - 0.85 * nostril));
        color = self.with_eye(color, p);
        match self.glasses {
            Some(frame) => blend(color, frame, self.glasses_at(mirrored)),
            None => color,
        }
    }

    /// The height of the skin's relief at `(x, y)`, in front of the ears.
    pub(super) fn relief(&self, [x, y]: [f32; 2]) -> f32 {
        let at = [x.abs(), y];
        let [eye_x, eye_y] = self.eyes;
        let mut height = -0.10 * bump(at, [eye_x - 0.03, eye_y + 0.01], [0.24, 0.15]);
        height += 0.035 * bump(at, [eye_x, eye_y], [0.13, 0.09]);
        height += 0.05 * bump(at, [0.22, eye_y + self.brows[0] + 0.02], [0.3, 0.10]);
        height += 0.04 * bump(at, [0.0, self.mouth[0]], [self.mouth[1], 0.12]);
        height -= 0.03 * bump(at, [0.0, self.mouth[0] - 0.15], [0.16, 0.06]);
        height += 0.025 * self.cues.bags.max(0.0) * bump(at, [eye_x, eye_y - 0.14], [0.14, 0.07]);
        height
    }

    /// Factor on the light of forehead lines, frown, crow's feet, folds beside nose and mouth, and bags.
    fn wrinkles(&self, p: Vec3) -> f32 {
        let at = [p[0].abs(), p[1]];
        let [eye_x, eye_y] = self.eyes;
        let [mouth_y, mouth_x, _] = self.mouth;
        let mut depth = 0.0;
        let forehead = self.cues.forehead.max(0.0);
        let wave = if p[1] > eye_y + 0.15 {
            0.05 * (noise([4.0 * p[0], 3.0 * p[1], 0.5], self.seed ^ 7) - 0.5)
        } else {
            0.0
        };
        for (row, lift) in [(0.0, 0.0), (1.0, 0.25), (2.0, 0.5)] {
            // Older foreheads have more lines, not only deeper ones.
            let strength = 0.62 * (1.15 * forehead - 0.45 * lift).max(0.0);
            let line = eye_y + 0.31 + 0.095 * row - 0.25 * at[0] * at[0] + wave;
            depth += strength * stroke((p[1] - line).abs(), 0.034) * (1.0 - smoothstep(0.3, 0.5, at[0]));
        }
        let frown = segment_distance(at, [0.05, eye_y + 0.09], [0.06, eye_y + 0.24]);
        depth += 0.5 * forehead * stroke(frown, 0.03);
        let eyes = self.cues.eyes.max(0.0);
        let corner = [eye_x + self.eye_size[0] + 0.04, eye_y];
        for (rise, reach) in [(0.11, 0.13), (0.02, 0.16), (-0.08, 0.14)] {
            let line = segment_distance(at, corner, [corner[0] + reach, corner[1] + rise]);
            depth += 0.62 * eyes * stroke(line, 0.026);
        }
        let below = segment_distance(at, [eye_x - 0.1, eye_y - 0.12], [eye_x + 0.1, eye_y - 0.13]);
        depth += 0.35 * eyes * stroke(below, 0.025);
        let folds = self.cues.folds.max(0.0);
        let fold = segment_distance(at, [0.15, -0.33], [mouth_x + 0.07, mouth_y + 0.03]);
        let marionette =
            segment_distance(at, [mouth_x + 0.04, mouth_y - 0.05], [mouth_x + 0.05, mouth_y - 0.22]);
        depth +=
            0.62 * folds * stroke(fold, 0.045) + 0.45 * (folds - 0.3).max(0.0) * stroke(marionette, 0.04);
        let bag = bump(at, [eye_x, eye_y - 0.12], [0.17, 0.075]) * f32::from(p[1] < eye_y - 0.04);
        depth += 0.55 * self.cues.bags.max(0.0) * bag;
        1.0 - depth.min(0.85)
    }

    /// Factor on the light that reaches the sockets of the eyes and the sides of the nose.
    fn shade_of_sockets(&self, at: [f32; 2]) -> f32 {
        let inner = bump(at, [0.15, self.eyes[1] + 0.03], [0.14, 0.16]);
        let beside = bump(at, [0.13, -0.22], [0.08, 0.2]);
        let under = bump(at, [0.0, -0.42], [0.16, 0.07]);
        (1.0 - 0.35 * inner) * (1.0 - 0.15 * beside) * (1.0 - 0.3 * under)
    }

    fn with_eye(&self, color: Rgb, p: Vec3) -> Rgb {
        let [eye_x, eye_y] = self.eyes;
        let [half_width, half_height] = self.eye_size;
        // Both eyes look the same way: only their places are mirrored.
        let (x, y) = (p[0] - eye_x.copysign(p[0]), p[1] - eye_y);
        let across = x / half_width;
        let opening = half_height * (1.0 - across * across);
        if across.abs() >= 1.15 || y.abs() > 0.14 {
            return color;
        }
        let lash = stroke((y - opening.max(0.0)).abs(), 0.032) * (1.0 - smoothstep(0.95, 1.15, across.abs()));
        let mut result = color;
        if opening > 0.0 {
            let open = smoothstep(-0.012, 0.012, opening - y.abs());
            let (u, v) = (x - self.gaze[0], y - self.gaze[1]);
            let radius = length([u, v]);
            let mut eye = blend([0.62, 0.60, 0.58], self.iris, 1.0 - smoothstep(0.052, 0.066, radius));
            eye = blend(eye, [0.004; 3], 1.0 - smoothstep(0.02, 0.034, radius));
            let glint = 1.0 - smoothstep(0.008, 0.018, length([u - 0.015, v - 0.02]));
            result = blend(result, blend(eye, [0.9; 3], glint), open);
        }
        result.map(|value| value * (1.0 - 0.8 * lash))
    }

    fn with_brow(&self, color: Rgb, p: Vec3) -> Rgb {
        let [eye_x, eye_y] = self.eyes;
        let height = eye_y + self.brows[0];
        let at = [p[0].abs(), p[1]];
        let arch = segment_distance(at, [eye_x - 0.13, height - 0.01], [eye_x + 0.03, height + 0.035]);
        let tail = segment_distance(at, [eye_x + 0.03, height + 0.035], [eye_x + 0.17, height - 0.02]);
        let cover = stroke(arch.min(tail), 1.6 * self.brows[1]);
        if cover == 0.0 {
            return color;
        }
        let hairs = 0.65 + 0.35 * noise([30.0 * p[0], 20.0 * p[1], 0.0], self.seed ^ 3);
        blend(color, self.hair.mean_color().map(|value| 0.6 * value), hairs * cover)
    }

    fn with_mouth(&self, color: Rgb, at: [f32; 2]) -> Rgb {
        let [height, half_width, half_height] = self.mouth;
        let across = at[0] / half_width;
        if across >= 1.2 {
            return color;
        }
        let lift = at[1] - height - 0.03 * across * across;
        let full = half_height * (1.0 - across * across).max(0.0);
        let inside = smoothstep(-0.015, 0.02, full - lift.abs());
        let redness = 0.25 + 0.6 * self.lips;
        let lips = [color[0] * 0.95, color[1] * (1.0 - 0.6 * redness), color[2] * (1.0 - 0.5 * redness)];
        let line = stroke(lift.abs(), 0.03) * (1.0 - smoothstep(0.9, 1.15, across));
        blend(color, lips, inside).map(|value| value * (1.0 - 0.75 * line))
    }

    fn with_beard(&self, color: Rgb, p: Vec3) -> Rgb {
        if self.beard == 0.0 {
            return color;
        }
        let cheek = -0.45 + 0.35 * smoothstep(0.3, 0.62, p[0].abs());
        let area = smoothstep(-0.06, 0.06, cheek - p[1]);
        if area == 0.0 {
            return color;
        }
        let coarse = 0.6 + 0.4 * noise(p.map(|value| 14.0 * value), self.seed ^ 5);
        blend(color, self.hair.mean_color().map(|value| 0.8 * value), self.beard * area * coarse)
    }

    fn glasses_at(&self, at: [f32; 2]) -> f32 {
        let [eye_x, eye_y] = self.eyes;
        let ring = (length([(at[0] - eye_x) / 0.2, (at[1] - eye_y + 0.02) / 0.15]) - 1.0).abs() * 0.17;
        let bridge = segment_distance(at, [0.0, eye_y + 0.03], [eye_x - 0.19, eye_y + 0.02]);
        let temple = segment_distance(at, [eye_x + 0.2, eye_y + 0.02], [0.9, eye_y + 0.03]);
        stroke(ring.min(bridge).min(temple), 0.035)
    }
}

/// 1 at `center`, 0 from `radii` on, smooth in between.
fn bump(at: [f32; 2], center: [f32; 2], radii: [f32; 2]) -> f32 {
    let (u, v) = ((at[0] - center[0]) / radii[0], (at[1] - center[1]) / radii[1]);
    let rest = (1.0 - u * u - v * v).max(0.0);
    rest * rest
}

/// 1 on a line, 0 from `width` on.
fn stroke(distance: f32, width: f32) -> f32 {
    let t = (distance / width).min(1.0);
    (1.0 - t * t) * (1.0 - t * t)
}
