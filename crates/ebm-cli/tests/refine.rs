//! A refiner is trained on some scenes, and places the boxes of a result file.

use crate::common::program::{fails, files_in, json_in, succeeds, text};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_data::encode::write_png;
use ebm_nn::import::save_safetensors;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_train::ModelMetadata;
use serde_json::{Value, json};

const DATA: i32 = 3;

/// Ends with this code and these words, and writes nothing.
#[track_caller]
fn refused<S: AsRef<OsStr>>(args: &[S], code: i32, parts: &[&str]) {
    fails(args, code, parts);
    let out = args.iter().position(|arg| arg.as_ref() == "--out").map(|at| &args[at + 1]);
    assert!(out.is_none_or(|out| !Path::new(out).exists()));
}

/// Scenes in two folders, a body, and a refiner of few channels.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, count) in [("a", "3"), ("b", "2")] {
            succeeds(&["data", "scenes", "--out", text(&place.path(name)), "--count", count, "--seed", "4"]);
        }
        let store = ParamStore::new(Key::new(1));
        let config = ResNetConfig { width: 4, ..ResNetConfig::resnet18(Norm::Folded) };
        ResNet::new(&config, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
        save_safetensors(&place.path("body.safetensors"), &store.tensors().unwrap()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn train(&self, run: &str, more: &[&str]) -> String {
        let set = [
            "network={ width = 4, strides = [4, 8], map_scales = [1.0, 1.0], channels = 4, representation = 8 }",
            "network.views=[{ level = 0, context = 1.0, bins = 2 }, { level = 1, context = 1.5, bins = 2 }]",
            "input={ short_side = 96, long_side = 96 }",
            "objective.num_samples=8",
            "training={ batch_size = 2, warmup_steps = 0, milestones = [] }",
            "step_factors=[0.5, 1.0]",
        ];
        let [a, b] =
            ["a", "b"].map(|folder| ["annotations.json", "images"].map(|name| self.path(folder).join(name)));
        let (body, run) = (self.path("body.safetensors"), self.path(run));
        let mut args = vec!["train", "refiner", "--body", text(&body), "--run", text(&run)];
        for [annotations, images] in [&a, &b] {
            args.extend(["--annotations", text(annotations), "--images", text(images)]);
        }
        set.iter().for_each(|setting| args.extend(["--set", setting]));
        let [_, said] = succeeds(&[&args[..], more].concat());
        said
    }

    fn refiner(&self, run: &str) -> PathBuf {
        self.path(run).join("refiner.safetensors")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The arguments that refine the results in the file `results` on the first scenes.
    fn refine(&self, refiner: &str, results: &str, out: &str, more: &[&str]) -> Vec<String> {
        let [results, out, refiner] = [self.path(results), self.path(out), self.refiner(refiner)];
        let images = self.path("a/images");
        let args =
            ["refine", "--results", text(&results), "--images", text(&images), "--refiner", text(&refiner)];
        let args = [&args[..], &["--out", text(&out)], more].concat();
        args.into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn a_refiner_is_trained_and_resumed_to_the_byte() {
    let place = Place::new();
    let val = ["annotations.json", "images"].map(|name| place.path("b").join(name));
    let given = ["--val-annotations", text(&val[0]), "--val-images", text(&val[1])];
    let said =
        place.train("whole", &[&["--steps", "6", "--validate-every", "3", "--cache"], &given[..]].concat());
    assert!(said.contains("after 3 steps: loss ") && said.contains("step lengths × "), "{said}");
    assert!(said.contains("AP ") && said.contains("on validation images"), "{said}");
    let metadata = ModelMetadata::require(&place.refiner("whole"), &["a refiner of boxes"]).unwrap();
    assert!([0.5, 1.0].contains(&metadata.step_factor.unwrap()) && metadata.classes.len() == 6);

    let more = ["--cache", "--validate-every", "3"];
    let run =
        |steps: &str, more: &[&str]| place.train("parts", &[&["--steps", steps], more, &given[..]].concat());
    run("3", &more);
    let said = run("6", &[&more[..], &["--resume"]].concat());
    assert!(said.contains("going on from step 3"), "{said}");
    let [whole, parts] = ["whole", "parts"].map(|run| std::fs::read(place.refiner(run)).unwrap());
    assert!(whole == parts);

    // By a detector's boxes on the validation images; by class, streaming, with a part of the body.
    let boxes = json!([{ "image_id": 1, "category_id": 1, "bbox": [20, 20, 50, 50], "score": 0.9 }]);
    let results = place.write("val.json", &boxes.to_string());
    let by_class = ["--steps", "2", "--per-class", "--set", "trained_stages=1", "--results", text(&results)];
    place.train("by-class", &[&by_class[..], &given].concat());
    let unknown = json!([{ "image_id": 77, "category_id": 1, "bbox": [20, 20, 50, 50], "score": 0.9 }]);
    std::fs::write(&results, unknown.to_string()).unwrap();
    let a = ["annotations.json", "images"].map(|name| place.path("a").join(name));
    let body = place.path("body.safetensors");
    let run = place.path("unknown");
    let train =
        ["train", "refiner", "--body", text(&body), "--run", text(&run), "--annotations", text(&a[0])];
    let pairs = [&train[..], &["--images", text(&a[1])], &given, &["--results", text(&results)]].concat();
    refused(&pairs, DATA, &["val.json, detection 0: image id 77"]);
    let twice = [&train[..], &["--images", text(&a[1]), "--images", text(&val[1])]].concat();
    refused(&twice, 1, &["--annotations is given 1 times, --images 2 times"]);
}

#[test]
fn results_are_refined_and_all_else_is_kept() {
    let place = Place::new();
    place.train("run", &["--steps", "2", "--step-factor", "1"]);
    let boxes = json!([
        { "image_id": 2, "category_id": 4, "bbox": [20, 30.5, 50, 40], "score": 0.91234567890123, "id": 5, "mine": {"a": [1]} },
        { "image_id": 1, "category_id": 1, "bbox": [-8, 100, 40, 80], "score": 0.5 },
        { "image_id": 2, "category_id": 4, "bbox": [1, 2, 30, 40], "score": 0.01 },
    ]);
    place.write("r.json", &boxes.to_string());
    let annotations = place.path("a/annotations.json");
    let [_, said] =
        succeeds(&place.refine("run", "r.json", "out.json", &["--annotations", text(&annotations)]));
    assert!(said.contains("3 of 3 boxes refined"), "{said}");
    let out = json_in(&place.path("out.json"));
    let out = out.as_array().unwrap();
    for (given, refined) in boxes.as_array().unwrap().iter().zip(out) {
        for (key, value) in given.as_object().unwrap().iter().filter(|(key, _)| *key != "bbox") {
            assert_eq!(&refined[key], value, "{key}");
        }
        let numbers =
            |value: &Value| value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers(&refined["bbox_before"]), numbers(&given["bbox"]));
        assert!(refined["f"].is_f64() && refined.get("edges_90").is_none());
        let [x, y, width, height] = numbers(&refined["bbox"]).try_into().unwrap();
        assert!(x >= 0.0 && y >= 0.0 && x + width <= 160.0 && y + height <= 160.0, "{refined}");
    }
    // An output replaces no input.
    let first = files_in(&place.path("a/images")).remove(0);
    for out in [&place.path("a/../r.json"), &place.refiner("run"), &first] {
        let before = std::fs::read(out).unwrap();
        fails(&place.refine("run", "r.json", text(out), &[]), 2, &["would replace"]);
        assert!(std::fs::read(out).unwrap() == before);
    }
    // Ids are the files' numbers, where no annotations say otherwise; the same boxes come of it.
    succeeds(&place.refine("run", "r.json", "again.json", &[]));
    assert_eq!(json_in(&place.path("again.json")), json_in(&place.path("out.json")));
    // A step length of 0 moves nothing, and without clipping nothing is cut off.
    let more = ["--step-factor", "0", "--no-clip", "--density", "--samples", "64", "--min-score", "0.1"];
    let [_, said] = succeeds(&place.refine("run", "r.json", "still.json", &more));
    assert!(said.contains("2 of 3 boxes refined, 1 below --min-score"), "{said}");
    let still = json_in(&place.path("still.json"));
    let x = still[1]["bbox"][0].as_f64().unwrap();
    assert!((x + 8.0).abs() < 1e-3 && still[2] == boxes[2], "{still}");
    let left = still[0]["edges_90"]["left"][0].as_array().unwrap();
    assert!(left[0].as_f64() < left[1].as_f64() && still[0]["effective_sample_size"].as_f64() > Some(1.0));
}

#[test]
fn boxes_of_other_categories_stay_as_they_are() {
    let place = Place::new();
    place.train("run", &["--steps", "1", "--step-factor", "1"]);
    let annotations = place.path("a/annotations.json");
    let mut named = json_in(&annotations);
    let own = named["categories"][0].clone();
    let entry = |id: u64| json!({ "image_id": 1, "category_id": id, "bbox": [20, 20, 50, 50], "score": 0.9 });
    let boxes = json!([entry(own["id"].as_u64().unwrap()), entry(900), entry(901), entry(902), entry(901)]);
    place.write("r.json", &boxes.to_string());
    let refined = |out: &str| -> Vec<bool> {
        let out = json_in(&place.path(out));
        let is_refined = |(given, entry): (&Value, &Value)| {
            assert!(entry["f"].is_f64() || given == entry, "{entry}");
            entry["f"].is_f64()
        };
        boxes.as_array().unwrap().iter().zip(out.as_array().unwrap()).map(is_refined).collect()
    };
    let [_, said] = succeeds(&place.refine("run", "r.json", "by-id.json", &[]));
    assert!(
        said.contains("1 id 900, 2 id 901, 1 id 902; the refiner was trained on ")
            && said.contains("--any-class")
    );
    assert!(said.contains("1 of 5 boxes refined"), "{said}");
    assert_eq!(refined("by-id.json"), [true, false, false, false, false]);
    // Names decide where the annotations have them: id 901 is the refiner's class here, and its own id another.
    let name = |id: u64, name: &Value| json!({ "id": id, "name": name });
    named["categories"] =
        json!([name(901, &own["name"]), { "id": own["id"], "name": "cat" }, name(900, &json!("dog"))]);
    let names = place.write("names.json", &named.to_string());
    let [_, said] =
        succeeds(&place.refine("run", "r.json", "by-name.json", &["--annotations", text(&names)]));
    assert!(said.contains("1 \"cat\", 1 \"dog\", 1 id 902"), "{said}");
    assert_eq!(refined("by-name.json"), [false, false, true, false, true]);
    succeeds(&place.refine("run", "r.json", "all.json", &["--any-class"]));
    assert_eq!(refined("all.json"), [true; 5]);
    place.train("by-class", &["--steps", "1", "--step-factor", "1", "--per-class"]);
    let args = place.refine("by-class", "r.json", "no.json", &["--any-class"]);
    refused(&args, 1, &["--any-class", "each of its classes alone"]);
    let [_, said] = succeeds(&place.refine("by-class", "r.json", "classes.json", &[]));
    assert!(
        !said.contains("--any-class") && refined("classes.json") == [true, false, false, false, false],
        "{said}"
    );
}

#[test]
fn a_calibration_sizes_intervals_and_enters_scores() {
    let place = Place::new();
    place.train("run", &["--steps", "2", "--step-factor", "1"]);
    let annotations = place.path("a/annotations.json");
    let truth = json_in(&annotations);
    let found = truth["annotations"].as_array().unwrap().iter().map(|object| {
        json!({ "image_id": object["image_id"], "category_id": object["category_id"], "bbox": object["bbox"], "score": 0.8 })
    });
    let found: Vec<Value> = found.collect();
    assert!(found.len() > 9, "{}", found.len());
    place.write("r.json", &Value::from(found.clone()).to_string());
    place.write("few.json", &Value::from(found[..3].to_vec()).to_string());
    let calibrate = |results: &str, out: &str, more: &[&str]| {
        let [refiner, results, out] = [place.refiner("run"), place.path(results), place.path(out)];
        let images = place.path("a/images");
        let args = ["calibrate", "refiner", "--refiner", text(&refiner), "--results", text(&results)];
        let samples = ["--samples", "64"];
        let to = ["--annotations", text(&annotations), "--images", text(&images), "--out", text(&out)];
        [&args[..], &samples, &to, more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let [_, said] = succeeds(&calibrate("r.json", "calibrated.safetensors", &["--step-factor", "0"]));
    assert!(said.contains("intervals are multiplied by") && said.contains("with the power"), "{said}");
    fails(&calibrate("r.json", "calibrated.safetensors", &[]), 1, &["exists already"]);
    let [_, said] = succeeds(&calibrate("few.json", "few.safetensors", &["--step-factor", "0"]));
    assert!(said.contains("fewer than 9 boxes are right"), "{said}");

    refused(&place.refine("run", "r.json", "no.json", &["--rescore"]), 1, &["has no calibration"]);
    std::fs::rename(place.path("calibrated.safetensors"), place.refiner("run")).unwrap();
    let more = ["--rescore", "--density", "--samples", "64"];
    succeeds(&place.refine("run", "r.json", "out.json", &more));
    for refined in json_in(&place.path("out.json")).as_array().unwrap() {
        assert_eq!((&refined["score_before"], &refined["calibrated"]), (&json!(0.8), &json!(true)));
        assert!(refined["reliable"].is_boolean() && refined["score"].as_f64() <= Some(0.8), "{refined}");
    }
}

#[test]
fn bad_entries_are_named_and_kept_on_request() {
    let place = Place::new();
    place.train("run", &["--steps", "1", "--step-factor", "1", "--per-class"]);
    let good = r#"{"image_id": 1, "category_id": 1, "bbox": [20, 20, 50, 50], "score": 0.9}"#;
    let annotations = place.path("a/annotations.json");
    let with = ["--annotations", text(&annotations)];
    let cases = [
        (
            r#"{"image_id": 9, "category_id": 1, "bbox": [20, 20, 50, 50], "score": 0.9}"#,
            "image id 9 is not in the annotations",
        ),
        (
            r#"{"image_id": 1, "category_id": 1, "bbox": [20, 20, 0, 50], "score": 0.9}"#,
            "width or height is 0",
        ),
        (r#"{"image_id": 1, "category_id": 1, "bbox": [20, 20, 5, -5], "score": 0.9}"#, "height is -5"),
        (r#"{"image_id": 1, "category_id": 1, "bbox": [20, 20, 5, 5], "score": NaN}"#, "score is NaN"),
        (
            r#"{"image_id": 1, "category_id": 1, "bbox": [400, 20, 5, 5], "score": 0.9}"#,
            "outside of the image, 160 x 160",
        ),
        (r#"{"image_id": 1, "category_id": 1, "score": 0.9}"#, "bbox is missing"),
        (
            r#"{"image_id": 1, "category_id": 1, "bbox": [20, 20, 1e-9, 5], "score": 0.9}"#,
            "enough for single precision",
        ),
    ];
    for (bad, said) in cases {
        place.write("r.json", &format!("[{good},\n{bad}]"));
        let args = place.refine("run", "r.json", "refused.json", &with);
        refused(&args, DATA, &["r.json, detection 1", said]);
    }
    // Without annotations the images themselves tell, when they are read.
    place.write("r.json", &format!("[{good},\n{}]", cases[4].0));
    refused(&place.refine("run", "r.json", "refused.json", &[]), DATA, &["detection 1", cases[4].1]);
    place.write("r.json", &format!("[{good},\n{}]", cases[0].0));
    let called = "image id 9: no image in";
    refused(&place.refine("run", "r.json", "refused.json", &[]), DATA, &["detection 1", called]);

    let all: Vec<&str> = std::iter::once(good).chain(cases.iter().map(|(bad, _)| *bad)).collect();
    place.write("r.json", &format!("[{}]", all.join(",\n")));
    let [_, said] =
        succeeds(&place.refine("run", "r.json", "kept.json", &[&with[..], &["--keep-unrefined"]].concat()));
    for (index, (_, problem)) in cases.iter().enumerate() {
        assert!(said.contains(&format!("detection {}: ", index + 1)) && said.contains(problem), "{said}");
    }
    assert!(said.contains("1 of 8 boxes refined") && said.contains("7 kept as they are"), "{said}");
    let kept = json_in(&place.path("kept.json"));
    assert!(kept.as_array().unwrap().len() == 8 && kept[0]["f"].is_f64());
    assert!(kept[4]["score"].is_null(), "{}", kept[4]);
    assert_eq!(kept[1], serde_json::from_str::<Value>(cases[0].0).unwrap());

    // What is no result file at all.
    place.write("r.json", "[{\"image_id\": 1},\n");
    refused(&place.refine("run", "r.json", "refused.json", &with), DATA, &["r.json", "line 2"]);
}

#[test]
fn images_that_cannot_be_read_are_named() {
    let place = Place::new();
    place.train("run", &["--steps", "1", "--step-factor", "1"]);
    let entry = |id: u64| json!({ "image_id": id, "category_id": 1, "bbox": [20, 20, 50, 50], "score": 0.9 });
    place.write("r.json", &json!([entry(1), entry(2), entry(3), entry(2)]).to_string());
    let files = files_in(&place.path("a/images"));
    // Cut short; of another size than is annotated.
    let bytes = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &bytes[..bytes.len() / 2]).unwrap();
    write_png(&files[2], &ebm_data::Image::filled(30, 40, [1, 2, 3]).unwrap()).unwrap();
    let annotations = place.path("a/annotations.json");
    let with = ["--annotations", text(&annotations)];
    let args = place.refine("run", "r.json", "out.json", &with);
    refused(&args, DATA, &["detection 1: image id 2: ", "detection 3: image id 2: ", "000002.jpg"]);
    let [_, said] =
        succeeds(&place.refine("run", "r.json", "out.json", &[&with[..], &["--keep-unrefined"]].concat()));
    assert!(
        said.contains("detection 2: image id 3: ") && said.contains("30 x 40 pixels, annotated 160 x 160"),
        "{said}"
    );
    assert!(said.contains("1 of 4 boxes refined") && said.contains("3 kept as they are"), "{said}");
    let out = json_in(&place.path("out.json"));
    assert!(out[0]["f"].is_f64() && out[1] == entry(2) && out[2] == entry(3) && out[3] == entry(2));
    // Two files of one number.
    std::fs::copy(&files[0], place.path("a/images/1.jpg")).unwrap();
    refused(&place.refine("run", "r.json", "no.json", &[]), 1, &["1.jpg", "have the same number"]);
}
