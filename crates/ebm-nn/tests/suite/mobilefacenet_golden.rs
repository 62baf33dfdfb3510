//! MobileFaceNet against the published graph, run by PyTorch: maps, embedding, gradients and running statistics.

use std::collections::BTreeMap;

use crate::common::{CPU, assert_near, assert_summary, assert_training_step, fill, formula, golden, to_vec};
use candle_core::{DType, Tensor};
use candle_nn::{Linear, VarBuilder};
use ebm_base::Key;
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::params::ParamStore;
use ebm_nn::{import, init};
use ebm_ops::nhwc::from_nchw;
use ebm_ops::nn::{BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig};
use ebm_ops::{Padding, linear};

/// The blocks behind each of the golden file's maps.
const MAPS: [usize; 4] = [2, 7, 14, MobileFaceNet::BLOCKS];

/// Layers of the published network after its last map: a filter of the whole map for each channel, and a layer to
/// 128 numbers whose direction identifies the person.
struct FaceEmbedding {
    whole: Conv2d,
    linear: Linear,
    norm: BatchNorm,
}

impl FaceEmbedding {
    /// The embedding is normalised with an ε of its own.
    fn new(norm: BatchNormConfig, vb: &VarBuilder) -> Self {
        let channels = MobileFaceNet::CHANNELS;
        let weight = init::kaiming_normal_fan_in();
        let config =
            Conv2dConfig { padding: Padding::Each(0), weight, ..Conv2dConfig::depthwise(channels, 7) };
        let names = ["conv_6dw7_7_conv2d", "conv_6dw7_7_batchnorm"];
        let last = BatchNormConfig { eps: 2e-5, ..norm };
        Self {
            whole: Conv2d::with_norm(config, norm, names, vb).unwrap(),
            linear: init::linear(channels, 128, vb.pp("pre_fc1")).unwrap(),
            norm: BatchNorm::new(128, last, vb.pp("fc1")).unwrap(),
        }
    }

    /// (N, 7, 7, 512) -> (N, 128).
    fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let pooled = self.whole.forward_channels_last(map, None, false, train).unwrap();
        let pooled = pooled.reshape((map.dim(0).unwrap(), MobileFaceNet::CHANNELS)).unwrap();
        let embedding = linear(&pooled, self.linear.weight(), self.linear.bias()).unwrap();
        self.norm.forward(&embedding, train).unwrap()
    }
}

fn build(store: &ParamStore, norm: BatchNormConfig, dtype: DType) -> (MobileFaceNet, FaceEmbedding) {
    let vb = store.var_builder(dtype, &CPU);
    (MobileFaceNet::new(norm, &vb).unwrap(), FaceEmbedding::new(norm, &vb))
}

fn input(dtype: DType) -> Tensor {
    let x = (formula("input", &[2, 3, 112, 112]) * 2.0).unwrap().to_dtype(dtype).unwrap();
    from_nchw(&x).unwrap()
}

/// Returns the maps in torch's layout, and the embedding.
fn forward((net, embedding): &(MobileFaceNet, FaceEmbedding), x: &Tensor, train: bool) -> Vec<Tensor> {
    let (mut found, mut x, mut first) = (Vec::new(), x.clone(), 0);
    for end in MAPS {
        x = net.forward_channels_last(&x, first..end, train).unwrap();
        found.push(x.permute((0, 3, 1, 2)).unwrap());
        first = end;
    }
    found.push(embedding.forward(&x, train));
    found
}

/// Reads the arrays of an MXNet parameter file, all of them `f32`: a count, each array as its magic number,
/// storage type, rank, extents, device, type and numbers; a count, and each name as its length and text.
fn of_mxnet(bytes: &[u8]) -> BTreeMap<String, Tensor> {
    let mut rest = &bytes[16..];
    let mut take = |count: usize| rest.split_off(..count).unwrap();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let arrays: Vec<Tensor> = (0..word(take(8)))
        .map(|_| {
            let rank = take(12)[8];
            let shape: Vec<usize> = (0..rank).map(|_| word(take(8))).collect();
            assert_eq!(take(12)[8], 0);
            let numbers = take(4 * shape.iter().product::<usize>());
            Tensor::from_raw_buffer(numbers, DType::F32, &shape, &CPU).unwrap()
        })
        .collect();
    assert_eq!(word(take(8)), arrays.len());
    let mut name = || {
        let length = word(take(8));
        String::from_utf8(take(length).to_vec()).unwrap()
    };
    arrays.into_iter().map(|array| (name(), array)).collect()
}

