//! Age and head pose as a user runs them.

use crate::common::{faces, program, schema};
use program::{BIWI, ebm, files_in, in_tree, json_in, said, succeeds, text};

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the JSON output of a command that must succeed.
fn json(args: &[&str]) -> Value {
    schema::document(&succeeds(args)[0], &args[..2].join(" "))
}

/// Runs `args`, which must print nothing and fail with an error that contains `part`.
#[track_caller]
fn refused(args: &[&str], part: &str) {
    assert!(program::refused(args, &[part]).stdout.is_empty());
}

/// The networks of `run` on images with ages.
fn eval_age(run: &Path, images: &Path, split: &Path) -> Value {
    json(&["eval", "age", "--run", text(run), "--images", text(images), "--split", text(split), "--json"])
}

/// A reproduction of the smallest size in `root` with `more` arguments, and its run directory.
fn reproduce(root: &Path, task: &str, more: &[&str]) -> (Value, PathBuf) {
    let place = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let (out, datasets, weights) = (place("runs"), place("datasets"), place("weights"));
    let places = ["--out", &out, "--datasets", &datasets, "--weights", &weights];
    let args = ["reproduce", task, "--smoke", "--seeds", "2", "--json"];
    let object = json(&[&args[..], &places[..], more].concat());
    (object, root.join("runs").join(format!("{task}-mini-smoke-1")))
}

