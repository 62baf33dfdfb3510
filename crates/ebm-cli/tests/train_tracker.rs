//! `ebm train tracker` on one's own sequences: the best box module is kept, and follows a target.

use crate::common::program::{succeeds, text};

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_nn::import::save_safetensors;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_synth::videos::{VideoConfig, generate};
use ebm_track::Backbone;
use ebm_track::saved::SavedConfig;

#[test]
fn a_box_module_learns_from_ones_own_sequences() {
    let dir = tempfile::tempdir().unwrap();
    let (videos, run, weights) =
        (dir.path().join("videos"), dir.path().join("runs/ebm"), dir.path().join("resnet18.safetensors"));
    let video = VideoConfig { frames: 24, ..VideoConfig::default() };
    generate(&videos, &video, 3, Key::new(3)).unwrap();
    let store = ParamStore::new(Key::new(1));
    let config =
        ResNetConfig { width: 8, layers: [1, 1, 1, 0], ..ResNetConfig::resnet18(Norm::Frozen { eps: 1e-5 }) };
    ResNet::new(&config, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    save_safetensors(&weights, &store.tensors().unwrap().into_iter().collect()).unwrap();
    assert!(Backbone::load(&weights, &Device::Cpu).is_ok());

    let little = [
        "narrowed=32",
        "training={ batch_size = 2, pairs_per_epoch = 8, epochs = 1 }",
        "step_factors=[0.25, 1.0]",
    ];
    let mut train = vec!["train", "tracker", "--sequences", text(&videos), "--run", text(&run)];
    train.extend(["--backbone", text(&weights), "--validation", "0.3", "--validate-every", "2"]);
    little.iter().for_each(|setting| train.extend(["--set", setting]));
    let [_, said] = succeeds(&train);
    assert!(said.contains("after 4 steps") && said.contains("kept: step "), "{said}");
    let (saved, _, _) = SavedConfig::load(&run, None, &Device::Cpu).unwrap();
    assert!([0.25 * 2e-4, 2e-4].contains(&saved.refinement.step_length[0]), "{saved:?}");
    succeeds(&[&train[..], &["--resume"]].concat());
}
