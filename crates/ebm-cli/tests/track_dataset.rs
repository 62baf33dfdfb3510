//! `ebm eval tracking --run`: a tracker over tiny datasets in each published layout, and what their servers
//! expect of it.

use crate::common::program::{refused, succeeds, text};

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_data::sequences::Rect;
use ebm_nn::import::save_safetensors;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_synth::videos::{VideoConfig, generate};
use ebm_testing::files;
use ebm_track::box_module::{BoxModule, BoxModuleConfig};
use ebm_track::saved::SavedConfig;
use ebm_track::tracker::TrackerConfig;
use ebm_track::{Backbone, Refinement, StepCoordinates};
use serde_json::Value;

/// Frames of a sequence, but of OTB's.
const COUNT: usize = 4;
/// Frames of OTB's Deer, the shortest of its sequences; its reader takes no other number.
const DEER: usize = 71;

struct Case {
    dir: tempfile::TempDir,
    /// JPEG files and their boxes.
    frames: Vec<PathBuf>,
    boxes: Vec<Rect>,
}

impl Case {
    /// A tracker whose weights are drawn, in `runs/ebm-0`, and a video.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (device, runs) = (Device::Cpu, dir.path().join("runs"));
        let store = ParamStore::new(Key::new(1));
        let config = ResNetConfig {
            width: 8,
            layers: [1, 1, 1, 0],
            ..ResNetConfig::resnet18(Norm::Frozen { eps: 1e-5 })
        };
        ResNet::new(&config, store.var_builder(DType::F32, &device)).unwrap();
        std::fs::create_dir_all(runs.join("ebm-0")).unwrap();
        save_safetensors(&runs.join("backbone.safetensors"), &store.tensors().unwrap().into_iter().collect())
            .unwrap();
        let sizes =
            BoxModuleConfig::atom(Backbone::of_store(&store, "", &device).unwrap().channels()).narrowed(32);
        let store = ParamStore::new(Key::new(2));
        BoxModule::new(&sizes, store.var_builder(DType::F32, &device)).unwrap();
        let saved = SavedConfig {
            method: "ebm".to_owned(),
            seed: 0,
            backbone: PathBuf::from("backbone.safetensors"),
            box_module: sizes,
            refinement: Refinement {
                coordinates: StepCoordinates::Relative,
                steps: 2,
                step_length: [2e-4, 1e-3],
            },
            density: None,
            tracker: TrackerConfig::default(),
        };
        saved.save(&store.tensors().unwrap(), &runs.join("ebm-0")).unwrap();
        let video = VideoConfig { frames: 24, ..VideoConfig::default() };
        let video = generate(&dir.path().join("videos"), &video, 1, Key::new(3)).unwrap().remove(0);
        let frames = (0..COUNT).map(|i| video.frames.path(i).unwrap()).collect();
        Self { dir, frames, boxes: video.boxes[..COUNT].to_vec() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, file: &str, text: &str) {
        files::write(self.dir.path(), file, text);
    }

    /// Writes the frames to `folder`, numbered from `first` with `digits` digits.
    fn frames(&self, folder: &str, first: usize, digits: usize) {
        self.many_frames(folder, first, digits, COUNT);
    }