#[test]
fn age_is_reproduced_scored_again_and_predicted() {
    let dir = tempfile::tempdir().unwrap();
    let (object, run) = reproduce(dir.path(), "age", &["--ablation"]);
    assert_eq!((object["scale"].as_str(), object["split"].as_str()), (Some("mini"), Some("test")));
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (2 * 8 + 3));
    assert!(rows.iter().all(|row| row["mae"].as_f64().unwrap().is_finite() && row["method"].is_string()));
    assert_eq!(rows.iter().filter(|row| row["refined"] == true && row["seed"] == 1).count(), 8);
    assert_eq!(object["ablation"].as_array().unwrap().len(), 4);
    // A run that was moved goes on where it is, with the trunk that moved with it.
    let moved = dir.path().join("moved");
    std::fs::rename(&run, &moved).unwrap();
    std::fs::remove_file(moved.join("results.json")).unwrap();
    let (again, _) = reproduce(dir.path(), "age", &["--ablation", "--resume", text(&moved)]);
    let errors = |object: &Value| -> Vec<Value> {
        object["rows"].as_array().unwrap().iter().map(|row| row["mae"].clone()).collect()
    };
    assert_eq!(errors(&again), errors(&object));
    assert!(moved.join("results.json").is_file() && !run.exists());
    // And so it is found in other places once more.
    std::fs::rename(&moved, &run).unwrap();
    for file in ["report.md", "densities.png", "trunk.safetensors", "ebm-1/model.safetensors"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    // The same numbers in all files: after the header a row for each, which ends in MAE and NLL.
    let lines = |file: &str| -> Vec<String> {
        std::fs::read_to_string(run.join(file)).unwrap().lines().skip(1).map(str::to_owned).collect()
    };
    let table = lines("results.csv");
    assert_eq!(table.len(), rows.len());
    for (line, row) in table.iter().zip(rows) {
        let nll = row["nll"].as_f64().map_or_else(String::new, |nll| format!("{nll:.4}"));
        let key = format!("{},{},{}", row["method"].as_str().unwrap(), row["refined"], row["seed"]);
        let figures = format!(",mini,test,24,{key},{:.4},{nll}", row["mae"].as_f64().unwrap());
        assert!(line.ends_with(&figures), "{line} {figures}");
    }
    for (line, row) in lines("ablation.csv").iter().zip(object["ablation"].as_array().unwrap()) {
        assert!(line.contains(&format!(",{:.4},", row["mae"].as_f64().unwrap())), "{line} {row}");
    }
    let written = json_in(&run.join("results.json"));
    assert_eq!(written, object);

    // The same networks on the same images, found through the files that a user would have.
    let test = dir.path().join("datasets/generated/age/test-64-24");
    let (images, split) = (test.join("images"), test.join("split.csv"));
    let scored = eval_age(&run, &images, &split);
    assert_eq!(scored["images"], 24);
    for row in rows {
        let same = |other: &&Value| ["method", "refined", "seed"].iter().all(|key| other[key] == row[key]);
        let other = scored["rows"].as_array().unwrap().iter().find(same).unwrap();
        assert!(
            (other["mae"].as_f64().unwrap() - row["mae"].as_f64().unwrap()).abs() < 1e-3,
            "{row} {other}"
        );
    }
    // With other images to calibrate on.
    let validation = dir.path().join("datasets/generated/age/validation-64-16");
    let (others, list) = (validation.join("images"), validation.join("split.csv"));
    let given =
        ["eval", "age", "--run", text(&run), "--images", text(&images), "--split", text(&split), "--json"];
    let held_out = ["--validation", text(&list), "--validation-images", text(&others)];
    let calibrated = json(&[&given[..], &held_out].concat());
    assert_eq!(calibrated["rows"], scored["rows"]);
    for row in calibrated["calibration"].as_array().unwrap() {
        let same = |other: &&Value| ["method", "seed"].iter().all(|key| other[key] == row[key]);
        let other = object["calibration"].as_array().unwrap().iter().find(same).unwrap();
        assert!(
            (other["crps"].as_f64().unwrap() - row["crps"].as_f64().unwrap()).abs() < 1e-3,
            "{row} {other}"
        );
    }
    let one =
        json(&["eval", "age", "--run", text(&run.join("gaussian-1")), "--images", text(&images), "--json"]);
    let methods: Vec<&str> =
        one["rows"].as_array().unwrap().iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["gaussian", "gaussian", "ebm_mean", "ebm_median", "ebm_mode"]);

    let faces = files_in(&images);
    let pictures = dir.path().join("pictures");
    let line = json(&["predict", "age", text(&faces[0]), "--run", text(&run), "--out", text(&pictures)]);
    let age = &line["predictions"][0];
    assert!(age["prediction"].as_f64().unwrap().is_finite());
    assert!(!age["region"].as_array().unwrap().is_empty() && line["unit"] == "years", "{line}");
    assert!(pictures.join(faces[0].file_stem().unwrap()).with_extension("png").is_file());

    // The baseline that is asked for is the one that is refined, and one that is not there is refused.
    let initial = |baseline: &str| {
        let args = ["predict", "age", text(&faces[0]), "--run", text(&run), "--baseline", baseline];
        json(&args)["predictions"][0]["initial"].clone()
    };
    assert_eq!(initial("direct_l2"), age["initial"]);
    assert_ne!(initial("cao"), age["initial"]);
    let mode = initial("none");
    for unknown in ["foo", "ebm", "direct"] {
        let args = ["predict", "age", text(&faces[0]), "--run", text(&run), "--baseline", unknown];
        let names =
            "cao, direct_huber, direct_l2, gaussian, laplace, niu, softmax_ce_l2, softmax_ce_l2_var, none";
        refused(&args, names);
    }
    // One network's run: it is the baseline. An energy model's has none, and begins at the mode.
    let alone = |run: &str| {
        let run = dir.path().join("runs/age-mini-smoke-1").join(run);
        json(&["predict", "age", text(&faces[0]), "--run", text(&run)])["predictions"][0]["initial"].clone()
    };
    assert_eq!((alone("cao-0"), alone("ebm-0")), (initial("cao"), mode));

    // A box: the crop about it is what is looked at; the whole image is a crop of its own.
    let boxed = |bbox: &str| {
        json(&["predict", "age", text(&faces[0]), "--run", text(&run), "--box", bbox])["predictions"].clone()
    };
    let third = 64.0 / 3.0;
    assert_eq!(
        boxed(&format!("{},{},{},{}", third / 2.0, third / 2.0, 2.0 * third, 2.0 * third)),
        line["predictions"]
    );
    assert_ne!(boxed("0,0,20,20"), line["predictions"]);
    let with_box = |images: &[&str], bbox: &str, reason: &str| {
        refused(&[&["predict", "age", "--run", text(&run), "--box", bbox], images].concat(), reason);
    };
    with_box(&[text(&faces[0])], "70,0,20,20", "no pixel of the image");
    with_box(&[text(&faces[0])], "1,2,3", "write x,y,width,height");
    with_box(&[text(&faces[0]), text(&faces[1])], "0,0,20,20", "--box applies to one image, and 2 are given");
    refused(&["predict", "head-pose", text(&faces[0])], "give --run");

    // Packed in half precision, with the backbone once: nearly the same numbers.
    let packed = dir.path().join("packed");
    succeeds(&["weights", "pack", text(&run), text(&packed)]);
    let half = eval_age(&packed, &images, &split);
    assert_eq!(half["rows"].as_array().unwrap().len(), rows.len());
    for (row, other) in half["rows"].as_array().unwrap().iter().zip(scored["rows"].as_array().unwrap()) {
        assert_eq!(row["method"], other["method"]);
        let [mae, whole] = [row, other].map(|row| row["mae"].as_f64().unwrap());
        // CORAL counts probabilities above one half: one that lies there moves its mean over 24 faces by whole years.
        let tolerance = if row["method"] == "cao" { 0.2 } else { 0.05 };
        assert!((mae - whole).abs() < tolerance, "{row} {other}");
    }
    refused(&["weights", "pack", text(&run), text(&packed)], "is there already");

    let run = text(&run);
    refused(&["predict", "head-pose", text(&faces[0]), "--run", run], "not for the head pose");
    refused(&["predict", "age", text(&split), "--run", run], "split.csv");
    refused(
        &["eval", "age", "--run", text(dir.path()), "--images", text(&images)],
        "no run of a face network",
    );
    std::fs::write(&split, ",file,age\n0,one.png,3\n").unwrap();
    refused(&["eval", "age", "--run", run, "--images", text(&images), "--split", text(&split)], "split.csv");
    // What was generated is not there as it was: said, and left alone.
    let message = ["reproduce", "age", "--smoke", "--out"];
    let datasets = dir.path().join("datasets");
    refused(
        &[&message[..], &[text(&dir.path().join("more")), "--datasets", text(&datasets)]].concat(),
        "cut short",
    );
}

