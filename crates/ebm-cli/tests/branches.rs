//! Branches that were trained one by one, and what they are given to.

use crate::common::program::{DETECTOR, WEIGHTS, fails, files_in, json_in, refused, said, succeeds, text};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};

const METHODS: [&str; 5] = ["gaussian", "mixture4", "cvae", "iou_net", "ebm"];

/// Some scenes and branches.
struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `ebm reproduce detection` in small, and what it says.
    fn reproduce(&self, more: &[&str]) -> Vec<String> {
        let [out, datasets] = ["runs", "datasets"].map(|name| text(&self.path(name)).to_owned());
        let args = ["reproduce", "detection", "--scale", "mini", "--smoke", "--seeds", "1", "--json"];
        let places = ["--out", &out, "--datasets", &datasets, "--weights", WEIGHTS];
        [&args[..], &places, more].concat().into_iter().map(str::to_owned).collect()
    }

    /// A training on the scenes that `ebm reproduce detection --smoke` trains on.
    fn train(&self, what: &str, run: &str, more: &[&str]) -> Vec<String> {
        let scenes = self.path("datasets/generated/detection/train-16");
        let [annotations, images] = ["annotations.json", "images"].map(|name| scenes.join(name));
        let run = self.path(run);
        let args = ["train", what, "--annotations", text(&annotations), "--images", text(&images)];
        [&args[..], &["--run", text(&run)], more].concat().into_iter().map(str::to_owned).collect()
    }
}

/// The bytes of the tensors in a safetensors file, without its header.
fn tensors(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].to_vec()
}

/// The table without what a clock measured.
fn table(printed: &str) -> Vec<Value> {
    let object: Value = serde_json::from_str(printed).unwrap();
    let mut rows = object["rows"].as_array().unwrap().clone();
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        assert!(row.remove("frames_per_second").is_some() && row.remove("boxes_per_second").is_some());
    }
    rows
}

/// A branch of a reproduction says the factor that was chosen there, with which others predict; a branch of
/// another run is left as it was.
fn says_its_step_factor(place: &Place) {
    let head = place.path("runs/detection-mini-smoke-1/ebm-0/ebm.safetensors");
    let said = |head: &Path| {
        ebm_train::ModelMetadata::require(head, &[ebm_detect::weights::BRANCH]).unwrap().step_factor
    };
    assert_eq!((said(&head), said(&place.path("heads/ebm-0/ebm.safetensors"))), (Some(0.015625), Some(1.0)));
    assert_eq!(said(&place.path("runs/detection-mini-smoke-1/cvae-0/cvae.safetensors")), None);
    let images = place.path("datasets/generated/detection/test/images");
    let image = files_in(&images).remove(0);
    let predict = ["predict", "detection", text(&image), "--detector", DETECTOR, "--head", text(&head)];
    let predict = |more: &[&str]| succeeds(&[&predict[..], &["--min-score", "0"], more].concat())[0].clone();
    let [own, same, other] = [&[][..], &["--step-factor", "0.015625"], &["--step-factor", "64"]].map(predict);
    assert!(own == same && own != other);
}

