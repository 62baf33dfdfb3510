//! Tracking as a user runs it.

use crate::common::{program, schema};
use program::{ebm, in_tree, succeeds, text};

use std::path::Path;

use ebm_base::Key;
use ebm_data::{Image, encode::write_png};
use ebm_synth::videos::{VideoConfig, generate};
use serde_json::{Value, json};

#[track_caller]
fn refused(args: &[&str], part: &str) {
    program::refused(args, &[part]);
}

/// The document that a command prints.
fn document(args: &[&str]) -> Value {
    schema::document(&succeeds(args)[0], &args[..2].join(" "))
}

/// Only a run of the same name goes on.
#[test]
fn what_is_no_run_of_tracking_does_not_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let (empty, run) = (place("empty"), place("tracking-mini-smoke-1"));
    for folder in [&empty, &run] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(run.join("run.txt"), "tracking-mini-smoke").unwrap();
    let report = empty.join("report.md");
    std::fs::write(&report, "mine").unwrap();
    let resume = |task: &str, run: &Path, part: &str| {
        let args = ["reproduce", task, "--scale", "mini", "--smoke", "--resume", text(run)];
        refused(
            &[&args[..], &["--datasets", text(dir.path()), "--weights", text(dir.path())]].concat(),
            part,
        );
    };
    resume("tracking", &empty, "this is no run");
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "mine");
    resume("age", &run, "this is a run of tracking-mini-smoke, not of age-mini-smoke");
}

/// There are two sequences. The second has no result that fits.
#[test]
fn boxes_of_any_tracker_are_scored() {
    let dir = tempfile::tempdir().unwrap();
    let (annotations, results) = (dir.path().join("annotations"), dir.path().join("results"));
    for folder in [&annotations, &results] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(annotations.join("one.txt"), "10,10,20,20\n10,10,20,20\n").unwrap();
    std::fs::write(annotations.join("two.txt"), "5,5,10,10\n5,5,10,10\n").unwrap();
    // The first frame counts as annotated; the second has an overlap of one third.
    std::fs::write(results.join("One.txt"), "10\t10\t20\t20\n20\t10\t20\t20\n").unwrap();
    std::fs::write(results.join("two.txt"), "5,5,10,10\n5,5,10\n").unwrap();
    let args = ["eval", "tracking", "--dataset", "other", "--annotations", text(&annotations), "--results"];
    let report = dir.path().join("report.json");
    let args = [&args[..], &[text(&results), "--report", text(&report)]].concat();
    let table = succeeds(&args)[0].clone();
    assert!(table.contains("average overlap"), "{table}");
    let args = [&args[..], &["--json"]].concat();
    let object = document(&args);
    assert_eq!(object["sequences"], 1);
    let row = &object["rows"][0];
    // Thresholds 0 to 0.95 for the first frame, 0 to 0.3 for the second.
    let expected = (20.0 + 7.0) / 42.0;
    assert!((row["auc"].as_f64().unwrap() - expected).abs() < 1e-9, "{object}");
    assert_eq!((row["op50"].as_f64(), row["op75"].as_f64()), (Some(0.5), Some(0.5)));
    assert_eq!(row["precision"].as_f64(), Some(1.0));
    // A third of the box is right, half a side away.
    let diagnosis = json!({
        "followed": 0.5, "box_wrong": 0.5, "lost": 0.0, "first_lost": null, "times_lost": 0, "times_found": 0,
    });
    let report = schema::document(std::fs::read(&report).unwrap(), "eval tracking");
    let sequence = &report["reports"][0]["rows"][0];
    assert_eq!((&sequence["name"], &sequence["diagnosis"]), (&json!("one"), &diagnosis));
    assert!(object["failed"][0]["reason"].as_str().unwrap().contains("line 2"), "{object}");

    refused(
        &["eval", "tracking", "--dataset", "otb100", "--annotations", "nowhere", "--results", "x"],
        "nowhere",
    );
}

