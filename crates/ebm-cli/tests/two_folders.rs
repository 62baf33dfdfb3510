//! A run's files do not depend on its folder and name no path of the machine, since models are given away.

use crate::common::faces::pointing04;
use crate::common::program::{DETECTOR, command, texts};

use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_nn::import::save_safetensors;
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_synth::faces::generate_ages;
use ebm_synth::videos::{VideoConfig, generate};
use ebm_testing::files;

/// Files in which clocks have left numbers; all else in them is compared.
const TIMED: [&str; 4] = ["results.json", "results.csv", "report.md", "lock"];

/// A folder with all that trainings are given; every path that they are told is a whole one.
struct Place(PathBuf);

impl Place {
    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Runs the program with the words of `line` and `more`. Words that begin with @ are paths below this folder.
    fn ebm(&self, line: &str, more: &[&str]) {
        let words = line.split_whitespace();
        let words = words.map(|word| word.strip_prefix('@').map_or(word.to_owned(), |name| self.at(name)));
        let words: Vec<String> = words.chain(more.iter().map(|&word| word.to_owned())).collect();
        texts(command(&words).current_dir(&self.0).output().unwrap());
    }

    /// Writes a network that was only made, with the names of its file. Half of each parameter: what comes out of many
    /// layers stays finite.
    fn network(&self, name: &str, make: impl FnOnce(&ParamStore)) {
        let store = ParamStore::new(Key::new(1));
        make(&store);
        let half = |(name, tensor): (String, Tensor)| (name, (tensor * 0.5).unwrap());
        let tensors = store.tensors().unwrap().into_iter().map(half).collect();
        save_safetensors(Path::new(&self.at(name)), &tensors).unwrap();
    }