#[test]
fn separately_trained_branches_give_the_table_of_one_run() {
    let place = Place(tempfile::tempdir().unwrap());
    let methods = format!("direct,{}", METHODS.join(","));
    let compare = ["--methods", &methods];
    let [one, said] = succeeds(&place.reproduce(&compare));
    // One step length is not chosen among others: no pass over the validation images.
    assert!(said.contains("test: 4 done") && !said.contains("validation: 2 done"), "{said}");
    let object: Value = serde_json::from_str(&one).unwrap();
    let remarks = object["remarks"].as_array().unwrap();
    assert!(remarks[0].as_str().unwrap().contains("the paper's figures are of COCO test-dev"), "{object}");

    for method in METHODS {
        let run = format!("heads/{method}-0");
        // Nothing is held out for the choice of a step length.
        let more = ["--cache", "--steps", "2", "--workers", "3", "--method", method, "--step-factor", "1"];
        let [printed, _] =
            succeeds(&place.train("branch", &run, &[&more[..], &["--detector", DETECTOR]].concat()));
        let file = place.path(&format!("{run}/{method}.safetensors"));
        assert_eq!(printed.trim(), text(&file));
        let of_run = place.path(&format!("runs/detection-mini-smoke-1/{method}-0/{method}.safetensors"));
        assert!(tensors(&file) == tensors(&of_run), "{method}");
    }
    let heads = place.path("heads");
    let with_heads = [&compare[..], &["--heads", text(&heads)]].concat();
    let [separate, said] = succeeds(&place.reproduce(&with_heads));
    assert_eq!(table(&separate), table(&one));
    says_its_step_factor(&place);
    assert!(!said.contains("training") && !said.contains("features of"), "{said}");

    // A missing one is not trained unless that is asked for.
    std::fs::remove_dir_all(place.path("heads/gaussian-0")).unwrap();
    std::fs::remove_dir_all(place.path("heads/ebm-0")).unwrap();
    let missing = ["gaussian-0/gaussian.safetensors", "ebm-0/ebm.safetensors", "--train-missing"];
    refused(&place.reproduce(&with_heads), &missing);
    let [again, said] = succeeds(&place.reproduce(&[&with_heads[..], &["--train-missing"]].concat()));
    assert_eq!(table(&again), table(&one));
    assert!(said.contains("training ebm-0") && !said.contains("training cvae-0"), "{said}");

    // Neither is one taken that was trained otherwise: both values are said.
    let config = place.path("other.toml");
    std::fs::write(
        &config,
        "extends = 'mini'\nmethods.ebm.confidence.objective.proposal.gaussian.sigmas = [0.1]",
    )
    .unwrap();
    let more =
        ["--config", text(&config), "--cache", "--steps", "3", "--batch-size", "2", "--detector", DETECTOR];
    succeeds(&place.train("branch", "other/ebm-0", &more));
    let other = place.path("other");
    let both = [
        "confidence.objective.proposal.gaussian.sigmas = [0.1] (here: [0.0375, 0.075, 0.15])",
        "training.steps = 3 (here: 2)",
        "training.batch_size = 2 (here: 4)",
    ];
    refused(&place.reproduce(&["--methods", "ebm", "--heads", text(&other)]), &both);
}

#[test]
fn a_branch_says_what_it_is() {
    let place = Place(tempfile::tempdir().unwrap());
    let scenes = place.path("datasets/generated/detection/train-16");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "3", "--seed", "4"]);
    let (annotations, images) = (scenes.join("annotations.json"), scenes.join("images"));
    let image = files_in(&images).remove(0);
    let evaluate = |annotations: &Path, detector: &str, more: &[&str]| -> Vec<String> {
        let model = ["eval", "detection", "--json", "--detector", detector, "--images", text(&images)];
        let args = [&model[..], &["--annotations", text(annotations)], more].concat();
        args.into_iter().map(str::to_owned).collect()
    };
    for method in METHODS {
        let more = ["--cache", "--steps", "1", "--batch-size", "1", "--detector", DETECTOR];
        succeeds(&place.train("branch", method, &[&more[..], &["--method", method]].concat()));
        let head = place.path(&format!("{method}/{method}.safetensors"));
        let [printed, _] = succeeds(&evaluate(&annotations, DETECTOR, &["--head", text(&head)]));
        let object: Value = serde_json::from_str(&printed).unwrap();
        let rows = object["rows"].as_array().unwrap();
        let found: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
        match method {
            "iou_net" | "ebm" => assert_eq!(found, ["direct", "before", "refined"]),
            density => assert_eq!(found, ["direct", density]),
        }
        let predict = ["predict", "detection", text(&image), "--detector", DETECTOR, "--head", text(&head)];
        let [printed, _] = succeeds(&[&predict[..], &["--min-score", "0"]].concat());
        let line: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
        assert_eq!(line["bbox"].as_array().unwrap().len(), 4);
        assert!(line["label_name"].is_string() && line["category_id"].is_u64(), "{line}");
    }
    let [energy, gaussian] =
        ["ebm", "gaussian"].map(|method| place.path(&format!("{method}/{method}.safetensors")));
    let predict = ["predict", "detection", text(&image), "--detector", DETECTOR, "--head", text(&gaussian)];
    refused(&[&predict[..], &["--density"]].concat(), &["--density", "gaussian"]);

    // Another detector's features are not those that it was trained on.
    let more = ["--config", "mini", "--steps", "1", "--batch-size", "1"];
    succeeds(&place.train("detector", "detector", &more));
    let detector = place.path("detector/detector.safetensors");
    let other = evaluate(&annotations, text(&detector), &["--head", text(&energy)]);
    refused(&other, &["ebm.safetensors", "base_digest", "(here: "]);
    succeeds(&evaluate(&annotations, text(&detector), &[]));

    // The same number of categories, one of which is another.
    let mut file = json_in(&annotations);
    let known = file["categories"][0]["name"].as_str().unwrap().to_owned();
    file["categories"][0]["name"] = json!("raccoon");
    let foreign = place.path("foreign.json");
    std::fs::write(&foreign, file.to_string()).unwrap();
    let parts = ["detector.safetensors", &format!("{known:?}"), "\"raccoon\"", "foreign.json"];
    refused(&evaluate(&foreign, text(&detector), &[]), &parts);
    let mut train = place.train("branch", "foreign", &["--detector", text(&detector)]);
    let at = train.iter().position(|argument| argument == text(&annotations)).unwrap();
    train[at] = text(&foreign).to_owned();
    refused(&train, &parts);
}