#[test]
fn head_pose_is_reproduced_and_predicted() {
    let dir = tempfile::tempdir().unwrap();
    let (object, run) = reproduce(dir.path(), "head-pose", &[]);
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 2 * 6);
    for row in rows {
        let coordinates: Vec<f64> =
            row["mae_by_coordinate"].as_array().unwrap().iter().map(|mae| mae.as_f64().unwrap()).collect();
        assert_eq!(coordinates.len(), 3);
        assert!((coordinates.iter().sum::<f64>() / 3.0 - row["mae"].as_f64().unwrap()).abs() < 1e-9);
    }
    let face = dir.path().join("face.png");
    let image = ebm_data::Image::filled(80, 70, [90, 120, 150]).unwrap();
    ebm_data::encode::write_png(&face, &image).unwrap();
    let pictures = dir.path().join("pictures");
    let line = json(&["predict", "head-pose", text(&face), "--run", text(&run), "--out", text(&pictures)]);
    for name in ["yaw", "pitch", "roll"] {
        assert!(
            line["predictions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|p| p["coordinate"] == name && p["region"].is_array()),
            "{line}"
        );
    }
    assert!(pictures.join("face.png").is_file());
    refused(&["eval", "head-pose", "--run", text(&run), "--npz", text(&face)], "face.png");
    // Poses of a list, and which columns it has to have.
    let listed = |header: &str| {
        let split = dir.path().join("poses.csv");
        std::fs::write(&split, format!("{header}\nface.png,10,-5,2\n")).unwrap();
        split
    };
    let given = ["eval", "head-pose", "--run", text(&run), "--json", "--images", text(dir.path()), "--split"];
    let scored = json(&[&given[..], &[text(&listed("file,yaw,pitch,roll"))]].concat());
    assert_eq!((scored["images"].as_u64(), scored["dataset"].as_str()), (Some(1), Some("poses")));
    refused(&[&given[..], &[text(&listed("file,pan,tilt,roll"))]].concat(), "no column \"yaw\"");

    // The error of each angle, in the report and on other faces.
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    let line = report.lines().find(|line| line.starts_with("| method") && line.contains("yaw")).unwrap();
    let cells: Vec<&str> = line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["method", "yaw", "pitch", "roll", "paper: yaw", "pitch", "roll"]);
    // The supplement's Softmax – CE, L2, Var, refined.
    let line = report.lines().find(|line| line.contains("Softmax – CE, L2, Var, refined")).unwrap();
    assert!(
        line.contains("2.76 ± 0.10") && line.contains("3.74 ± 0.09") && line.contains("2.83 ± 0.10"),
        "{line}"
    );
    let args = ["eval", "head-pose", "--run", text(&run), "--npz", BIWI];
    let scored = json(&[&args[..], &["--json"]].concat());
    assert_eq!((scored["images"].as_u64(), scored["rows"].as_array().unwrap().len()), (Some(12), 2 * 2 * 6));
    let [table, _] = succeeds(&args);
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let mut lines = table.lines();
    let header = cells(lines.next().unwrap());
    assert_eq!(header, ["method", "seed", "refined", "MAE", "yaw", "pitch", "roll"]);
    for (line, row) in lines.skip(1).zip(scored["rows"].as_array().unwrap()) {
        let angles = row["mae_by_coordinate"]
            .as_array()
            .unwrap()
            .iter()
            .map(|x| format!("{:.3}", x.as_f64().unwrap()));
        assert_eq!(cells(line)[4..], angles.collect::<Vec<_>>());
    }
}

