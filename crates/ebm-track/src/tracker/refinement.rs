//! Refinement of a box: ten boxes climb f, and the best are averaged.
//!
//! The best boxes have the highest f at the start of the last step, as in ATOM. f at its end is not computed.

use candle_core::{Device, Tensor};
use ebm_core::refine;
use ebm_data::sequences::Rect;
use rand::{Rng, RngCore};

use super::config::BoxConfig;
use crate::Result;
use crate::box_module::{BoxNetwork, PixelSteps, TargetFeatures, TestFeatures, rects};
use crate::method::{Refinement, StepCoordinates};

/// Refines the box `start` of a test crop: `start` and random boxes about it climb f, and the best are averaged.
/// Returns the box and the mean f of the best boxes, or `None` if no refined box has a valid shape.
///
/// # Errors
/// When the network refuses.
pub fn refine_box<B: BoxNetwork>(
    network: &B,
    features: TestFeatures,
    start: Rect,
    refinement: &Refinement,
    config: &BoxConfig,
    device: &Device,
    rng: &mut dyn RngCore,
) -> Result<Option<(Rect, f64)>> {
    let initial = initial_boxes(start, config, rng);
    Ok(best(climb(network, features, &initial, refinement, device)?, config))
}

/// Returns the box `start` and random boxes about it (x, y, width, height).
fn initial_boxes(start: Rect, config: &BoxConfig, rng: &mut dyn RngCore) -> Vec<Rect> {
    let [x, y, width, height] = start;
    let (side, least) = ((width * height).sqrt(), config.least_size * width.min(height));
    let mut jitter = |most: f64| rng.random_range(-1.0..=1.0) * most * side;
    let random = |_| {
        let size = [width, height].map(|own| (own + jitter(config.size_jitter)).max(least));
        let center = [x + width / 2.0, y + height / 2.0].map(|own| own + jitter(config.position_jitter));
        [center[0] - size[0] / 2.0, center[1] - size[1] / 2.0, size[0], size[1]]
    };
    std::iter::once(start).chain((0..config.random).map(random)).collect()
}

/// Returns the boxes after the ascent, each with f at the start of its last step.
fn climb<B: BoxNetwork>(
    network: &B,
    features: TestFeatures,
    boxes: &[Rect],
    refinement: &Refinement,
    device: &Device,
) -> Result<Vec<(Rect, f64)>> {
    let rows: Vec<f32> = boxes.as_flattened().iter().map(|&number| number as f32).collect();
    let initial = Tensor::from_vec(rows, (1, boxes.len(), 4), device)?;
    let ascent = refinement.ascent();
    let (y, f) = match refinement.coordinates {
        StepCoordinates::Pixels => {
            let refined = refine(&PixelSteps(network), &features, &initial, &ascent)?;
            (refined.y, refined.f_before)
        }
        StepCoordinates::Relative => {
            // All boxes are relative to the size of the first.
            let features = TargetFeatures::new(features, &initial.narrow(1, 0, 1)?.squeeze(1)?)?;
            let refined = refine(network, &features, &features.encode(&initial)?, &ascent)?;
            (features.decode(&refined.y)?, refined.f_before)
        }
    };
    let f = f.squeeze(0)?.to_device(&Device::Cpu)?.to_vec1::<f32>()?;
    Ok(rects(&y.squeeze(0)?)?.into_iter().zip(f.into_iter().map(f64::from)).collect())
}

/// Returns the mean of the boxes with the highest f, and the mean of their f, or `None` if no box has a valid shape.
fn best(boxes: Vec<(Rect, f64)>, config: &BoxConfig) -> Option<(Rect, f64)> {
    let possible = |(bbox, f): &(Rect, f64)| {
        let aspect = bbox[2] / bbox[3];
        f.is_finite()
            && bbox.iter().all(|number| number.is_finite())
            && aspect < config.max_aspect
            && aspect > config.max_aspect.recip()
    };
    let at_least_a_pixel =
        |([x, y, width, height], f): (Rect, f64)| ([x, y, width.max(1.0), height.max(1.0)], f);
    let mut boxes: Vec<(Rect, f64)> = boxes.into_iter().map(at_least_a_pixel).filter(possible).collect();
    boxes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    boxes.truncate(config.top);
    let count = boxes.len() as f64;
    if boxes.is_empty() {
        return None;
    }
    let mean = [0, 1, 2, 3].map(|i| boxes.iter().map(|(bbox, _)| bbox[i]).sum::<f64>() / count);
    Some((mean, boxes.iter().map(|(_, f)| f).sum::<f64>() / count))
}

#[cfg(test)]
mod tests {
    use ebm_base::Key;

    use super::*;

    #[test]
    fn random_boxes_stay_near_the_first() {
        let config = BoxConfig { random: 500, ..BoxConfig::default() };
        let start = [100.0, 50.0, 90.0, 40.0];
        let boxes = initial_boxes(start, &config, &mut Key::new(3).rng());
        assert_eq!((boxes.len(), boxes[0]), (501, start));
        // √(90 · 40) = 60.
        let center = |[x, y, w, h]: Rect| [x + w / 2.0, y + h / 2.0];
        let [cx, cy] = center(start);
        for bbox in &boxes {
            let [x, y] = center(*bbox);
            assert!((x - cx).abs() <= 3.0 + 1e-9 && (y - cy).abs() <= 3.0 + 1e-9);
            assert!((bbox[2] - 90.0).abs() <= 15.0 && (bbox[3] - 40.0).abs() <= 15.0);
        }
        assert!(boxes.iter().any(|bbox| bbox[3] > 52.0) && boxes.iter().any(|bbox| bbox[3] < 28.0));
        let thin = initial_boxes([0.0, 0.0, 100.0, 9.0], &config, &mut Key::new(3).rng());
        assert!(thin.iter().all(|bbox| bbox[3] >= 3.0));
    }

    #[test]
    fn the_best_three_are_averaged() {
        let row = |x: f64, f: f64| ([x, 0.0, 10.0, 10.0], f);
        let config = BoxConfig::default();
        let (mean, f) =
            best(vec![row(0.0, 1.0), row(9.0, 3.0), row(6.0, 2.0), row(99.0, 0.0)], &config).unwrap();
        assert_eq!((mean, f), ([5.0, 0.0, 10.0, 10.0], 2.0));
        // Boxes that are too long or not finite are left out. A negative side becomes one pixel.
        let long = ([0.0, 0.0, 60.0, 10.0], 9.0);
        let lost = ([f64::NAN, 0.0, 10.0, 10.0], 9.0);
        let turned = ([0.0, 0.0, -5.0, 3.0], 9.0);
        assert_eq!(best(vec![long, lost, turned, row(7.0, 1.0)], &config).unwrap().0, [3.5, 0.0, 5.5, 6.5]);
        assert!(best(vec![long, lost], &config).is_none());
    }
}