#[test]
fn nothing_is_trained_with_no_steps() {
    for what in ["detector", "branch"] {
        let args = ["train", what, "--annotations", "a.json", "--images", "i", "--run", "r", "--steps", "0"];
        let detector: &[&str] = if what == "branch" { &["--detector", DETECTOR] } else { &[] };
        refused(&[&args[..], detector].concat(), &["--steps", "0 is not in 1.."]);
    }
}

/// A detector and a branch of one's own, without a configuration after the training.
#[test]
fn a_trained_branch_knows_its_step_length_and_its_classes() {
    let place = Place(tempfile::tempdir().unwrap());
    let [scenes, more] =
        ["train-16", "more"].map(|name| place.path("datasets/generated/detection").join(name));
    for (folder, count) in [(&scenes, "6"), (&more, "2")] {
        succeeds(&["data", "scenes", "--out", text(folder), "--count", count, "--seed", "4"]);
    }
    let args = ["--cache", "--steps", "1", "--batch-size", "1", "--detector", DETECTOR];
    let read = |run: &str| {
        let path = place.path(run).join("ebm.safetensors");
        ebm_train::ModelMetadata::require(&path, &[ebm_detect::weights::BRANCH]).unwrap()
    };
    let factors = ebm_detect::STEP_FACTORS;
    // Every fifth image is held out, or others are given.
    let [_, said] = succeeds(&place.train("branch", "held-out", &args));
    assert!(said.contains("held-out images: 1 done") && said.contains("step lengths × "), "{said}");
    assert!(said.contains("after 1 steps: loss ") && said.contains("kept: step 1, loss "), "{said}");
    assert!(factors.contains(&read("held-out").step_factor.unwrap()));
    let [annotations, images] = ["annotations.json", "images"].map(|name| more.join(name));
    let given = ["--val-annotations", text(&annotations), "--val-images", text(&images)];
    let [_, said] = succeeds(&place.train("branch", "given", &[&args[..], &given].concat()));
    assert!(said.contains("validation images: 2 done"), "{said}");
    assert_eq!(read("given").classes.len(), 6);
    let fixed = [&args[..], &["--step-factor", "0.5"]].concat();
    succeeds(&place.train("branch", "fixed", &fixed));
    assert_eq!(read("fixed").step_factor, Some(0.5));
    assert!(!place.path("fixed/validation.jsonl").exists());
    // What is there is refused before anything is read.
    refused(&place.train("branch", "fixed", &fixed), &["fixed", "already holds a run"]);

    // It moves boxes as far as it says, unless told otherwise.
    let image = files_in(&images).remove(0);
    let head = place.path("fixed/ebm.safetensors");
    let predict = ["predict", "detection", text(&image), "--detector", DETECTOR, "--head", text(&head)];
    let predict = [&predict[..], &["--min-score", "0"]].concat();
    let [own, _] = succeeds(&predict);
    let [same, _] = succeeds(&[&predict[..], &["--step-factor", "0.5"]].concat());
    let [other, _] = succeeds(&[&predict[..], &["--step-factor", "4"]].concat());
    assert!(own == same && own != other);

    // Of a folder with nothing above the least score, each image is named.
    let [printed, said] =
        succeeds(&["predict", "detection", text(&images), "--detector", DETECTOR, "--min-score", "1.1"]);
    assert!(printed.is_empty() && said.matches("no detection of --min-score 1.1").count() == 2, "{said}");
}