#[test]
fn the_published_network_computes_what_its_graph_says() {
    let Some(path) = ebm_testing::external("weights/mobilefacenet/model-0000.params") else { return };
    let tensors = of_mxnet(&std::fs::read(path).unwrap());
    assert_eq!(tensors.values().map(Tensor::elem_count).sum::<usize>(), 1_022_848);
    let renamed = import::rename(tensors, |name| Some(MobileFaceNet::parameter(name))).unwrap();
    let store = ParamStore::new(Key::new(0));
    store.preload(renamed);
    let variable = build(&store, MobileFaceNet::NORM, DType::F32);
    assert!(store.preload_report().is_exact(), "{}", store.preload_report());
    let constants = store.constants().unwrap();
    let constant = build(&constants, MobileFaceNet::NORM, DType::F32);
    let golden = golden("mobilefacenet");
    // The last time uses the kept tensors and reused buffers.
    for net in [&variable, &constant, &constant] {
        let mut found = forward(net, &input(DType::F32), false);
        let embedding = found.pop().unwrap();
        assert_near("embedding", &to_vec(&embedding), &to_vec(&golden["published.embedding"]), 1e-4);
        for (i, map) in found.iter().enumerate() {
            assert_summary(&format!("map{i}"), map, &golden[&format!("published.map{i}")], 1e-4);
        }
        let dims = [[2, 64, 56, 56], [2, 64, 28, 28], [2, 128, 14, 14], [2, 512, 7, 7]];
        assert!(found.iter().zip(dims).all(|(map, dims)| map.dims() == dims));
    }
}

#[test]
fn a_training_step_has_torchs_gradients_and_statistics() {
    let golden = golden("mobilefacenet");
    let store = ParamStore::new(Key::new(0));
    let net = build(&store, MobileFaceNet::NORM, DType::F64);
    fill(&store);
    // The graph has no factor there.
    let factor = store.var("fc1.weight").unwrap();
    factor.set(&factor.ones_like().unwrap()).unwrap();
    let found = forward(&net, &input(DType::F64), true);
    let [gradients, count] = assert_training_step(&golden, &store, &found, 1e-6, 1e-16, "fc1.weight");
    let trainable = store.trainable();
    assert_eq!((trainable.len(), store.names().len()), (gradients + 1, gradients + 1 + count));
}

#[test]
fn frozen_normalisation_is_that_of_evaluation_and_blocks_know_their_parameters() {
    let run = |norm, train| {
        let store = ParamStore::new(Key::new(0));
        let net = build(&store, norm, DType::F32);
        fill(&store);
        (forward(&net, &input(DType::F32).narrow(0, 0, 1).unwrap(), train), store.names())
    };
    let (plain, names) = run(MobileFaceNet::NORM, false);
    let (frozen, _) = run(BatchNormConfig::frozen(MobileFaceNet::NORM.eps), true);
    // The embedding has another ε.
    for (a, b) in plain.iter().zip(&frozen).take(MAPS.len()) {
        assert_eq!(to_vec(a), to_vec(b));
    }
    let of_block = |block| names.iter().filter(|name| MobileFaceNet::block_of(name) == block).count();
    let counts: Vec<usize> = (0..=MobileFaceNet::BLOCKS).map(of_block).collect();
    // A convolution with its normalisation is 5 tensors, PReLU one more.
    let mut expected = vec![17; MobileFaceNet::BLOCKS];
    for plain in [0, 1, MobileFaceNet::BLOCKS - 1] {
        expected[plain] = 6;
    }
    assert_eq!(counts[..MobileFaceNet::BLOCKS], expected);
    assert_eq!(MobileFaceNet::block_of("res_4_block0_conv_dw_relu.weight"), 8);
    assert_eq!(MobileFaceNet::block_of("pre_fc1.bias"), MobileFaceNet::BLOCKS);
}

#[test]
fn names_are_translated_once_and_blocks_that_are_not_there_refused() {
    for (published, ours) in [
        ("arg:conv_1_conv2d_weight", "conv_1_conv2d.weight"),
        ("conv_1_relu_gamma", "conv_1_relu.weight"),
        ("aux:fc1_moving_var", "fc1.running_var"),
        ("arg:fc1_weight", "pre_fc1.weight"),
        ("fc1_gamma", "fc1.weight"),
        ("pre_fc1_bias", "pre_fc1.bias"),
        ("something", "something"),
    ] {
        assert_eq!(MobileFaceNet::parameter(published), ours);
        assert_eq!(MobileFaceNet::parameter(ours), ours);
    }
    let (net, _) = build(&ParamStore::new(Key::new(0)), MobileFaceNet::NORM, DType::F32);
    let x = Tensor::zeros((1, 32, 32, 3), DType::F32, &CPU).unwrap();
    let refused = |blocks| net.forward_channels_last(&x, blocks, false).unwrap_err().to_string();
    assert!(refused(3..19).contains("no blocks 3..19 among 18"));
    assert!(refused(1..2).contains("channels"));
    let small = net.forward_channels_last(&x, 0..MobileFaceNet::BLOCKS, false).unwrap();
    assert_eq!(small.dims(), [1, 2, 2, 512]);
}
