//! How well a box module refines boxes, without a tracker around it.

use candle_core::{Device, Tensor};
use ebm_core::Proposal;
use ebm_data::sequences::Rect;
use ebm_eval::tracking::overlap;
use ebm_seed::Key;

use crate::box_module::{BoxNetwork, TargetFeatures};
use crate::error::Result;
use crate::method::Refinement;
use crate::tracker::{BoxConfig, refine_box};
use crate::training::{PairFeatures, PerturbedBoxes};

/// The mean IoU with the true boxes before and after refinement, as the tracker refines, of one perturbed box in each test
/// crop.
///
/// # Errors
/// When the network refuses.
pub fn box_accuracy<B: BoxNetwork>(
    network: &B,
    batches: &[PairFeatures],
    refinement: &Refinement,
    config: &BoxConfig,
    key: Key,
) -> Result<[f64; 2]> {
    let (mut sum, mut count) = ([0.0, 0.0], 0.0);
    for (number, pairs) in batches.iter().enumerate() {
        let device = pairs.test_boxes.device();
        let modulation = network.modulation(&pairs.reference, &pairs.reference_boxes)?.detach();
        let all = network.test_features(&pairs.test, &modulation)?.detach();
        let mut rng = key.index(number as u64).rng();
        let features = TargetFeatures::new(all, &pairs.test_boxes)?;
        let y = features.encode(&pairs.test_boxes.unsqueeze(1)?)?.squeeze(1)?;
        let starts = features.decode(&PerturbedBoxes.sample(&y, 1, &mut rng)?)?.squeeze(1)?;
        let (starts, truth) = (rects(&starts)?, rects(&pairs.test_boxes)?);
        for (i, (start, truth)) in starts.into_iter().zip(truth).enumerate() {
            let own = features.test().crop(i)?;
            let refined = refine_box(network, own, start, refinement, config, device, &mut rng)?;
            let after = refined.map_or(start, |(bbox, _)| bbox);
            for (sum, bbox) in sum.iter_mut().zip([start, after]) {
                *sum += overlap(&bbox, &truth);
            }
            count += 1.0;
        }
    }
    Ok(sum.map(|sum| sum / count))
}

fn rects(boxes: &Tensor) -> Result<Vec<Rect>> {
    let rows = boxes.to_device(&Device::Cpu)?.to_vec2::<f32>()?;
    Ok(rows.iter().map(|row| [0, 1, 2, 3].map(|i| f64::from(row[i]))).collect())
}
