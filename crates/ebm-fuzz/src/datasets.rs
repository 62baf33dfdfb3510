//! Annotations, lists, poses, results, archives.

use std::path::Path;

use ebm_data::{
    check::{CheckOptions, coco as check_coco},
    coco::{CocoDataset, LoadOptions, Purpose},
    faces::{Tolerance, biwi, split::Split, utkface},
    fetch::Manifest,
    sequences::read_boxes,
    unpack::{Budget, unpack},
};
use ebm_eval::{GroundTruth, read_results};
use ebm_synth::scenes::read_attributes;

use crate::{Refusal, Target, alone, folder, text};

pub const TARGETS: &[Target] = &[
    Target { name: "coco", file: "a.json", seeds: coco_seeds, prepare: alone, read: read_coco },
    Target {
        name: "coco-results",
        file: "r.json",
        seeds: result_seeds,
        prepare: alone,
        read: read_coco_results,
    },
    Target {
        name: "utkface-split",
        file: "split.csv",
        seeds: split_seeds,
        prepare: alone,
        read: read_utkface,
    },
    Target {
        name: "face-split",
        file: "split.json",
        seeds: face_split_seeds,
        prepare: alone,
        read: read_face_split,
    },
    Target {
        name: "biwi-pose",
        file: "01/frame_00001_pose.txt",
        seeds: pose_seeds,
        prepare: beside_pose,
        read: read_biwi,
    },
    Target {
        name: "biwi-camera",
        file: "01/rgb.cal",
        seeds: camera_seeds,
        prepare: beside_camera,
        read: read_biwi,
    },
    Target { name: "biwi-npz", file: "a.npz", seeds: npz_seeds, prepare: alone, read: read_npz },
    Target {
        name: "boxes",
        file: "groundtruth.txt",
        seeds: box_seeds,
        prepare: alone,
        read: |path| Ok(read_boxes(path).map(drop)?),
    },
    Target {
        name: "manifest",
        file: "coco.toml",
        seeds: manifest_seeds,
        prepare: alone,
        read: read_manifest,
    },
    Target { name: "zip", file: "a.zip", seeds: npz_seeds, prepare: alone, read: read_archive },
    Target { name: "tar", file: "a.tar", seeds: tar_seeds, prepare: alone, read: read_archive },
];

/// Any share of defects, so that reading does not end at the first.
const ANY: Tolerance = Tolerance { max_bad_fraction: 1., report: None };
const CAMERA: &[u8] = b"500 0 320\n0 500 240\n0 0 1\n\n0 0 0 0\n\n1 0 0\n0 1 0\n0 0 1\n\n0 0 0\n\n640 480\n";
const POSE: &[u8] = b"1 0 0\n0 1 0\n0 0 1\n\n0.5 -20 1000\n";

fn coco_seeds() -> Vec<Vec<u8>> {
    let plain = r#"{"images":[{"id":1,"file_name":"a.jpg","width":9,"height":7},{"id":2,"file_name":"b.jpg","width":8,"height":8}],
        "categories":[{"id":3,"name":"disc","supercategory":"s"},{"id":7,"name":"ring"}],
        "annotations":[{"id":5,"image_id":1,"category_id":3,"bbox":[1,2,3.5,4],"area":14,"iscrowd":0,
        "segmentation":[[1,2,4.5,2,4.5,6]]},{"id":6,"image_id":2,"category_id":7,"bbox":[0,0,8,8],"area":64,"iscrowd":1}]}"#;
    let generated = r#"{"images":[{"id":1,"file_name":"a.jpg","width":9,"height":7}],"categories":[{"id":3,"name":"disc"}],
        "annotations":[{"id":5,"image_id":1,"category_id":3,"bbox":[1,2,3,4],"area":12,"iscrowd":0,"occlusion":0.1,
        "truncation":0,"blur":0.5,"fading_side":false}]}"#;
    vec![plain.into(), generated.into()]
}

fn read_coco(path: &Path) -> Result<(), Refusal> {
    let load = |purpose, labels| LoadOptions {
        tolerance: ANY,
        check_files: false,
        labels,
        ..LoadOptions::new(purpose)
    };
    let images = folder(path);
    let results = [
        CocoDataset::load(path, images, &load(Purpose::Train, None)).map(drop),
        CocoDataset::load(path, images, &load(Purpose::Eval, Some(90))).map(drop),
        check_coco(path, images, &CheckOptions { decode: false }).map(drop),
        read_attributes(path).map(drop),
    ];
    GroundTruth::read(path).map(drop).or_else(|_| GroundTruth::read_test_set(path).map(drop))?;
    // Few files are for all of them; whoever takes one has read it.
    let refusal = results.into_iter().reduce(|one, other| one.or(other));
    refusal.transpose()?;
    Ok(())
}

