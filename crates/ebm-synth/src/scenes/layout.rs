//! Where the objects and the strips over them go. Later ones lie in front of earlier ones.

use ebm_data::rect::{Rect, overlap};
use ebm_seed::{Key, Rng};
use rand::Rng as _;

use super::config::SceneConfig;
use crate::drawing::mask::{Mask, Window};
use crate::drawing::primitive::{Extent, Point};
use crate::drawing::shape::{Category, Silhouette};

/// A silhouette at its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// `None` for a strip, which is not annotated.
    pub(crate) category: Option<Category>,
    pub(crate) silhouette: Silhouette,
    pub(crate) mask: Mask,
    /// Half the nominal diameter, in pixels.
    pub(crate) scale: f32,
    /// The extent of the silhouette inside the image, hidden parts included.
    pub(crate) extent: Extent,
    /// The silhouette's area inside the image, in pixels.
    pub(crate) area: f32,
    /// The fraction of the silhouette outside the image.
    pub(crate) truncation: f32,
    /// Coverage not hidden by later silhouettes, over the mask's window; zero outside the image.
    visible: Vec<f32>,
}

/// Attempts to find an admissible place before an object or strip is left out.
const ATTEMPTS: usize = 30;
/// The largest IoU of two annotated boxes: beyond it, non-maximum suppression could not keep both.
const MAX_IOU: f64 = 0.45;
/// The least part of a silhouette inside the image.
const MIN_INSIDE: f32 = 0.55;
/// The least side of an annotated box, in pixels.
const MIN_SIDE: f32 = 6.0;

impl Placed {
    /// A silhouette seen on an image of `width` x `height` pixels.
    pub(crate) fn new(
        category: Option<Category>,
        silhouette: Silhouette,
        scale: f32,
        (width, height): (usize, usize),
    ) -> Self {
        let mask = Mask::new(&silhouette);
        let window = mask.window;
        let seen = window.intersection(Window::image(width, height));
        let mut visible = vec![0.0; window.len()];
        for y in seen.y..seen.y + seen.height {
            for x in seen.x..seen.x + seen.width {
                let index = window.offset(x, y);
                visible[index] = mask.whole(index);
            }
        }
        let whole: f32 = (0..window.len()).map(|index| mask.whole(index)).sum();
        let area: f32 = visible.iter().sum();
        let extent = mask.extent_inside(&silhouette, Window::image(width, height));
        let truncation = if area < whole { 1.0 - area / whole } else { 0.0 };
        Self { category, silhouette, mask, scale, extent, area, truncation, visible }
    }

    /// The fraction of the silhouette inside the image that later silhouettes hide.
    pub(crate) fn occlusion(&self) -> f32 {
        (1.0 - self.visible.iter().sum::<f32>() / self.area).max(0.0)
    }

    /// The middle of the extent.
    pub(crate) fn center(&self) -> Point {
        let [x0, y0, x1, y1] = self.extent;
        [0.5 * (x0 + x1), 0.5 * (y0 + y1)]
    }

    /// Visits this silhouette's visible coverage with the coverage that `front` has there.
    fn under(&mut self, front: &Mask, mut visit: impl FnMut(&mut f32, f32)) {
        let window = self.mask.window;
        let common = window.intersection(front.window);
        for y in common.y..common.y + common.height {
            for x in common.x..common.x + common.width {
                visit(&mut self.visible[window.offset(x, y)], front.whole(front.window.offset(x, y)));
            }
        }
    }

    fn stays_visible_under(&mut self, front: &Mask, max_occlusion: f32) -> bool {
        let mut hidden = 0.0;
        self.under(front, |visible, cover| hidden += *visible * cover);
        self.visible.iter().sum::<f32>() - hidden >= (1.0 - max_occlusion) * self.area
    }
}

/// The objects and then the strips of a scene, from back to front.
pub(crate) fn arrange(config: &SceneConfig, key: Key) -> Vec<Placed> {
    let mut placed = Vec::new();
    let mut rng = key.split("counts").rng();
    let objects = rng.random_range(config.objects.clone());
    let strips = rng.random_range(0..=config.occluders);
    for index in 0..objects {
        let mut rng = key.split("object").index(index as u64).rng();
        let category = config.categories[rng.random_range(0..config.categories.len())];
        add_if_it_fits(&mut placed, config.max_occlusion, |placed| {
            draw_object(category, placed, config, &mut rng)
        });
    }
    for index in 0..strips {
        let mut rng = key.split("strip").index(index as u64).rng();
        add_if_it_fits(&mut placed, config.max_occlusion, |placed| draw_strip(placed, config, &mut rng));
    }
    placed
}

