//! Families of weight files by their parameter names, and the translation of these names.

use std::fmt;

/// Origin of a weight file, recognised by its parameter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Faster-RCNN of torchvision, `fasterrcnn_resnet50_fpn`. A detector trained here has the same names.
    Torchvision,
    /// Faster-RCNN with FPN of maskrcnn-benchmark.
    MaskrcnnBenchmark,
    /// FastestDet, a one-stage detector.
    FastestDet,
}

/// Role of a tensor in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Parameter with its translated name. Unknown names are not translated, and are reported later as unexpected.
    Parameter(String),
    /// Anchors of a level of the pyramid, counted from P2, which are compared with the configuration.
    Anchors(usize),
    /// No part of the network; the tensor is left out.
    Unused,
}

impl Family {
    /// All detectors, with prefixes of names by which each is recognised.
    const DETECTORS: [(Family, [&'static str; 2]); 3] = [
        (Self::Torchvision, ["backbone.fpn.inner_blocks.", "roi_heads.box_predictor."]),
        (Self::MaskrcnnBenchmark, ["backbone.fpn.fpn_inner", "roi_heads.box.predictor."]),
        (Self::FastestDet, ["detect_head.", "SPP."]),
    ];

    /// Returns the family that `names` belong to, if it is known. One part of a network suffices, because all names are
    /// compared with the network later.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let names: Vec<&str> = names.into_iter().map(unwrapped).collect();
        let has = |prefix: &str| names.iter().any(|name| name.starts_with(prefix));
        let known = Self::DETECTORS.iter().find(|(_, marks)| marks.iter().any(|mark| has(mark)));
        known.map(|(family, _)| *family)
    }

    /// Returns the name of the embedded configuration of the family's published Faster-RCNN.
    pub fn configuration(self) -> Option<&'static str> {
        match self {
            Self::Torchvision => Some("torchvision"),
            Self::MaskrcnnBenchmark => Some("paper"),
            Self::FastestDet => None,
        }
    }

    /// Describes the names of all families, for a message on a file of no family.
    pub(super) fn expected() -> String {
        Self::DETECTORS.map(|(family, marks)| format!("{family}'s ({}…)", marks.join("…, "))).join(", ")
    }

    /// Returns the role of the tensor `name`.
    pub(super) fn role(self, name: &str) -> Role {
        let name = unwrapped(name);
        match self {
            Self::Torchvision => Role::Parameter(torchvision(name)),
            Self::MaskrcnnBenchmark => maskrcnn_benchmark(name),
            Self::FastestDet => Role::Parameter(name.to_owned()),
        }
    }
}

impl fmt::Display for Family {
    /// Writes the family as in files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torchvision => "torchvision",
            Self::MaskrcnnBenchmark => "maskrcnn_benchmark",
            Self::FastestDet => "fastest_det",
        })
    }
}

/// Removes the prefix that training on several devices adds.
pub(super) fn unwrapped(name: &str) -> &str {
    name.strip_prefix("module.").unwrap_or(name)
}

/// Translates a name of torchvision. Newer versions nest the convolutions of pyramid and proposal network one or two
/// modules deeper.
fn torchvision(name: &str) -> String {
    for blocks in ["backbone.fpn.inner_blocks.", "backbone.fpn.layer_blocks."] {
        if let Some([level, parameter]) = name.strip_prefix(blocks).and_then(parts) {
            return format!("{blocks}{level}.0.{parameter}");
        }
    }
    match name.strip_prefix("rpn.head.conv.") {
        Some(parameter @ ("weight" | "bias")) => format!("rpn.head.conv.0.0.{parameter}"),
        _ => name.to_owned(),
    }
}

/// Prefixes of maskrcnn-benchmark's layers, and their translations.
const MASKRCNN_BENCHMARK: [(&str, &str); 9] = [
    ("backbone.body.stem.conv1.", "backbone.body.conv1."),
    ("backbone.body.stem.bn1.", "backbone.body.bn1."),
    ("backbone.body.layer", "backbone.body.layer"),
    ("rpn.head.conv.", "rpn.head.conv.0.0."),
    ("rpn.head.cls_logits.", "rpn.head.cls_logits."),
    ("rpn.head.bbox_pred.", "rpn.head.bbox_pred."),
    ("roi_heads.box.feature_extractor.fc", "roi_heads.box_head.fc"),
    ("roi_heads.box.predictor.cls_score.", "roi_heads.box_predictor.cls_score."),
    ("roi_heads.box.predictor.bbox_pred.", "roi_heads.box_predictor.bbox_pred."),
];

