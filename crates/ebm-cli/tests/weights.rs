//! Weights made elsewhere, as a user brings them.

use crate::common::{program, schema};
use program::{files_in, in_tree, said, succeeds, text};

use candle_core::{DType, Device, Tensor};
use ebm_nn::import;
use serde_json::Value;

fn answer(args: &[&str]) -> Value {
    schema::document(&succeeds(&[args, &["--json"]].concat())[0], "weights convert")
}

#[track_caller]
fn refused(args: &[&str], part: &str) {
    program::refused(args, &[part]);
}

#[test]
fn a_detector_of_maskrcnn_benchmark_is_converted() {
    let dir = tempfile::tempdir().unwrap();
    let (out, config) = (dir.path().join("out.safetensors"), dir.path().join("narrow.toml"));
    let pth = in_tree("crates/ebm-detect/tests/golden/maskrcnn_benchmark.pth");
    let paper = std::fs::read_to_string(in_tree("crates/ebm-detect/configs/paper.toml")).unwrap();
    let narrow = paper.replace("width = 64", "width = 2").replace("fpn_channels = 256", "fpn_channels = 8");
    std::fs::write(&config, narrow.replace("representation = 1024", "representation = 8")).unwrap();
    let args = ["weights", "convert", text(&pth), text(&out), "--config", text(&config)];

    let found = answer(&args);
    assert_eq!((&found["family"], &found["configuration"]), (&"maskrcnn_benchmark".into(), &Value::Null));
    let written = import::load(&out, &Device::Cpu).unwrap();
    let numbers: usize = written.values().map(|tensor| tensor.elem_count()).sum();
    assert_eq!(found["tensors"].as_u64(), Some(written.len() as u64));
    assert_eq!(found["parameters"].as_u64(), Some(numbers as u64));
    assert_eq!(found["unused"].as_array().unwrap().len(), 5);
    assert_eq!(found["sha256"].as_str().unwrap().len(), 64);

    refused(&args, "--force");
    let half = answer(&[&args[..], &["--half", "--force"]].concat());
    assert!(half["bytes"].as_u64() < found["bytes"].as_u64() && half["sha256"] != found["sha256"]);
    // Again, and by another way, the same bytes.
    assert_eq!(answer(&[&args[..], &["--force"]].concat())["sha256"], found["sha256"]);

    refused(&["weights", "convert", text(&pth), "out.pth"], ".safetensors");
    refused(&["weights", "convert", text(&out), text(&out), "--force"], "another name for the output");
    refused(&["weights", "convert", "nowhere.pth", "x.safetensors"], "nowhere.pth");
    let other = dir.path().join("other.safetensors");
    let torchvision = ["weights", "convert", text(&pth), text(&other), "--config", "torchvision"];
    refused(&torchvision, "boxes = \"inclusive\" (here: \"half_open\")");
    refused(&["weights", "convert", text(&pth), text(&other)], "of another shape");
    assert!(!other.exists());
}

#[test]
fn a_photograph_needs_no_file_of_weights() {
    let dir = tempfile::tempdir().unwrap();
    let (committed, again) =
        (in_tree("weights/fastestdet.safetensors"), dir.path().join("again.safetensors"));
    let found = answer(&["weights", "convert", text(&committed), text(&again)]);
    assert_eq!((&found["family"], &found["tensors"]), (&"fastest_det".into(), &350.into()));
    assert!(std::fs::read(&committed).unwrap() == std::fs::read(&again).unwrap(), "the bytes differ");

    let image = ebm_testing::fixture("coco/val2017/000000168974.jpg");
    let predict = ["predict", "detection", text(&image), "--min-score", "0.6"];
    let found = schema::document(&succeeds(&predict)[0], "predict detection");
    assert_eq!((&found["label_name"], &found["category_id"]), (&"person".into(), &1.into()));
    let [same, _] = succeeds(&[&predict[..], &["--detector", text(&committed)]].concat());
    let same = schema::document(&same, "predict detection");
    assert_eq!((&same["score"], &same["bbox_before"]), (&found["score"], &found["bbox_before"]));
    assert_eq!(same["bbox"], same["bbox_before"]);
    refused(&[&predict[..], &["--config", "mini"]].concat(), "--detector");
}