    /// Makes the data and weights for trainings.
    fn fill(&self) {
        fs::create_dir_all(&self.0).unwrap();
        self.ebm("data scenes --count 3 --seed 4 --out @scenes", &[]);
        fs::copy(DETECTOR, self.at("detector_mini.safetensors")).unwrap();
        let resnet = |norm: Norm| {
            move |store: &ParamStore| {
                let config = ResNetConfig { width: 4, ..ResNetConfig::resnet18(norm) };
                ResNet::new(&config, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
            }
        };
        self.network("body.safetensors", resnet(Norm::Folded));
        self.network("resnet18.safetensors", resnet(Norm::Frozen { eps: 1e-5 }));
        self.network("faces.safetensors", |store| {
            MobileFaceNet::new(MobileFaceNet::NORM, &store.var_builder(DType::F32, &Device::Cpu)).unwrap();
        });
        let video = VideoConfig { frames: 24, ..VideoConfig::default() };
        generate(Path::new(&self.at("videos")), &video, 3, Key::new(3)).unwrap();
        let ages = generate_ages(Path::new(&self.at("ages")), 16, 12, Key::new(1)).unwrap();
        fs::rename(ages.split, self.at("ages.csv")).unwrap();
        pointing04(&self.0.join("datasets"), &[-75, 0, 75]);
        let rows = (0..60).map(|k| format!("{},{},{}\n", k % 7, k * 13 % 11, k * 5 % 17));
        fs::write(self.at("table.csv"), format!("a,b,c\n{}", rows.collect::<String>())).unwrap();
    }

    /// One training of each kind, and one reproduction of each task.
    fn train(&self) {
        let scenes = "--annotations @scenes/annotations.json --images @scenes/images";
        let short = "--config mini --batch-size 1 --steps 1";
        self.ebm(
            &format!(
                "train branch {short} {scenes} --detector @detector_mini.safetensors --run @runs/branch"
            ),
            &[],
        );
        self.ebm(&format!("train detector {short} {scenes} --run @runs/detector"), &[]);
        let network = [
            "--set=network={ width = 4, strides = [4, 8], map_scales = [1.0, 1.0], channels = 4, representation = 8 }",
            "--set=network.views=[{ level = 0, context = 1.0, bins = 2 }, { level = 1, context = 1.5, bins = 2 }]",
            "--set=input={ short_side = 96, long_side = 96 }",
            "--set=objective.num_samples=8",
            "--set=training={ batch_size = 2, warmup_steps = 0, milestones = [], steps = 1 }",
            "--set=step_factors=[0.5, 1.0]",
        ];
        self.ebm(&format!("train refiner {scenes} --body @body.safetensors --run @runs/refiner"), &network);
        let little = [
            "--set=input.size=16",
            "--set=trunk={ kind = 'resnet', layers = [1, 1, 1, 1], width = 2 }",
            "--set=head.hidden=8",
            "--set=energy.objective.num_samples=4",
            "--set=training={ epochs = 1.0, batch_size = 6 }",
            "--set=energy.training={ epochs = 1.0, batch_size = 6 }",
        ];
        self.ebm(
            "train age --images @ages/images --split @ages.csv --validation 0.25 --run @runs/age",
            &little,
        );
        let tracker = [
            "--set=narrowed=32",
            "--set=training={ batch_size = 2, pairs_per_epoch = 4, epochs = 1 }",
            "--set=step_factors=[1.0]",
        ];
        let videos = "--sequences @videos --validation 0.3 --backbone @resnet18.safetensors";
        self.ebm(&format!("train tracker {videos} --run @runs/tracker"), &tracker);
        self.ebm("weights pack @runs/tracker @packed", &[]);
        self.ebm("fit @table.csv --target c --run @runs/table --set members=1 --set training.steps=20", &[]);

        let places = "--smoke --seeds 1 --out @runs --datasets @datasets --weights @weights";
        let faces = ["--set=input.size=48", "--set=density.num_points=15"];
        self.ebm(
            &format!("reproduce head-pose --scale pointing --trunk @faces.safetensors {places}"),
            &faces,
        );
        self.ebm(
            &format!(
                "reproduce tracking --scale mini --methods ebm --backbone @resnet18.safetensors {places}"
            ),
            &[],
        );
        self.ebm(&format!("reproduce detection --scale mini --from-scratch --methods ebm {places}"), &[]);
        self.ebm("reproduce toy --smoke --seeds 1 --problem dataset1 --methods ML-IS --out @runs", &[]);
    }
}

/// Returns the contents of a file without measured times.
fn untimed(path: &str, bytes: &[u8]) -> Vec<u8> {
    let name = path.rsplit('/').next().unwrap();
    let is_timed = TIMED.contains(&name) || name.ends_with("_time.txt");
    bytes.iter().copied().filter(|byte| !is_timed || !b"0123456789.e+- \n".contains(byte)).collect()
}

#[test]
fn runs_in_two_folders_have_the_same_bytes_and_no_path() {
    let dir = tempfile::tempdir().unwrap();
    let places =
        ["one", "another/and deeper"].map(|name| Place(dir.path().canonicalize().unwrap().join(name)));
    std::thread::scope(|scope| {
        for place in &places {
            scope.spawn(|| {
                place.fill();
                place.train();
            });
        }
    });
    let [one, other] = places.map(|place| files::below(&place.0));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    let (root, mut wrong) = (dir.path().to_str().unwrap(), Vec::new());
    for (path, bytes) in &one {
        if untimed(path, bytes) != untimed(path, &other[path]) {
            wrong.push(format!("{path} differs"));
        }
        if String::from_utf8_lossy(bytes).contains(root) {
            wrong.push(format!("{path} says where it was made"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (run, base) in [
        ("runs/tracker", "backbone.safetensors"),
        ("packed", "backbone.safetensors"),
        ("runs/head-pose-pointing-smoke-1/fold-0", "trunk.safetensors"),
        ("runs/tracking-mini-smoke-1", "backbone.safetensors"),
    ] {
        assert!(one.contains_key(&format!("{run}/{base}")), "{run}");
    }
}
