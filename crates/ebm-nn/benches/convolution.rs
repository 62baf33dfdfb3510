//! Times [`PackedConv2d`]. One line per request on standard input, so that `convolution.py` can alternate with torch
//! in one run:
//!
//! ```text
//! cargo bench -p ebm-nn --bench convolution --no-run     (prints the path of the binary)
//! python crates/ebm-nn/benches/convolution.py BINARY     (torch; 2 threads each)
//! ```
//!
//! Requests: `setup N C H W O K STRIDE PADDING`, then `forward`; the answer is milliseconds, bias and ReLU included. The
//! number of threads is rayon's (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{Device, Tensor};
use ebm_nn::ops::{ChannelsLast, PackedConv2d, Workspace};

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Case {
    conv: PackedConv2d,
    x: ChannelsLast<'static, f32>,
    workspace: Workspace,
}

fn setup(sizes: &[usize]) -> Case {
    let &[n, c, h, w, o, k, stride, padding] = sizes else {
        panic!("setup needs N C H W O K STRIDE PADDING")
    };
    let random = |len: usize| Tensor::randn(0f32, 1.0, len, &Device::Cpu).unwrap();
    let weight = random(o * c * k * k).reshape((o, c, k, k)).unwrap();
    Case {
        conv: PackedConv2d::new(&weight, Some(&random(o)), stride, padding).unwrap(),
        x: ChannelsLast::new(random(n * c * h * w).to_vec1().unwrap(), (n, c, h, w)).unwrap(),
        workspace: Workspace::new(),
    }
}

fn forward(case: &Case) -> f64 {
    let start = Instant::now();
    let y = case.conv.forward(&case.x, None, true, &case.workspace).unwrap();
    let elapsed = start.elapsed();
    case.workspace.recycle(y);
    elapsed.as_secs_f64() * 1e3
}

fn main() {
    let mut case = setup(&[1, 1, 1, 1, 1, 1, 1, 0]);
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if let Some(sizes) = line.strip_prefix("setup ") {
            case = setup(&sizes.split_whitespace().map(|s| s.parse().unwrap()).collect::<Vec<_>>());
            println!("ready");
        } else if line == "forward" {
            println!("{}", forward(&case));
        } else {
            panic!("unknown request {line}");
        }
        std::io::stdout().flush().unwrap();
    }
}