#[test]
fn a_converted_detector_chooses_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let (out, scenes) = (dir.path().join("mini.safetensors"), dir.path().join("scenes"));
    let mini = in_tree("weights/detector_mini.safetensors");
    // What the repository holds says what the embedded configuration says; docs/weights.md has the command
    // that mends it.
    let own = dir.path().join("own.safetensors");
    assert_eq!(answer(&["weights", "convert", text(&mini), text(&own)])["configuration"], "mini");
    assert_eq!(ebm_detect::Detector::open(&mini).unwrap().classes()[0].name, "disc");
    // As it would be without what it says of itself.
    let plain = dir.path().join("plain.safetensors");
    import::save_safetensors(&plain, &import::load(&mini, &Device::Cpu).unwrap()).unwrap();
    refused(&["weights", "convert", text(&plain), text(&out)], "--config");
    let found = answer(&["weights", "convert", text(&plain), text(&out), "--config", "mini"]);
    assert_eq!((&found["family"], &found["configuration"]), (&"torchvision".into(), &"mini".into()));
    // Converted again it needs no configuration any more.
    let again = dir.path().join("again.safetensors");
    assert_eq!(answer(&["weights", "convert", text(&out), text(&again)])["configuration"], "mini");

    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "1"]);
    let image = files_in(&scenes.join("images")).remove(0);
    let predict = ["predict", "detection", text(&image), "--detector", text(&out), "--min-score", "0"];
    let [lines, _] = succeeds(&predict);
    assert!(!lines.is_empty());
    lines.lines().for_each(|line| drop(schema::document(line.as_bytes(), "predict detection")));
    refused(&[&predict[..], &["--config", "paper"]].concat(), "leave --config out");
    refused(&["predict", "detection", text(&image), "--detector", text(&plain)], "give it with --config");
}

/// torchvision's `fasterrcnn_resnet50_fpn_v2` normalises in pyramid and box head, and has two convolutions
/// before the proposals.
#[test]
fn a_detector_of_another_architecture_is_refused_without_impossible_advice() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("v2.safetensors"), dir.path().join("out.safetensors"));
    let names = [
        "backbone.fpn.inner_blocks.0.0.weight",
        "backbone.fpn.inner_blocks.0.1.running_mean",
        "rpn.head.conv.0.0.weight",
        "rpn.head.conv.1.0.weight",
        "roi_heads.box_head.0.0.weight",
        "roi_heads.box_predictor.cls_score.bias",
    ];
    let tensor = || Tensor::zeros(91, DType::F32, &Device::Cpu).unwrap();
    let tensors = names.iter().map(|name| ((*name).to_owned(), tensor())).collect();
    import::save_safetensors(&input, &tensors).unwrap();
    for config in [&[][..], &["--config", "torchvision"]] {
        let args = [&["weights", "convert", text(&input), text(&out)], config].concat();
        let output = program::refused(&args, &["no configuration has this architecture", "_v2"]);
        assert!(!said(&output).contains("give --config"), "{output:?}");
    }
}

#[test]
fn what_is_no_detector_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("resnet.safetensors"), dir.path().join("out.safetensors"));
    let tensor = Tensor::zeros(1, DType::F32, &Device::Cpu).unwrap();
    let args = ["weights", "convert", text(&input), text(&out)];
    let names = ["conv1.weight", "layer1.0.conv1.weight"].map(|name| (name.to_owned(), tensor.clone()));
    import::save_safetensors(&input, &names.into()).unwrap();
    refused(&args, "it has conv1.weight");
    import::save_safetensors(&input, &[("w".to_owned(), tensor)].into()).unwrap();
    refused(&args, "it has w");
}
