//! Times a training step of MobileFaceNet's last blocks, and a depthwise 3 × 3 convolution with its gradients. One
//! line per request on standard input, so that `mobilefacenet.py` can alternate with torch in one run:
//!
//! ```text
//! cargo bench -p ebm-nn --bench mobilefacenet --no-run     (prints the path of the binary)
//! python crates/ebm-nn/benches/mobilefacenet.py BINARY     (torch; 1 thread each)
//! ```
//!
//! Requests: `step N SIDE BLOCKS` (forward by the batch's statistics of the last blocks on what the others made of
//! the images, the mean of the squares of the last map, gradients in the parameters), `frozen N SIDE BLOCKS` (the
//! same with fixed normalisation), `infer N SIDE` (the last map of all blocks, with constant parameters), `depthwise N C SIDE STRIDE` (forward and backward from ones); each answers
//! milliseconds, of the second time on what the first has set up. The number of threads is rayon's
//! (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{DType, Device, Tensor, Var};
use ebm_nn::mobilefacenet::MobileFaceNet;
use ebm_nn::norm::BatchNormConfig;
use ebm_nn::ops::{Padding, depthwise_conv2d_channels_last};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Work = Box<dyn Fn()>;

fn step([n, side, blocks]: [usize; 3], frozen: bool) -> Work {
    let first = MobileFaceNet::BLOCKS - blocks;
    let store = ParamStore::new(Key::new(0));
    store.freeze(move |name| MobileFaceNet::block_of(name) < first);
    let norm = BatchNormConfig { frozen, ..MobileFaceNet::NORM };
    let net = MobileFaceNet::new(norm, &store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    let images = Tensor::randn(0f32, 1.0, (n, side, side, 3), &Device::Cpu).unwrap();
    let maps = net.forward_channels_last(&images, 0..first, false).unwrap();
    Box::new(move || {
        let map = net.forward_channels_last(&maps, first..MobileFaceNet::BLOCKS, true).unwrap();
        let _gradients = map.sqr().unwrap().mean_all().unwrap().backward().unwrap();
    })
}

fn infer([n, side]: [usize; 2]) -> Work {
    let store = ParamStore::new(Key::new(0));
    let build = |store: &ParamStore| {
        MobileFaceNet::new(MobileFaceNet::NORM, &store.var_builder(DType::F32, &Device::Cpu)).unwrap()
    };
    let _filled = build(&store);
    let net = build(&store.constants().unwrap());
    let images = Tensor::randn(0f32, 1.0, (n, side, side, 3), &Device::Cpu).unwrap();
    Box::new(move || {
        net.forward_channels_last(&images, 0..MobileFaceNet::BLOCKS, false).unwrap();
    })
}

fn depthwise([n, c, side, stride]: [usize; 4]) -> Work {
    let var = |shape: &[usize]| Var::randn(0f32, 1.0, shape, &Device::Cpu).unwrap();
    let (x, w) = (var(&[n, side, side, c]), var(&[c, 1, 3, 3]));
    Box::new(move || {
        let y = depthwise_conv2d_channels_last(&x, &w, None, stride, Padding::Each(1)).unwrap();
        let _gradients = y.backward().unwrap();
    })
}

fn main() {
    let (mut known, mut work): (String, Work) = (String::new(), Box::new(|| ()));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if line != known {
            let (name, sizes) = line.split_once(' ').unwrap_or((&line, ""));
            let sizes: Vec<usize> = sizes.split_whitespace().map(|size| size.parse().unwrap()).collect();
            work = match (name, &sizes[..]) {
                ("step", &[n, side, blocks]) => step([n, side, blocks], false),
                ("frozen", &[n, side, blocks]) => step([n, side, blocks], true),
                ("infer", &[n, side]) => infer([n, side]),
                ("depthwise", &[n, c, side, stride]) => depthwise([n, c, side, stride]),
                _ => panic!("unknown request {line}"),
            };
            work();
            known = line;
        }
        let start = Instant::now();
        work();
        println!("{}", start.elapsed().as_secs_f64() * 1e3);
        std::io::stdout().flush().unwrap();
    }
}