#[test]
fn a_finished_run_becomes_longer_and_nothing_else() {
    let place = Place(tempfile::tempdir().unwrap());
    let scenes = place.path("datasets/generated/detection/train-16");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "3", "--seed", "4"]);
    let args = ["--cache", "--batch-size", "1", "--detector", DETECTOR];
    let train = |more: &[&str]| place.train("branch", "run", &[&args[..], more].concat());
    let go = |more: &[&str]| succeeds(&train(more));
    go(&["--steps", "2"]);
    let losses = || std::fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    let first = losses();
    assert_eq!(first.lines().count(), 2);
    let [_, shown] = go(&["--steps", "4", "--resume"]);
    assert!(shown.contains("going on from step 2") && shown.contains("2 of 4 done"), "{shown}");
    assert!(losses().starts_with(&first) && losses().lines().count() == 4);
    // So are other images, wherever they lie, and another detector.
    let [fewer, detector] = ["--limit", "--detector"];
    let other = place.path("other.safetensors");
    let mut tensors = ebm_nn::import::load(Path::new(DETECTOR), &Device::Cpu).unwrap();
    let bias = tensors.get_mut("roi_heads.box_predictor.cls_score.bias").unwrap();
    *bias = (&*bias + 1.0).unwrap();
    let metadata = ebm_nn::import::metadata(Path::new(DETECTOR)).unwrap();
    ebm_nn::import::save_safetensors_with(&other, &tensors, &metadata).unwrap();
    for (option, value, name) in [(fewer, "2", "data_sha256"), (detector, text(&other), "weights_sha256")] {
        let mut args = train(&["--steps", "6", "--resume"]);
        match args.iter().position(|arg| arg == option) {
            Some(at) => value.clone_into(&mut args[at + 1]),
            None => args.extend([option, value].map(str::to_owned)),
        }
        refused(&args, &["inputs.", name, "(here: "]);
    }
    // Another setting is named, before the features are computed.
    let other = train(&["--steps", "6", "--resume", "--set", "confidence.decay=0.5"]);
    let message = said(&refused(&other, &["confidence.decay = ", "(here: 0.5)"]));
    assert!(!message.contains("features of"), "{message}");
}

/// A body that fits only in part, or not at all, would stay at its initial values and frozen.
#[test]
fn a_body_must_be_the_detectors() {
    let place = Place(tempfile::tempdir().unwrap());
    let scenes = place.path("datasets/generated/detection/train-16");
    succeeds(&["data", "scenes", "--out", text(&scenes), "--count", "2", "--seed", "4"]);
    let detector = ebm_nn::import::load(Path::new(DETECTOR), &Device::Cpu).unwrap();
    let body: BTreeMap<String, Tensor> = detector
        .iter()
        .filter_map(|(name, tensor)| Some((name.strip_prefix("backbone.body.")?.to_owned(), tensor.clone())))
        .collect();
    let file = |name: &str, tensors: &BTreeMap<String, Tensor>| {
        let path = place.path(name);
        ebm_nn::import::save_safetensors(&path, tensors).unwrap();
        path
    };
    let foreign = Tensor::ones((2, 2), DType::F32, &Device::Cpu).unwrap();
    let linear = BTreeMap::from([("linear.weight".to_owned(), foreign)]);
    let half: BTreeMap<_, _> =
        body.clone().into_iter().filter(|(name, _)| !name.starts_with("layer4.")).collect();
    let mut more = body.clone();
    more.extend(linear.clone());
    // The body in it is another network's.
    let refiner = Path::new(DETECTOR).with_file_name("refiner.safetensors");
    let cases = [
        (file("linear.safetensors", &linear), ["linear.weight", "conv1.weight"]),
        (file("half.safetensors", &half), ["layer4.0.bn1.bias", "25 missing"]),
        (file("more.safetensors", &more), ["linear.weight", "unexpected"]),
        (refiner, ["backbone.body._blocks.0.", "240 unexpected"]),
    ];
    let train = |run: &str, body: &Path, more: &[&str]| {
        let own = ["--steps", "1", "--batch-size", "1", "--body", text(body)];
        place.train("detector", run, &[&own[..], more].concat())
    };
    for (body, parts) in &cases {
        fails(&train("refused", body, &[]), 3, &[parts[0], parts[1], text(body)]);
        assert!(!place.path("refused").exists());
    }
    let [whole, half] = [file("body.safetensors", &body), cases[1].0.clone()];
    let [_, said] = succeeds(&train("whole", &whole, &[]));
    assert!(!said.contains("drawn and trained"), "{said}");
    let [_, said] = succeeds(&train("partial", &half, &["--partial-body"]));
    assert!(said.contains("drawn and trained: backbone.body.layer4.0."), "{said}");
    let trained = |run: &str| {
        ebm_nn::import::load(&place.path(run).join("detector.safetensors"), &Device::Cpu).unwrap()
    };
    for (run, moved) in [("whole", false), ("partial", true)] {
        let trained = trained(run);
        let same = |name: &str| {
            let [a, b] = [&trained[name], &detector[name]].map(|tensor| {
                tensor.flatten_all().unwrap().to_dtype(DType::F32).unwrap().to_vec1::<f32>().unwrap()
            });
            a == b
        };
        assert!(same("backbone.body.layer1.0.conv1.weight"));
        assert_eq!(same("backbone.body.layer4.0.conv1.weight"), !moved);
    }
}