fn add_if_it_fits(placed: &mut Vec<Placed>, max_occlusion: f32, mut draw: impl FnMut(&[Placed]) -> Placed) {
    for _ in 0..ATTEMPTS {
        let candidate = draw(placed);
        if is_admissible(&candidate, placed, max_occlusion) {
            for earlier in placed.iter_mut() {
                earlier.under(&candidate.mask, |visible, cover| *visible *= 1.0 - cover);
            }
            placed.push(candidate);
            return;
        }
    }
}

fn is_admissible(candidate: &Placed, placed: &mut [Placed], max_occlusion: f32) -> bool {
    let [x0, y0, x1, y1] = candidate.extent;
    let annotated = candidate.category.is_some();
    let too_little = (x1 - x0).min(y1 - y0) < MIN_SIDE || candidate.truncation > 1.0 - MIN_INSIDE;
    if annotated && too_little {
        return false;
    }
    placed.iter_mut().filter(|earlier| earlier.category.is_some()).all(|earlier| {
        let distinct = !annotated || overlap(&rect(earlier.extent), &rect(candidate.extent)) <= MAX_IOU;
        distinct && earlier.stays_visible_under(&candidate.mask, max_occlusion)
    })
}

/// The box of a silhouette.
fn rect([x0, y0, x1, y1]: Extent) -> Rect {
    [x0, y0, x1 - x0, y1 - y0].map(f64::from)
}

/// An object, of a size uniform in its logarithm, at one of three kinds of place: across the image border,
/// across the edge of an earlier object, or anywhere inside the image.
fn draw_object(category: Category, placed: &[Placed], config: &SceneConfig, rng: &mut Rng) -> Placed {
    let (smallest, largest) = (config.size.start().ln(), config.size.end().ln());
    let scale = 0.5 * rng.random_range(smallest..=largest).exp();
    let silhouette = Silhouette::draw(category, scale, rng);
    let extent = silhouette.extent();
    let image = [config.width as f32, config.height as f32];
    let mut offset = [0, 1].map(|axis| {
        let (first, last) = inside(extent[axis], extent[axis + 2], image[axis]);
        rng.random_range(first..=last)
    });
    let across_border = rng.random_bool(f64::from(config.truncation));
    let across_object = rng.random_bool(f64::from(config.occlusion));
    let target = placed.get(rng.random_range(0..placed.len().max(1)));
    if across_border {
        let axis = usize::from(rng.random_bool(0.5));
        let (low, high) = (extent[axis], extent[axis + 2]);
        let outside = rng.random_range(0.08..=0.4) * (high - low);
        offset[axis] = if rng.random_bool(0.5) { -low - outside } else { image[axis] - high + outside };
    } else if let (true, Some(target)) = (across_object, target) {
        let (sin, cos) = rng.random_range(0.0..=std::f32::consts::TAU).sin_cos();
        let apart = rng.random_range(0.5..=1.0) * (scale + target.scale);
        let center = target.center();
        let wanted = [center[0] + apart * cos, center[1] + apart * sin];
        offset = [0, 1].map(|axis| {
            let (first, last) = inside(extent[axis], extent[axis + 2], image[axis]);
            wanted[axis].clamp(first, last)
        });
    }
    Placed::new(Some(category), silhouette.translated(offset), scale, (config.width, config.height))
}

/// The least and the greatest offset along one axis that keep `low..high` inside an image of the given side;
/// both its middle if it is too long.
fn inside(low: f32, high: f32, side: f32) -> (f32, f32) {
    let (first, last) = (1.0 - low, side - 1.0 - high);
    let middle = 0.5 * (first + last);
    if first < last { (first, last) } else { (middle, middle) }
}