fn result_seeds() -> Vec<Vec<u8>> {
    vec![
        br#"[{"image_id":1,"category_id":3,"bbox":[1,2,3.5,4],"score":0.9},{"image_id":2,"category_id":3,"bbox":[0,0,1,1],"score":1e-3}]"#
            .to_vec(),
    ]
}

fn read_coco_results(path: &Path) -> Result<(), Refusal> {
    Ok(read_results(path).map(drop)?)
}

fn split_seeds() -> Vec<Vec<u8>> {
    let rows: String = (21..30).map(|age| format!("{age},{age}_0_1_2017.jpg,{}\n", age - 21)).collect();
    vec![format!(",file,age\n{rows}").into()]
}

fn read_utkface(path: &Path) -> Result<(), Refusal> {
    let options = utkface::UtkOptions { check_files: false, tolerance: ANY, ..Default::default() };
    Ok(utkface::load(folder(path), path, &options).map(drop)?)
}

fn face_split_seeds() -> Vec<Vec<u8>> {
    vec![br#"{"version":1,"seed":7,"parts":{"train":["a.jpg","b.jpg"],"test":["c.jpg"]}}"#.to_vec()]
}

fn read_face_split(path: &Path) -> Result<(), Refusal> {
    Ok(Split::read(path).map(drop)?)
}

fn beside_pose(dir: &Path) -> std::io::Result<()> {
    std::fs::write(dir.join("01/rgb.cal"), CAMERA)?;
    frame(dir)
}

fn beside_camera(dir: &Path) -> std::io::Result<()> {
    std::fs::write(dir.join("01/frame_00001_pose.txt"), POSE)?;
    frame(dir)
}

fn frame(dir: &Path) -> std::io::Result<()> {
    let pixels = include_bytes!("../../ebm-data/tests/golden/images/rgb.png");
    std::fs::write(dir.join("01/frame_00001_rgb.png"), pixels)
}

fn pose_seeds() -> Vec<Vec<u8>> {
    vec![POSE.into()]
}

fn camera_seeds() -> Vec<Vec<u8>> {
    vec![CAMERA.into()]
}

fn read_biwi(path: &Path) -> Result<(), Refusal> {
    let options = biwi::FramesOptions { tolerance: ANY, ..Default::default() };
    let faces = biwi::load_frames(folder(folder(path)), &options)?;
    // A frame that is not as it should be is left out, and what it lacks is written down.
    faces.quarantine.defects.first().map_or(Ok(()), |defect| Err(defect.detail.as_str().into()))
}

fn npz_seeds() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-data/tests/golden/biwi/stored.npz").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/biwi/deflated.npz").to_vec(),
    ]
}

fn read_npz(path: &Path) -> Result<(), Refusal> {
    Ok(ebm_face::biwi::read_npz(path, &Default::default()).map(drop)?)
}

fn box_seeds() -> Vec<Vec<u8>> {
    vec![b"1,2,3,4\n-5.5\t6\t7\t8e1\nNaN NaN NaN NaN\n".to_vec()]
}

/// A manifest's name is that of its file.
fn manifest_seeds() -> Vec<Vec<u8>> {
    let renamed =
        |text: &str, name: &str| text.replace(&format!("name = \"{name}\""), "name = \"coco\"").into();
    vec![
        include_bytes!("../../../datasets/coco.toml").to_vec(),
        renamed(include_str!("../../../datasets/biwi.toml"), "biwi"),
        renamed(include_str!("../../../weights/hub-resnet50.toml"), "hub-resnet50"),
    ]
}

fn read_manifest(path: &Path) -> Result<(), Refusal> {
    Ok(Manifest::parse(path, &text(path)?).map(drop)?)
}

fn tar_seeds() -> Vec<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(5);
    header.set_mode(0o644);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    // An empty list of seeds fails the tests.
    let added = archive.append_data(&mut header, "a/b.txt", &b"hello"[..]);
    added.and_then(|()| archive.into_inner()).into_iter().collect()
}

fn read_archive(path: &Path) -> Result<(), Refusal> {
    let target = folder(path).join("unpacked");
    let budget = Budget { max_entries: 100, max_entry_bytes: 1 << 20, max_total_bytes: 2 << 20 };
    let result = unpack(path, &target, &budget);
    match std::fs::remove_dir_all(&target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    Ok(result.map(drop)?)
}