#[test]
fn tracking_is_reproduced_and_a_target_followed() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let (out, datasets, weights) = (place("runs"), place("datasets"), place("weights"));
    let args = ["reproduce", "tracking", "--smoke", "--seeds", "1", "--json", "--set", "repetitions=2"];
    let args = [&args[..], &["--out", text(&out)]].concat();
    let args = [&args[..], &["--datasets", text(&datasets), "--weights", text(&weights)]].concat();
    let object = document(&args);
    let rows = object["rows"].as_array().unwrap();
    let methods: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!((object["scale"].as_str(), methods), (Some("mini"), vec!["atom", "atom_star", "ebm"]));
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row["auc"].as_f64().unwrap())));
    // Each tracker runs twice, and its row is the mean.
    assert!(rows.iter().all(|row| row["runs"] == 2));
    let run = out.join("tracking-mini-smoke-1");
    for file in ["report.md", "results.json", "success.svg", "success.png", "backbone.safetensors"] {
        assert!(run.join(file).is_file(), "{file}");
    }

    // Its trained modules and boxes are kept.
    let video = datasets.join("generated/videos-smoke/test/video_0001");
    let again = [&args[..], &["--resume", text(&run)]].concat();
    let again = document(&again);
    let figures = |object: &Value| -> Vec<Value> {
        object["rows"].as_array().unwrap().iter().map(|row| row["auc"].clone()).collect()
    };
    assert_eq!(figures(&again), figures(&object));
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    // A row of Table 3 as the paper prints it.
    let words = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let quoted = ["", "DaSiamRPN", "59.1", "73.3", "63.8", "73.6", "41.1", "58.4", ""];
    assert!(report.lines().any(|line| words(line) == quoted), "{report}");

    // The trained module on a video of its own.
    let annotation = std::fs::read_to_string(video.join("groundtruth_rect.txt")).unwrap();
    let first = annotation.lines().next().unwrap();
    // The frames are in its folder img, as in OTB's.
    let (frames, ebm_run, pictures) = (video, run.join("ebm-0"), place("pictures"));
    let args = ["track", text(&frames), "--run", text(&ebm_run), "--box", first, "--json"];
    let args = [&args[..], &["--out", text(&pictures), "--pictures", "8", "--density"]].concat();
    let [lines, _] = succeeds(&args);
    let lines: Vec<Value> = lines.lines().map(|line| schema::document(line.as_bytes(), "track")).collect();
    let given: Vec<f64> = first.split(',').map(|number| number.parse().unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["state"], &lines[0]["bbox"]), (20, &json!("given"), &json!(given)));
    for (i, line) in lines.iter().enumerate() {
        assert_eq!((line["frame"].as_u64(), line["bbox"].as_array().unwrap().len()), (Some(i as u64), 4));
        let found = i == 0 || line["state"] != "not_found";
        assert_eq!(line["confidence"].as_f64().is_some_and(|c| (0.0..=1.0).contains(&c)), found, "{line}");
    }
    assert!(lines[1..].iter().any(|line| line["edges_90"]["left"][0].is_array()), "{lines:?}");
    let boxes = std::fs::read_to_string(pictures.join("video_0001.txt")).unwrap();
    assert_eq!(boxes.lines().count(), 20);
    let drawn = ebm_data::files::files_in(&pictures, &["png"]).unwrap();
    // Frames 8 and 16 of 0 to 19.
    assert_eq!(drawn, ["000008.png", "000016.png"].map(|name| pictures.join(name)));

    // What can not be followed says why.
    let with =
        |bbox| ["track", text(&frames), "--run", text(&ebm_run), "--out", text(&pictures), "--box", bbox];
    refused(&with("1,2,3"), "x,y,width,height");
    refused(&with("10,10,0,5"), "sides must be positive");
    refused(&with("9000,10,5,5"), "inside the image");
    // In half precision, beside a copy of its backbone.
    let (weights, packed) = (place("packed"), place("packed/tracker"));
    std::fs::create_dir(&weights).unwrap();
    let backbone = weights.join("backbone.safetensors");
    std::fs::copy(run.join("backbone.safetensors"), &backbone).unwrap();
    let pack = ["weights", "pack", text(&ebm_run), text(&packed), "--weights", text(&backbone)];
    // What a killed program left goes.
    let left = place("packed/.tmp-tracker/left");
    std::fs::create_dir_all(&left).unwrap();
    succeeds(&pack);
    assert!(!left.parent().unwrap().exists());
    refused(&pack, "there already");
    let size = |dir: &Path| std::fs::metadata(dir.join("model.safetensors")).unwrap().len() as f64;
    assert!(size(&packed) < 0.7 * size(&ebm_run));
    let moved = place("moved");
    std::fs::rename(&weights, &moved).unwrap();
    let [lines, _] =
        succeeds(&["track", text(&frames), "--run", text(&moved.join("tracker")), "--box", first]);
    assert_eq!(lines.lines().count(), 20);

    // Frames of another size, and one that is no image any more: what was tracked is kept.
    let broken = place("broken");
    std::fs::create_dir_all(&broken).unwrap();
    for (i, name) in (0..).zip(["a.jpg", "b.jpg", "c.jpg", "d.jpg"]) {
        std::fs::copy(frames.join(format!("img/{:04}.jpg", i + 1)), broken.join(name)).unwrap();
    }
    let kept = |part: &str, count: usize| {
        let out = place(part);
        refused(
            &["track", text(&broken), "--run", text(&ebm_run), "--out", text(&out), "--box", first],
            part,
        );
        assert_eq!(std::fs::read_to_string(out.join("broken.txt")).unwrap().lines().count(), count);
    };
    std::fs::write(broken.join("d.jpg"), b"no image").unwrap();
    kept("after 3 frames", 3);
    std::fs::remove_file(broken.join("c.jpg")).unwrap();
    write_png(&broken.join("c.png"), &Image::filled(20, 10, [0; 3]).unwrap()).unwrap();
    kept("20x10", 2);
    // In the terminal, without a folder for results.
    let args = ["track", text(&broken), "--run", text(&ebm_run), "--box", first, "--samples", "0"];
    let output = ebm(&args);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && lines.lines().count() == 2 && !lines.contains("edges_90"), "{lines}");

    let nowhere = place("nowhere");
    refused(
        &["track", text(&nowhere), "--run", text(&run), "--out", "x", "--box", "1,1,9,9"],
        "model.safetensors",
    );
    refused(
        &["track", text(&nowhere), "--run", text(&ebm_run), "--out", text(&pictures), "--box", "1,1,9,9"],
        "folder with the frames",
    );
}