/// A strip, mostly across a side of an object's box, so that it hides where the box ends.
fn draw_strip(placed: &[Placed], config: &SceneConfig, rng: &mut Rng) -> Placed {
    let side = config.width.min(config.height) as f32;
    let half_width = side * rng.random_range(0.014..=0.036);
    let strip = Silhouette::strip(side * rng.random_range(0.2..=0.5), half_width, rng);
    let mut at = [rng.random_range(0.0..=config.width as f32), rng.random_range(0.0..=config.height as f32)];
    let aimed = rng.random_bool(0.75);
    let target =
        placed.get(rng.random_range(0..placed.len().max(1))).filter(|target| target.category.is_some());
    if let (true, Some(target)) = (aimed, target) {
        let [x0, y0, x1, y1] = target.extent;
        let along = rng.random_range(0.3..=0.7);
        at = match rng.random_range(0u8..4) {
            0 => [x0, y0 + along * (y1 - y0)],
            1 => [x1, y0 + along * (y1 - y0)],
            2 => [x0 + along * (x1 - x0), y0],
            _ => [x0 + along * (x1 - x0), y1],
        };
    }
    Placed::new(None, strip.translated(at), half_width, (config.width, config.height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::primitive::Primitive;

    #[test]
    fn extents_bound_the_masks_within_a_pixel() {
        let config = SceneConfig { truncation: 0.3, ..SceneConfig::default() };
        for index in 0..60 {
            for item in arrange(&config, Key::new(2).index(index)) {
                if item.category.is_none() {
                    continue;
                }
                let pixels = item.mask.covered_pixels(Window::image(config.width, config.height));
                for (exact, pixel) in item.extent.iter().zip(pixels) {
                    assert!((exact - pixel).abs() <= 1.0, "{:?} against {pixels:?} in {index}", item.extent);
                }
            }
        }
    }

    #[test]
    fn what_lies_outside_the_image_does_not_widen_the_box() {
        let polygon = |vertices: Vec<Point>| Primitive::Polygon { vertices, radius: 0.0 };
        // A square half above the image, and a thin part that reaches far to the left of it above the image
        // only.
        let silhouette = Silhouette {
            body: vec![polygon(vec![[20.4, -10.0], [40.3, -10.0], [40.3, 10.2], [20.4, 10.2]])],
            hole: None,
            protrusion: Some(polygon(vec![[5.0, -6.0], [21.0, -6.0], [21.0, -4.0], [5.0, -4.0]])),
            marks: Vec::new(),
        };
        let item = Placed::new(None, silhouette, 10.0, (64, 64));
        for (found, expected) in item.extent.iter().zip([20.4, 0.0, 40.3, 10.2]) {
            assert!((found - expected).abs() <= 1.0 / 16.0, "{:?}", item.extent);
        }
    }

    #[test]
    fn areas_match_closed_forms() {
        let disc = Primitive::Ellipse { center: [20.3, 30.7], radii: [9.0, 6.0], axis: [0.6, 0.8] };
        let silhouette = Silhouette { body: vec![disc], hole: None, protrusion: None, marks: Vec::new() };
        let item = Placed::new(None, silhouette.clone(), 9.0, (64, 64));
        assert!((item.area / (54.0 * std::f32::consts::PI) - 1.0).abs() < 0.01, "{}", item.area);
        // Moved so that its centre lies on the image's left side, half of it is outside.
        let half = Placed::new(None, silhouette.translated([-20.3, 0.0]), 9.0, (64, 64));
        assert!((half.truncation - 0.5).abs() < 0.01, "{}", half.truncation);
        assert_eq!(half.extent[0], 0.0);
    }

    #[test]
    fn occlusion_is_the_covered_fraction() {
        let square = |x: f32| Silhouette {
            body: vec![Primitive::Polygon {
                vertices: vec![[x, 10.0], [x + 20.0, 10.0], [x + 20.0, 30.0], [x, 30.0]],
                radius: 0.0,
            }],
            hole: None,
            protrusion: None,
            marks: Vec::new(),
        };
        let mut placed = Vec::new();
        for x in [10.0, 25.0] {
            add_if_it_fits(&mut placed, 0.5, |_| {
                Placed::new(Some(Category::Radio), square(x), 10.0, (64, 64))
            });
        }
        // A third hides 0.5 of the second, one more pixel than allowed would be too much.
        add_if_it_fits(&mut placed, 0.5, |_| {
            Placed::new(Some(Category::Radio), square(34.0), 10.0, (64, 64))
        });
        let hidden: Vec<f32> = placed.iter().map(Placed::occlusion).collect();
        assert_eq!(placed.len(), 2, "{hidden:?}");
        assert!((hidden[0] - 0.25).abs() < 1e-3 && hidden[1] == 0.0, "{hidden:?}");
    }
}