/// Writes photographs in the layout of Pointing'04, and a MobileFaceNet that has learnt nothing.
fn pointing(root: &Path) {
    faces::pointing04(&root.join("datasets"), &[-75, -45, 0, 45, 75]);
    let store = ebm_nn::params::ParamStore::new(ebm_base::Key::new(1));
    let vb = store.var_builder(candle_core::DType::F32, &candle_core::Device::Cpu);
    ebm_nn::mobilefacenet::MobileFaceNet::new(ebm_nn::mobilefacenet::MobileFaceNet::NORM, &vb).unwrap();
    let weights = root.join("weights/mobilefacenet.safetensors");
    std::fs::create_dir_all(weights.parent().unwrap()).unwrap();
    // Its normalisation has seen nothing: without these its numbers would grow from layer to layer.
    let mut tensors = store.tensors().unwrap();
    for (_, tensor) in tensors.iter_mut().filter(|(name, _)| name.ends_with("batchnorm.weight")) {
        *tensor = (&*tensor * 0.5).unwrap();
    }
    ebm_nn::import::save_safetensors(&weights, &tensors).unwrap();
}

#[test]
fn pan_and_tilt_are_measured_in_folds_over_people() {
    let dir = tempfile::tempdir().unwrap();
    pointing(dir.path());
    let more = ["--scale", "pointing", "--set", "input.size=48", "--set", "density.num_points=15"];
    let (object, _) = reproduce(dir.path(), "head-pose", &more);
    let run = dir.path().join("runs/head-pose-pointing-smoke-1");
    assert_eq!(object["coordinates"], serde_json::json!(["pan", "tilt"]));
    assert_eq!((object["images"].as_u64(), object["step_lengths"].as_array().unwrap().len()), (Some(30), 5));
    // Five folds, two seeds: six baselines before and after, three estimates of the energy model; five
    // densities of two coordinates.
    let count = |key: &str| object[key].as_array().unwrap().len();
    assert_eq!((count("rows"), count("calibration")), (5 * 2 * 15, 5 * 2 * 5 * 2));
    let lines = |file: &str| std::fs::read_to_string(run.join(file)).unwrap().lines().count();
    assert_eq!((lines("results.csv"), lines("calibration.csv")), (1 + 150, 1 + 100));
    for file in ["report.md", "densities.png", "fold-0/split.json", "fold-4/ebm-1/model.safetensors"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let face = dir.path().join("datasets/pointing04/Person01/person01100+15-75.png");
    let fold = run.join("fold-2");
    let line = json(&["predict", "head-pose", text(&face), "--run", text(&fold)]);
    assert_eq!(line["predictions"].as_array().unwrap().len(), 2);
    // To choose by: nothing of the people of the results is looked at.
    let (chosen, _) = reproduce(dir.path(), "head-pose", &[&more[..], &["--on-validation"]].concat());
    let rows = chosen["rows"].as_array().unwrap().len();
    assert_eq!((chosen["images"].as_u64(), rows), (Some(5 * 10), 150));
    assert_ne!(chosen["rows"], object["rows"]);
}

/// No run has to be named, and the repository's networks can be scored as any run's.
#[test]
fn the_repositorys_networks_tell_ages() {
    let dir = tempfile::tempdir().unwrap();
    let ages = ebm_synth::faces::generate_ages(dir.path(), 64, 4, ebm_base::Key::new(1)).unwrap();
    let face = files_in(&ages.images).remove(0);
    let [printed, message] = succeeds(&["predict", "age", text(&face)]);
    assert!(message.contains("the whole image is taken"), "{message}");
    let line = schema::document(&printed, "predict age");
    let age = line["predictions"][0]["prediction"].as_f64().unwrap();
    assert!((15.0..80.0).contains(&age) && line["unit"] == "years", "{line}");
    let scored = eval_age(&in_tree("weights/age"), &ages.images, &ages.split);
    assert_eq!(scored["rows"].as_array().unwrap().len(), 2 * 8 + 3);
}

/// Settings of one's own, with figures that the first row misses.
const WISHES: &str = r#"
extends = "age_mini"
methods = [
    { key = "direct_l2", title = "L2", published = [4.81, 0.02], baseline = { kind = "direct", dim = 1, loss = "l2" } },
]
head.hidden = 16
energy.objective.num_samples = 8
generated = { train = 32, validation = 8, test = 8 }
[training]
epochs = 1.0
batch_size = 16
[energy.training]
epochs = 1.0
batch_size = 16
[frozen]
views = 1
trunk.training.epochs = 1.0
[expected]
command = "ebm reproduce age --config wishes.toml"
time = "not measured"
source = "a wish"
rows = [
    { of = { method = "direct_l2", refined = false }, mae = [0.0, 0.001] },
    { of = { method = "ebm_mean", refined = false }, mae = [0.0, 1000.0] },
    { of = { method = "gaussian", refined = false }, mae = [0.0, 0.001] },
]
"#;

#[test]
fn a_missed_figure_is_named_and_has_an_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(place("wishes.toml"), WISHES).unwrap();
    let (config, out, datasets) = (place("wishes.toml"), place("runs"), place("data"));
    let args = ["reproduce", "age", "--scale", "mini", "--seeds", "1", "--check", "--json"];
    let places = ["--config", &config, "--out", &out, "--datasets", &datasets];
    let output = ebm(&[&args[..], &places].concat());
    let errors = said(&output);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    let last = errors.lines().last().unwrap();
    let start = "error: expected: 1 of 2 figures within their tolerances; missed: method direct_l2, refined false: mae ";
    assert!(last.starts_with(start) && last.ends_with(", expected 0 ± 0.001"), "{last}");
    let expected = &schema::document(&output.stdout, "reproduce age")["expected"];
    assert_eq!(
        (expected["compared"].as_u64(), expected["missed"].as_u64()),
        (Some(2), Some(1)),
        "{expected}"
    );
}
