//! The names of Detectron's blobs, and what its networks have no blobs for.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::family::Role;
use crate::error::Result;

/// The layers outside the residual stages, and ours. The heads of the proposal network are stored under P2's.
const LAYERS: [(&str, &str); 7] = [
    ("conv_rpn_fpn2", "rpn.head.conv.0.0"),
    ("rpn_cls_logits_fpn2", "rpn.head.cls_logits"),
    ("rpn_bbox_pred_fpn2", "rpn.head.bbox_pred"),
    ("fc6", "roi_heads.box_head.fc6"),
    ("fc7", "roi_heads.box_head.fc7"),
    ("cls_score", "roi_heads.box_predictor.cls_score"),
    ("bbox_pred", "roi_heads.box_predictor.bbox_pred"),
];

/// What the blob `name` is: a layer's name, then `_w`, `_b`, or `_bn_s` and `_bn_b` for its normalisation.
pub(super) fn role(name: &str) -> Role {
    // Left over from training, from ImageNet's classifier, and from a bias that the network does not have.
    let unused = ["lr", "model_iter", "weight_order", "conv1_b", "fc1000_w", "fc1000_b", "pred_w", "pred_b"];
    if name.ends_with("_momentum") || unused.contains(&name) {
        return Role::Unused;
    }
    parameter(name).map_or(Role::Unknown, Role::Parameter)
}

fn parameter(name: &str) -> Option<String> {
    let body = "backbone.body.";
    match name {
        "conv1_w" => return Some(format!("{body}conv1.weight")),
        "res_conv1_bn_s" => return Some(format!("{body}bn1.weight")),
        "res_conv1_bn_b" => return Some(format!("{body}bn1.bias")),
        _ => {}
    }
    let (layer, last) = name.rsplit_once('_')?;
    let parameter = match last {
        "w" | "s" => "weight",
        "b" => "bias",
        _ => return None,
    };
    if let Some((_, ours)) = LAYERS.iter().find(|(theirs, _)| *theirs == layer) {
        return (last != "s").then(|| format!("{ours}.{parameter}"));
    }
    for (theirs, ours) in [("fpn_inner_res", "inner_blocks"), ("fpn_res", "layer_blocks")] {
        if let Some(block) = layer.strip_prefix(theirs) {
            // res2 … res5, of which the last block's sum is meant.
            let level = stage(block.split('_').next()?)?.checked_sub(1)?;
            return (last != "s" && block.contains("_sum"))
                .then(|| format!("backbone.fpn.{ours}.{level}.0.{parameter}"));
        }
    }
    let mut parts = layer.strip_prefix("res")?.split('_');
    let (stage, block, branch) = (stage(parts.next()?)?, parts.next()?, parts.next()?);
    block.parse::<usize>().ok()?;
    let norm = match (parts.next(), last) {
        (None, "w") => false,
        (Some("bn"), "s" | "b") => true,
        _ => return None,
    };
    let layer = match (branch, norm) {
        ("branch1", false) => "downsample.0",
        ("branch1", true) => "downsample.1",
        ("branch2a", false) => "conv1",
        ("branch2a", true) => "bn1",
        ("branch2b", false) => "conv2",
        ("branch2b", true) => "bn2",
        ("branch2c", false) => "conv3",
        ("branch2c", true) => "bn3",
        _ => return None,
    };
    Some(format!("{body}layer{stage}.{block}.{layer}.{parameter}"))
}

/// res2 is layer1.
fn stage(text: &str) -> Option<usize> {
    text.parse::<usize>().ok()?.checked_sub(1).filter(|stage| (1..=4).contains(stage))
}

/// Adds the statistics of each normalisation, an affine map there: mean 0 and variance 1.
pub(super) fn add_statistics(tensors: &mut BTreeMap<String, Tensor>) -> Result<()> {
    let is_norm = |name: &&String| ebm_nn::resnet::is_norm(name) && name.ends_with(".weight");
    let norms: Vec<String> = tensors.keys().filter(is_norm).cloned().collect();
    for name in norms {
        let Some((weight, layer)) = tensors.get(&name).zip(name.strip_suffix("weight")) else { continue };
        let (mean, var) = (weight.zeros_like()?, weight.ones_like()?);
        tensors.insert(format!("{layer}running_mean"), mean);
        tensors.insert(format!("{layer}running_var"), var);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_named() {
        for (name, ours) in [
            ("conv1_w", "backbone.body.conv1.weight"),
            ("res_conv1_bn_b", "backbone.body.bn1.bias"),
            ("res2_0_branch1_w", "backbone.body.layer1.0.downsample.0.weight"),
            ("res5_2_branch2c_bn_s", "backbone.body.layer4.2.bn3.weight"),
            ("res4_5_branch2b_bn_b", "backbone.body.layer3.5.bn2.bias"),
            ("fpn_inner_res5_2_sum_w", "backbone.fpn.inner_blocks.3.0.weight"),
            ("fpn_inner_res2_2_sum_lateral_b", "backbone.fpn.inner_blocks.0.0.bias"),
            ("fpn_res3_3_sum_w", "backbone.fpn.layer_blocks.1.0.weight"),
            ("conv_rpn_fpn2_w", "rpn.head.conv.0.0.weight"),
            ("rpn_bbox_pred_fpn2_b", "rpn.head.bbox_pred.bias"),
            ("fc6_w", "roi_heads.box_head.fc6.weight"),
            ("cls_score_b", "roi_heads.box_predictor.cls_score.bias"),
        ] {
            assert_eq!(role(name), Role::Parameter(ours.to_owned()), "{name}");
        }
        for name in ["fc6_w_momentum", "lr", "conv1_b"] {
            assert_eq!(role(name), Role::Unused, "{name}");
        }
        for name in
            ["fc6_s", "res2_0_branch1_b", "res7_0_branch1_w", "fpn_res3_3_w", "mask_fcn1_w", "conv", ""]
        {
            assert_eq!(role(name), Role::Unknown, "{name}");
        }
    }
}