    /// Writes `count` frames, repeating them.
    fn many_frames(&self, folder: &str, first: usize, digits: usize, count: usize) {
        let folder = self.path(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (i, frame) in self.frames.iter().cycle().take(count).enumerate() {
            std::fs::copy(frame, folder.join(format!("{:0digits$}.jpg", first + i))).unwrap();
        }
    }

    /// So many boxes, of the frames there.
    fn list(&self, count: usize) -> String {
        self.boxes.iter().cycle().take(count).map(|[x, y, w, h]| format!("{x},{y},{w},{h}\n")).collect()
    }

    /// The arguments for two runs over `dataset` in `root`.
    fn track(&self, dataset: &str, root: &str, more: &[&str]) -> Vec<String> {
        let [run, sequences] = ["runs/ebm-0", root].map(|name| self.path(name));
        let out = self.path(&format!("out-{dataset}"));
        let args = ["eval", "tracking", "--dataset", dataset, "--json", "--out", text(&out)];
        let twice = ["--repetitions", "2", "--workers", "2"];
        let paths = ["--run", text(&run), "--sequences", text(&sequences)];
        [&args[..], &twice, &paths, more].concat().into_iter().map(str::to_owned).collect()
    }

    /// Both outputs of these runs.
    fn tracked(&self, dataset: &str, root: &str) -> [String; 2] {
        succeeds(&self.track(dataset, root, &[]))
    }

    /// The files below a folder.
    fn below(&self, folder: &str) -> BTreeMap<String, String> {
        let files = files::below(&self.path(folder)).into_iter();
        files.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
    }
}

fn names(files: &BTreeMap<String, String>) -> Vec<&str> {
    files.keys().map(String::as_str).collect()
}

/// A folder for each run with boxes and times, the first line the annotated box.
fn assert_boxes(case: &Case, files: &BTreeMap<String, String>, name: &str, count: usize) {
    let expected: Vec<String> = [1, 2]
        .iter()
        .flat_map(|run| ["", "_time"].map(|what| format!("run_{run:03}/{name}{what}.txt")))
        .collect();
    assert_eq!(names(files), expected);
    let first = case.boxes[0].map(|number| number.to_string()).join(",");
    for file in ["run_001", "run_002"].map(|run| &files[&format!("{run}/{name}.txt")]) {
        assert_eq!((file.lines().count(), file.lines().next()), (count, Some(&*first)));
    }
}

fn score(outputs: &[String; 2]) -> Value {
    serde_json::from_str(&outputs[0]).unwrap()
}

#[test]
fn datasets_with_annotations_are_tracked_and_scored() {
    let case = Case::new();
    let all = case.list(COUNT);
    case.many_frames("otb/Deer/img", 1, 4, DEER);
    case.write("otb/Deer/groundtruth_rect.txt", &case.list(DEER));
    case.frames("uav/data_seq/UAV123/bike1", 1, 6);
    case.write("uav/anno/UAV123/bike1.txt", &all);
    case.frames("lasot/airplane/airplane-1/img", 1, 8);
    case.write("lasot/airplane/airplane-1/groundtruth.txt", &all);
    for file in ["full_occlusion", "out_of_view"] {
        case.write(&format!("lasot/airplane/airplane-1/{file}.txt"), "0,0,0,0");
    }
    for (dataset, root, name, count) in [
        ("otb100", "otb", "Deer", DEER),
        ("uav123", "uav", "bike1", COUNT),
        ("lasot", "lasot", "airplane-1", COUNT),
    ] {
        let object = score(&case.tracked(dataset, root));
        assert_eq!((&object["runs"], &object["sequences"]), (&2.into(), &1.into()), "{object}");
        assert_boxes(&case, &case.below(&format!("out-{dataset}/boxes")), name, count);
    }

    let name = "GOT-10k_Val_000001";
    case.frames(&format!("got10k/val/{name}"), 1, 8);
    case.write("got10k/val/list.txt", &format!("{name}\n"));
    case.write(&format!("got10k/val/{name}/groundtruth.txt"), &all);
    case.write(&format!("got10k/val/{name}/absence.label"), &"0\n".repeat(COUNT));
    case.write(&format!("got10k/val/{name}/cover.label"), &"8\n".repeat(COUNT));
    let object = score(&case.tracked("got10k", "got10k"));
    assert_eq!((&object["runs"], &object["frames"]), (&2.into(), &(COUNT - 1).into()), "{object}");
    let files = case.below("out-got10k/submission");
    assert_eq!(names(&files), ["001", "002", "time"].map(|what| format!("{name}/{name}_{what}.txt")));
    let first = case.boxes[0].map(|number| format!("{number:.6}")).join(",");
    assert_eq!(files[&format!("{name}/{name}_002.txt")].lines().next(), Some(&*first));
    // A column for each run.
    let times = &files[&format!("{name}/{name}_time.txt")];
    assert!(times.lines().count() == COUNT && times.lines().all(|line| line.split(',').count() == 2));
}

#[test]
fn test_sets_whose_boxes_a_server_keeps_are_written_for_it() {
    let case = Case::new();
    let name = "GOT-10k_Test_000001";
    case.frames(&format!("got10k/test/{name}"), 1, 8);
    case.write("got10k/test/list.txt", &format!("{name}\n"));
    case.write(&format!("got10k/test/{name}/groundtruth.txt"), &case.list(1));
    let [printed, said] = case.tracked("got10k-test", "got10k");
    assert!(printed.is_empty() && said.contains("server") && said.contains("three runs"), "{said}");
    let files = case.below("out-got10k-test/submission");
    assert_eq!(names(&files), ["001", "002", "time"].map(|what| format!("{name}/{name}_{what}.txt")));
    assert_eq!(files[&format!("{name}/{name}_001.txt")].lines().count(), COUNT);

    for video in ["0-6LB4FqxoE_0", "07Ysk1C0ZX0_0"] {
        case.frames(&format!("trackingnet/TEST/frames/{video}"), 0, 1);
        case.write(&format!("trackingnet/TEST/anno/{video}.txt"), &case.list(1));
    }
    case.tracked("trackingnet", "trackingnet");
    let first = case.boxes[0].map(|number| format!("{number:.2}")).join(",");
    for run in [1, 2] {
        let files = case.below(&format!("out-trackingnet/submission/run_{run:03}"));
        assert_eq!(names(&files), ["0-6LB4FqxoE_0.txt", "07Ysk1C0ZX0_0.txt"]);
        assert!(
            files.values().all(|text| text.lines().count() == COUNT && text.lines().next() == Some(&*first))
        );
    }
}

#[test]
fn an_interrupted_dataset_goes_on_and_another_tracker_is_refused() {
    let case = Case::new();
    for name in ["Deer", "Man"] {
        case.frames(&format!("own/{name}/img"), 1, 5);
        case.write(&format!("own/{name}/groundtruth_rect.txt"), &case.list(COUNT));
    }
    let whole = score(&case.tracked("other", "own"));
    let boxes = case.path("out-other/boxes");
    let read =
        |run: &str, name: &str| std::fs::read_to_string(boxes.join(run).join(format!("{name}.txt"))).unwrap();
    let before = read("run_002", "Man");
    assert_ne!(before, read("run_001", "Man"));
    std::fs::remove_file(boxes.join("run_002/Man.txt")).unwrap();
    // Boxes that are there are not made again.
    let marked = read("run_001", "Deer").replacen(',', ", ", 1);
    std::fs::write(boxes.join("run_001/Deer.txt"), &marked).unwrap();
    assert_eq!(score(&case.tracked("other", "own")), whole);
    assert_eq!((read("run_002", "Man"), read("run_001", "Deer")), (before, marked));
    // What was written is what `--results` reads.
    let args = ["eval", "tracking", "--dataset", "other", "--json", "--annotations"];
    let own = case.path("own");
    let paths = [text(&own), "--results", text(&boxes)];
    assert_eq!(score(&succeeds(&[&args[..], &paths].concat()))["auc"], whole["auc"]);

    refused(&case.track("other", "own", &["--seed", "1"]), &["seed = 0", "another --out"]);
    refused(&case.track("other", "own/Deer", &[]), &["Basketball/groundtruth_rect.txt"]);
}
