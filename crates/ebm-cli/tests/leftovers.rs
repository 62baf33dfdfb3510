//! What killed commands left behind, and files of models with absurd numbers.

use crate::common::program::{command, fails, succeeds};

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use candle_core::{Device, Tensor};
use ebm_nn::import::{load, metadata, save_safetensors, save_safetensors_with};

const REFINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/refiner.safetensors");

/// A folder with a table of `rows` rows.
struct Place(tempfile::TempDir);

impl Place {
    fn new(rows: usize) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let row = |k: usize| format!("{},{}\n", k % 64 * 7 % 64, k % 64 * 3 % 64 + 1);
        let text = format!("x,y\n{}", (0..rows).map(row).collect::<String>());
        std::fs::write(place.path("data.csv"), text).unwrap();
        place
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn fit(&self) -> Vec<String> {
        let (data, run) = (self.path("data.csv"), self.path("run"));
        let line = ["fit", &data, "--target", "y", "--run", &run, "--max-rows", "300"];
        let settings = ["members=1", "training.steps=20", "density.points=16", "density.samples=8"];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        line.into_iter().chain(settings).map(str::to_owned).collect()
    }

    fn unfinished(&self) -> Vec<String> {
        let names = ebm_data::files::names_in(self.0.path()).unwrap();
        names.into_iter().filter(|name| name.starts_with('.')).collect()
    }
}

#[test]
fn a_fit_is_there_as_a_whole_and_the_next_one_says_what_to_do() {
    let place = Place::new(300);
    std::fs::create_dir_all(place.path(".tmp-run/left")).unwrap();
    succeeds(&place.fit());
    assert_eq!(place.unfinished(), Vec::<String>::new());
    fails(&place.fit(), 1, &["holds a fit; give another --run, or remove it"]);
    std::fs::remove_file(place.path("run/report.md")).unwrap();
    fails(&place.fit(), 1, &["holds a fit without its report, which `ebm predict table`"]);
    succeeds(&["eval", "table", &place.path("data.csv"), "--run", &place.path("run"), "--json"]);
    std::fs::remove_file(place.path("run/regressor.json")).unwrap();
    fails(&place.fit(), 1, &["holds no fit; give another --run, or remove it"]);
}

#[test]
fn what_a_killed_prediction_left_goes_with_the_next_one() {
    let place = Place::new(20_000);
    succeeds(&place.fit());
    let (data, run, out) = (place.path("data.csv"), place.path("run"), place.path("out.csv"));
    std::fs::write(&out, "old").unwrap();
    let line = ["predict", "table", &data, "--run", &run, "--out", &out];
    let mut child = command(&line).stderr(Stdio::null()).spawn().unwrap();
    while place.unfinished().is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.unfinished(), [".tmp-out.csv"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "old");
    succeeds(&line);
    assert_eq!(place.unfinished(), Vec::<String>::new());
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 20_001);
}

#[test]
fn parts_of_a_model_replace_older_ones_together() {
    let place = Place::new(0);
    for name in ["m_features.onnx", "m_head.onnx", ".tmp-m_head.onnx"] {
        std::fs::write(place.path(name), "old").unwrap();
    }
    let out = place.path("m.onnx");
    fails(&["export", REFINER, &out], 1, &["--force"]);
    succeeds(&["export", REFINER, &out, "--force"]);
    assert_eq!(place.unfinished(), Vec::<String>::new());
    for name in ["m_features.onnx", "m_head.onnx"] {
        assert!(std::fs::metadata(place.path(name)).unwrap().len() > 1000, "{name}");
    }
}

/// Weights of numbers that are not finite, or far too large, with the hashes of such a file.
#[test]
fn numbers_of_a_fit_that_compute_nothing_are_damage() {
    let place = Place::new(300);
    succeeds(&place.fit());
    let (member, description) = (place.path("run/member-0.safetensors"), place.path("run/regressor.json"));
    let mut text = std::fs::read_to_string(&description).unwrap();
    let path = Path::new(&member);
    let whole = load(path, &Device::Cpu).unwrap();
    for (number, part) in [(f32::NAN, "holds numbers that are not finite"), (3e38, "f = NaN")] {
        let before = ebm_data::fetch::sha256_of(path).unwrap();
        let hostile = |(name, tensor): (&String, &Tensor)| {
            (name.clone(), Tensor::full(number, tensor.shape(), &Device::Cpu).unwrap())
        };
        save_safetensors(path, &whole.iter().map(hostile).collect()).unwrap();
        text = text.replace(&before, &ebm_data::fetch::sha256_of(path).unwrap());
        std::fs::write(&description, &text).unwrap();
        for command in ["predict", "eval"] {
            fails(&[command, "table", &place.path("data.csv"), "--run", &place.path("run")], 3, &[part]);
        }
    }
}

#[test]
fn a_refiner_of_endless_steps_is_refused() {
    let place = Place::new(0);
    let (path, own) = (place.path("refiner.safetensors"), Path::new(REFINER));
    let mut said = metadata(own).unwrap();
    let config = said.get_mut("config").unwrap();
    assert!(config.contains("[ascent]\nsteps = 10\n"), "{config}");
    *config = config.replace("[ascent]\nsteps = 10\n", "[ascent]\nsteps = 100000\n");
    save_safetensors_with(Path::new(&path), &load(own, &Device::Cpu).unwrap(), &said).unwrap();
    let reason = "ascent.steps = 100000; it must be a whole number from 0 to 1000";
    fails(&["export", &path, &place.path("m.onnx")], 3, &[reason]);
}
