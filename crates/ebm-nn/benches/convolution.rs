//! Times a convolution of constant parameters. One line per request on standard input, so that
//! `convolution.py` can alternate with torch in one run:
//!
//! ```text
//! cargo bench -p ebm-nn --bench convolution --no-run     (prints the path of the binary)
//! python crates/ebm-nn/benches/convolution.py BINARY     (torch; 2 threads each)
//! ```
//!
//! Requests: `setup N C H W O K STRIDE PADDING`, then `forward TIMES` (inference, bias and ReLU included) or
//! `train TIMES` (forward and backward for x, weight and bias with a given gradient of the result); the
//! answer is milliseconds each. The number of threads is rayon's (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Shape, Tensor, Var};
use ebm_nn::layers::{Conv2d, Conv2dConfig};
use ebm_nn::ops::{Padding, conv2d_channels_last};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Case {
    conv: Conv2d,
    /// x (N, H, W, C), weight and bias.
    vars: [Var; 3],
    /// The gradient of the result.
    g: Tensor,
    stride: usize,
    padding: usize,
}

fn setup(sizes: &[usize]) -> Case {
    let &[n, c, h, w, o, k, stride, padding] = sizes else {
        panic!("setup needs N C H W O K STRIDE PADDING")
    };
    let random = |len: usize| Tensor::randn(0f32, 1.0, len, &Device::Cpu).unwrap();
    let weight = random(o * c * k * k).reshape((o, c, k, k)).unwrap();
    let x = random(n * c * h * w).reshape((n, h, w, c)).unwrap();
    let vars = [x, weight.clone(), random(o)].map(|t| Var::from_tensor(&t).unwrap());
    let store = ParamStore::new(Key::new(0));
    store.freeze(|_| true);
    let config = Conv2dConfig { stride, padding: Padding::Each(padding), ..Conv2dConfig::same(c, o, k) };
    let conv = Conv2d::new(config, store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    let y = conv2d_channels_last(&vars[0], &vars[1], None, stride, padding).unwrap();
    Case { vars, g: y.randn_like(0.0, 1.0).unwrap(), stride, padding, conv }
}

fn forward(case: &Case) -> f64 {
    let x = case.vars[0].as_detached_tensor();
    let start = Instant::now();
    let _y = case.conv.forward_channels_last(&x, None, true, false).unwrap();
    let elapsed = start.elapsed();
    elapsed.as_secs_f64() * 1e3
}

/// A number whose gradient is the given one.
struct Seed(Tensor);

impl CustomOp1 for Seed {
    fn name(&self) -> &'static str {
        "seed"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![0.0]), Shape::from(())))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, _: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(Some(self.0.clone()))
    }
}

fn train(case: &Case) -> f64 {
    let start = Instant::now();
    let [x, weight, bias] = &case.vars;
    let y = conv2d_channels_last(x, weight, Some(bias), case.stride, case.padding).unwrap();
    let gradients = y.apply_op1(Seed(case.g.clone())).unwrap().backward().unwrap();
    let elapsed = start.elapsed();
    drop(gradients);
    elapsed.as_secs_f64() * 1e3
}

fn main() {
    let mut case = setup(&[1, 1, 1, 1, 1, 1, 1, 0]);
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if let Some(sizes) = line.strip_prefix("setup ") {
            case = setup(&sizes.split_whitespace().map(|s| s.parse().unwrap()).collect::<Vec<_>>());
            println!("ready");
        } else if let Some((work, times)) = line.split_once(' ') {
            let work = match work {
                "forward" => forward,
                "train" => train,
                _ => panic!("unknown request {line}"),
            };
            let times: usize = times.parse().unwrap();
            println!("{}", (0..times).map(|_| work(&case)).sum::<f64>() / times as f64);
        }
        std::io::stdout().flush().unwrap();
    }
}