/// From a folder to refined boxes, without a configuration anywhere.
#[test]
fn a_folder_of_ones_own_is_trained_on_with_its_own_classes() {
    let place = Place(tempfile::tempdir().unwrap());
    let folder = place.path("mine");
    succeeds(&["data", "scenes", "--out", text(&folder), "--count", "6", "--seed", "4"]);
    let annotations = folder.join("annotations.json");
    let mut file = json_in(&annotations);
    // Two classes, with ids of their own.
    file["categories"] = json!([{"id": 10, "name": "kangaroo"}, {"id": 20, "name": "raccoon"}]);
    for object in file["annotations"].as_array_mut().unwrap() {
        object["category_id"] = json!(if object["category_id"].as_u64().unwrap() % 2 == 0 { 10 } else { 20 });
    }
    std::fs::write(&annotations, file.to_string()).unwrap();
    let [base, run] = ["base", "head"].map(|name| place.path(name));
    let short = ["--steps", "1", "--batch-size", "1", "--data", text(&folder)];
    let (images, every) = (folder.join("images"), ["--steps", "3", "--validate-every", "1"]);
    let validation = ["--val-annotations", text(&annotations), "--val-images", text(&images)];
    let detector = ["train", "detector", "--run", text(&base), "--batch-size", "1", "--data", text(&folder)];
    let [_, said] = succeeds(&[&detector[..], &every, &validation].concat());
    assert!(said.contains("6 images, 2 classes: kangaroo, raccoon"), "{said}");
    assert!(said.contains("after 1 steps: AP 0.") && said.contains("kept: step "), "{said}");
    let weights = base.join("detector.safetensors");
    let branch = ["train", "branch", "--cache", "--run", text(&run), "--detector", text(&weights)];
    let [_, said] = succeeds(&[&branch[..], &short].concat());
    assert!(said.contains("held-out images: 1 done"), "{said}");
    let head = run.join("ebm.safetensors");
    let model = ["--detector", text(&weights), "--head", text(&head)];
    let evaluate = ["eval", "detection", "--images", text(&images), "--annotations", text(&annotations)];
    // The folder is scored as its annotation file is.
    let of_folder = ["eval", "detection", "--data", text(&folder), "--split", "train"];
    let rows = |evaluate: &[&str]| {
        let [printed, _] = succeeds(&[evaluate, &model, &["--json"]].concat());
        serde_json::from_str::<Value>(&printed).unwrap()["rows"].clone()
    };
    assert_eq!(rows(&evaluate), rows(&of_folder));
    refused(&[&of_folder[..4], &model].concat(), &["valid"]);
    let predict = ["predict", "detection", text(&images), "--min-score", "0"];
    let [printed, _] = succeeds(&[&predict[..], &model].concat());
    let known = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        matches!(
            (line["label_name"].as_str(), line["category_id"].as_u64()),
            (Some("kangaroo"), Some(10)) | (Some("raccoon"), Some(20))
        )
    };
    assert!(printed.lines().all(known), "{printed}");

    // One image that is none: refused, or left out and listed.
    std::fs::write(files_in(&images).remove(0), "no image").unwrap();
    let again = place.path("again");
    let long = ["--steps", "8", "--batch-size", "1", "--data", text(&folder), "--run", text(&again)];
    let train = [&["train", "detector"], &long[..]].concat();
    refused(&train, &["max_bad_fraction = 0.001"]);
    let defects = place.path("defects.jsonl");
    let tolerant = ["--resume", "--max-bad-fraction", "0.5", "--defects", text(&defects)];
    succeeds(&[&train[..], &tolerant].concat());
    assert!(place.path("defects.jsonl.images").is_file() || defects.is_file());
}
