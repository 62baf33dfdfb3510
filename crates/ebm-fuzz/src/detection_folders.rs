//! Files of a user's folder in Pascal VOC's or YOLO's form.

use std::path::Path;

use ebm_data::coco::{LoadOptions, Purpose};
use ebm_data::detection_folder::{DetectionFolder, Split};
use ebm_data::faces::Tolerance;

use crate::{Refusal, Target, folder};

pub const TARGETS: &[Target] = &[
    Target {
        name: "voc",
        file: "a.xml",
        seeds: voc_seeds,
        prepare: beside_xml,
        read: |path| load(folder(path)),
    },
    Target {
        name: "yolo",
        file: "labels/a.txt",
        seeds: yolo_seeds,
        prepare: beside_labels,
        read: |path| load(folder(folder(path))),
    },
    Target {
        name: "data-yaml",
        file: "data.yaml",
        seeds: yaml_seeds,
        prepare: beside_yaml,
        read: |path| load(folder(path)),
    },
];

/// 41 columns and 29 rows.
const PIXELS: &[u8] = include_bytes!("../../ebm-data/tests/golden/images/rgb.png");

fn load(root: &Path) -> Result<(), Refusal> {
    let tolerance = Tolerance { max_bad_fraction: 1., report: None };
    let options = LoadOptions { tolerance, ..LoadOptions::new(Purpose::Eval) };
    let dataset = DetectionFolder::open(root)?.load(Split::Train, &options)?;
    // What is not as it should be is left out and written down.
    dataset.quarantine.defects.first().map_or(Ok(()), |defect| Err(defect.detail.as_str().into()))
}

fn voc_seeds() -> Vec<Vec<u8>> {
    let whole = "<annotation><folder>x</folder><filename>a.png</filename><size><width>41</width><height>29</height>\
        <depth>3</depth></size><object><name>mug</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin>\
        <xmax>41</xmax><ymax>29</ymax></bndbox></object></annotation>";
    let bare = "<?xml version=\"1.0\"?>\n<annotation><object><name>a &amp; b</name><bndbox><ymax>9.5</ymax><xmin>3</xmin>\
        <ymin>2</ymin><xmax>7</xmax></bndbox><part><name>lid</name></part></object></annotation>";
    vec![whole.into(), bare.into()]
}

fn beside_xml(dir: &Path) -> std::io::Result<()> {
    std::fs::write(dir.join("a.png"), PIXELS)
}

fn yolo_seeds() -> Vec<Vec<u8>> {
    vec![b"0 0.5 0.5 1 1\n1 0.25 0.5 0.5 0.25\n".to_vec(), b"1\t.5 5e-1 .1 0.1".to_vec()]
}

fn beside_labels(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir.join("images"))?;
    std::fs::write(dir.join("classes.txt"), "mug\nball\n")?;
    std::fs::write(dir.join("images/a.png"), PIXELS)
}

fn beside_yaml(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir.join("images"))?;
    std::fs::create_dir_all(dir.join("labels"))?;
    std::fs::write(dir.join("images/a.png"), PIXELS)?;
    std::fs::write(dir.join("labels/a.txt"), "0 0.5 0.5 1 1\n")
}

fn yaml_seeds() -> Vec<Vec<u8>> {
    let block = "path: coco8 # root\ntrain: images\nval: images\n\nnames:\n  0: person\n  1: 'hot dog'\ndownload: |\n  x\n";
    let flow = "train: ../images\nnc: 2\nnames: ['a, b', c]\nroboflow:\n  license: MIT\n";
    vec![
        block.into(),
        flow.into(),
        b"train: images\nnames: {0: a, 1: \"b\"}".to_vec(),
        b"train: images\nnames:\n- a\n".to_vec(),
    ]
}