#[test]
fn the_tracker_of_the_program_follows_a_target() {
    let dir = tempfile::tempdir().unwrap();
    let config = VideoConfig { frames: 24, ..VideoConfig::default() };
    let video = generate(dir.path(), &config, 1, Key::new(4)).unwrap().remove(0);
    let frames = video.frames.path(0).unwrap().parent().unwrap().to_owned();
    let bbox = video.boxes[0].map(|number| number.to_string()).join(",");
    let [lines, _] = succeeds(&["track", text(&frames), "--box", &bbox]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mean = |boxes: &mut dyn Iterator<Item = [f64; 4]>| {
        let overlaps = boxes.zip(&video.boxes).map(|(bbox, truth)| ebm_eval::tracking::overlap(&bbox, truth));
        overlaps.sum::<f64>() / video.boxes.len() as f64
    };
    let numbers = |line: &Value| -> Vec<f64> {
        line["bbox"].as_array().unwrap().iter().filter_map(Value::as_f64).collect()
    };
    let followed = mean(&mut lines.iter().map(|line| numbers(line).try_into().unwrap()));
    let left = mean(&mut std::iter::repeat(video.boxes[0]));
    assert!(
        lines.len() == 24 && followed > 0.55 && followed > left + 0.1,
        "{followed}, left where it was {left}"
    );
    assert!(lines[1..].iter().any(|line| line["edges_90"]["top"].is_array()));
}

/// The bands of the repository's tracker, calibrated on a video and measured on the same: they hold nine of ten edges.
#[test]
fn bands_are_calibrated_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let own = in_tree("weights");
    let (videos, run) = (place("videos"), place("weights/tracker"));
    std::fs::create_dir_all(&run).unwrap();
    for file in ["refiner.safetensors", "tracker/model.safetensors"] {
        std::fs::copy(own.join(file), place("weights").join(file)).unwrap();
    }
    succeeds(&["data", "videos", "--out", text(&videos), "--count", "1", "--frames", "24", "--seed", "4"]);
    let (sequences, model) = (text(&videos).to_owned(), run.join("model.safetensors"));
    let size = std::fs::metadata(&model).unwrap().len();

    let calibrate =
        ["calibrate", "tracker", "--run", text(&run), "--sequences", &sequences, "--samples", "64"];
    let [printed, said] = succeeds(&calibrate);
    assert_eq!(printed.trim(), text(&model));
    assert!(
        said.contains("bands are multiplied by") && said.contains("temperature 16: the four bands"),
        "{said}"
    );
    // In half precision, as before.
    assert!(std::fs::metadata(&model).unwrap().len() < size + 1000);

    let out = place("boxes");
    let eval = ["eval", "tracking", "--run", text(&run), "--dataset", "other", "--sequences", &sequences];
    let eval =
        [&eval[..], &["--out", text(&out), "--repetitions", "1", "--bands", "--samples", "64"]].concat();
    let report = place("report.json");
    let eval = [&eval[..], &["--report", text(&report)]].concat();
    let table = succeeds(&eval)[0].clone();
    assert!(table.contains("Bands: held in followed frames") && !table.contains("deviation"), "{table}");
    let object = schema::document(std::fs::read(&report).unwrap(), "eval tracking");
    let bands = &object["band_coverage"][0];
    assert!(bands["frames"].as_u64().unwrap() >= 9 && bands["followed"].as_f64() > Some(0.3), "{bands}");
    for edge in 0..4 {
        assert!(bands["held_followed"][edge].as_f64().unwrap() >= 0.9, "{bands}");
        assert!(bands["widths"][edge].as_f64().unwrap() > 0.0, "{bands}");
    }
    refused(&[&calibrate[..], &["--backbone", text(&model)]].concat(), "model.safetensors");
    // A run that was copied without what it stands on.
    std::fs::remove_file(place("weights/refiner.safetensors")).unwrap();
    refused(&calibrate, "give its path: --backbone");
}