fn maskrcnn_benchmark(name: &str) -> Role {
    if let Some(level) = name.strip_prefix("rpn.anchor_generator.cell_anchors.") {
        return level.parse().map_or_else(|_| Role::Parameter(name.to_owned()), Role::Anchors);
    }
    for (theirs, ours) in [("fpn_inner", "inner_blocks"), ("fpn_layer", "layer_blocks")] {
        let below = name.strip_prefix("backbone.fpn.").and_then(|name| name.strip_prefix(theirs));
        // The first level is C2 in both; maskrcnn-benchmark counts from 1.
        if let Some([level, parameter]) = below.and_then(parts) {
            let level = level.parse::<usize>().ok().and_then(|level| level.checked_sub(1));
            let ours = level.map(|level| format!("backbone.fpn.{ours}.{level}.0.{parameter}"));
            return Role::Parameter(ours.unwrap_or_else(|| name.to_owned()));
        }
    }
    let mut layers = MASKRCNN_BENCHMARK.iter();
    let ours = layers.find_map(|(theirs, ours)| Some(format!("{ours}{}", name.strip_prefix(theirs)?)));
    Role::Parameter(ours.unwrap_or_else(|| name.to_owned()))
}

/// Splits a name into the layer's number and its parameter.
fn parts(text: &str) -> Option<[&str; 2]> {
    let (level, parameter) = text.split_once('.')?;
    matches!(parameter, "weight" | "bias").then_some([level, parameter])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(family: Family, name: &str) -> String {
        match family.role(name) {
            Role::Parameter(name) => name,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn each_family_is_known_by_its_names() {
        let cases = [
            (Family::Torchvision, "backbone.fpn.inner_blocks.0.weight"),
            (Family::Torchvision, "roi_heads.box_predictor.cls_score.weight"),
            (Family::MaskrcnnBenchmark, "module.backbone.fpn.fpn_inner1.weight"),
            (Family::MaskrcnnBenchmark, "roi_heads.box.predictor.cls_score.bias"),
            (Family::FastestDet, "detect_head.obj_layers.conv5x5.0.weight"),
        ];
        for (family, name) in cases {
            assert_eq!(Family::of(["x", name]), Some(family), "{name}");
        }
        assert_eq!(Family::of(["encoder.0.weight", "conv1.weight"]), None);
        assert_eq!(Family::of([]), None);
    }

    #[test]
    fn old_and_new_names_of_torchvision_are_one() {
        for (name, ours) in [
            ("backbone.fpn.inner_blocks.2.weight", "backbone.fpn.inner_blocks.2.0.weight"),
            ("backbone.fpn.layer_blocks.0.bias", "backbone.fpn.layer_blocks.0.0.bias"),
            ("rpn.head.conv.bias", "rpn.head.conv.0.0.bias"),
        ] {
            assert_eq!(parameter(Family::Torchvision, name), ours);
            assert_eq!(parameter(Family::Torchvision, ours), ours);
        }
        let name = "backbone.body.layer1.0.downsample.1.running_var";
        assert_eq!(parameter(Family::Torchvision, name), name);
    }

    #[test]
    fn names_of_maskrcnn_benchmark() {
        for (name, ours) in [
            ("module.backbone.body.stem.bn1.running_mean", "backbone.body.bn1.running_mean"),
            ("backbone.body.layer4.2.conv3.weight", "backbone.body.layer4.2.conv3.weight"),
            ("backbone.fpn.fpn_inner1.weight", "backbone.fpn.inner_blocks.0.0.weight"),
            ("backbone.fpn.fpn_layer4.bias", "backbone.fpn.layer_blocks.3.0.bias"),
            ("rpn.head.conv.weight", "rpn.head.conv.0.0.weight"),
            ("rpn.head.cls_logits.bias", "rpn.head.cls_logits.bias"),
            ("roi_heads.box.feature_extractor.fc7.bias", "roi_heads.box_head.fc7.bias"),
            ("roi_heads.box.predictor.bbox_pred.weight", "roi_heads.box_predictor.bbox_pred.weight"),
            ("roi_heads.mask.predictor.conv5_mask.weight", "roi_heads.mask.predictor.conv5_mask.weight"),
            ("backbone.fpn.fpn_inner0.weight", "backbone.fpn.fpn_inner0.weight"),
            ("rpn.anchor_generator.cell_anchors.4", "Anchors(4)"),
        ] {
            assert_eq!(parameter(Family::MaskrcnnBenchmark, name), ours);
        }
    }
}