/// The supplement's five proposals, from training to table.
#[test]
fn the_ablation_of_sigma_is_reproduced() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let (out, datasets, weights) = (place("runs"), place("datasets"), place("weights"));
    let args = ["reproduce", "tracking", "--ablation", "sigma", "--smoke", "--seeds", "1", "--json", "--out"];
    let args =
        [&args[..], &[text(&out), "--datasets", text(&datasets), "--weights", text(&weights)]].concat();
    let object = document(&args);
    let sigmas: Vec<&str> =
        object["rows"].as_array().unwrap().iter().map(|row| row["method"].as_str().unwrap()).collect();
    let expected = ["0.05", "0.01_0.1", "0.03_0.3", "0.05_0.5", "0.07_0.7"];
    assert_eq!(sigmas, expected.map(|sigmas| format!("sigma-{sigmas}")));
    let run = out.join("tracking-sigma-mini-smoke-1");
    let saved = run.join("sigma-0.03_0.3-0/model.safetensors");
    let saved = ebm_train::ModelMetadata::read(&saved).unwrap().unwrap();
    assert_eq!((saved.task.as_str(), saved.method.as_str()), ("tracking", "sigma-0.03_0.3"));
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    let row = report.lines().find(|line| line.contains("0.05, 0.5")).unwrap();
    assert!(["79.90", "48.71", "64.10"].iter().all(|figure| row.contains(figure)), "{row}");
}

/// Squares of one colour on another, with their boxes.
fn annotated(dir: &Path, name: &str) -> String {
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for id in 1..=3 {
        let file_name = format!("{name}-{id}.png");
        let mut image = Image::filled(96, 80, [30, 60 * id as u8, 90]).unwrap();
        for row in 20..60 {
            image.pixels[3 * (row * 96 + 30)..][..3 * 40].copy_from_slice(&[220, 20, 20].repeat(40));
        }
        write_png(&dir.join(&file_name), &image).unwrap();
        images.push(json!({"id": id, "file_name": file_name, "width": 96, "height": 80}));
        let bbox = [30, 20, 40, 40];
        annotations.push(
            json!({"id": id, "image_id": id, "category_id": 1, "bbox": bbox, "area": 1600, "iscrowd": 0}),
        );
    }
    let categories = json!([{"id": 1, "name": "square"}]);
    let file = json!({"images": images, "annotations": annotations, "categories": categories});
    let path = dir.join(format!("{name}.json"));
    std::fs::write(&path, file.to_string()).unwrap();
    format!("{}={}", path.display(), dir.display())
}

#[test]
fn box_modules_learn_from_still_images_and_are_measured_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (train, held_out) = (annotated(dir.path(), "train"), annotated(dir.path(), "val"));
    let out = dir.path().join("runs");
    let args = ["reproduce", "tracking", "--scale", "stills", "--smoke", "--seeds", "1", "--json"];
    let place = ["--out", text(&out), "--datasets", text(dir.path()), "--weights", text(dir.path())];
    refused(&[&args[..], &place].concat(), "give --stills and --held-out");
    let args = [&args[..], &place, &["--stills", &train, "--held-out", &held_out]].concat();
    let object = document(&args);
    let rows = object["held_out"].as_array().unwrap();
    let stage = |row: &Value| (row["method"].as_str().unwrap().to_owned(), row["pairs"].as_u64().unwrap());
    let each = |pairs| ["atom", "atom_star", "ebm"].map(|method| (method.to_owned(), pairs));
    assert_eq!(rows.iter().map(stage).collect::<Vec<_>>(), [each(4), each(12)].concat());
    // All methods begin with the same boxes.
    assert!(rows.iter().all(|row| row["before"] == rows[0]["before"] && row["set"] == "val"));
    let run = out.join("tracking-stills-smoke-1");
    for file in ["held_out.csv", "report.md", "ebm-0/model.safetensors", "ebm-0-4/model.safetensors"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    // Begun anew from its checkpoints it measures the last modules once more, and finds the same.
    let record = std::fs::read_to_string(run.join("held_out.csv")).unwrap();
    let (kept, _) = record.split_at(record.find("val,atom,0,12").unwrap());
    std::fs::write(run.join("held_out.csv"), kept).unwrap();
    let again = document(&[&args[..], &["--resume", text(&run)]].concat());
    assert_eq!(again["held_out"], object["held_out"]);
}
