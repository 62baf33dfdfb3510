//! Times PrRoIPool and RoIAlign. One line per request on standard input, so that `roi_pooling.py` can
//! alternate with torchvision in one run:
//!
//! ```text
//! cargo bench -p ebm-nn --bench roi_pooling --no-run     (prints the path of the binary)
//! python crates/ebm-nn/benches/roi_pooling.py BINARY     (torch, torchvision; 2 threads each)
//! ```
//!
//! Requests: `setup C H W BOXES`, then the name of a measurement; the answer is milliseconds. Boxes are 7 to
//! 28 map pixels wide and high, the same on both sides. The number of threads is rayon's
//! (`RAYON_NUM_THREADS`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{Device, Tensor, Var};
use ebm_nn::boxes::{BBox, BoxConvention, nms};
use ebm_nn::ops::{channels_last, prroi_pool, roi_align};

struct Case {
    features: Tensor,
    rois: Tensor,
    boxes: Vec<BBox>,
    scores: Vec<f32>,
}

/// A linear congruential generator; the Python side has the same one.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f64 / (1u64 << 24) as f64
}

fn setup(c: usize, h: usize, w: usize, count: usize) -> Case {
    let mut state = 1;
    let boxes: Vec<BBox> = (0..count)
        .map(|_| {
            let [x, y, bw, bh] = [0; 4].map(|_| noise(&mut state));
            let (bw, bh) = (7.0 + 21.0 * bw, 7.0 + 21.0 * bh);
            let (x, y) = (x * (w as f64 - bw), y * (h as f64 - bh));
            [x as f32, y as f32, (x + bw) as f32, (y + bh) as f32]
        })
        .collect();
    let rows: Vec<f32> = boxes.iter().flat_map(|b| [0.0, b[0], b[1], b[2], b[3]]).collect();
    let scores = (0..count).map(|_| noise(&mut state) as f32).collect();
    Case {
        features: Tensor::randn(0f32, 1.0, (1, c, h, w), &Device::Cpu).unwrap(),
        rois: Tensor::from_vec(rows, (count, 5), &Device::Cpu).unwrap(),
        boxes,
        scores,
    }
}

/// Milliseconds of the second of two steps: `forward`, then `backward` of what it gave.
fn backward(out: &Tensor) -> f64 {
    // The loss' own gradient is a constant: what is timed is the pooling's backward and candle's bookkeeping.
    let loss = out.sum_all().unwrap();
    let start = Instant::now();
    let grads = loss.backward().unwrap();
    let elapsed = start.elapsed();
    drop(grads);
    elapsed.as_secs_f64() * 1e3
}

fn measure(case: &Case, what: &str) -> f64 {
    let out = (7, 7);
    let last = || channels_last(&case.features).unwrap();
    let features = Var::from_tensor(&case.features).unwrap();
    let rois = Var::from_tensor(&case.rois).unwrap();
    let timed = |f: &dyn Fn() -> Tensor| {
        let start = Instant::now();
        let result = f();
        let elapsed = start.elapsed();
        drop(result);
        elapsed.as_secs_f64() * 1e3
    };
    match what {
        "prroi forward" => timed(&|| prroi_pool(&case.features, &case.rois, out, 1.0).unwrap()),
        "prroi forward channels_last" => {
            let map = last();
            timed(&|| prroi_pool(&map, &case.rois, out, 1.0).unwrap())
        }
        "prroi backward both" => backward(&prroi_pool(&features, &rois, out, 1.0).unwrap()),
        "prroi backward features" => backward(&prroi_pool(&features, &case.rois, out, 1.0).unwrap()),
        "prroi backward boxes" => backward(&prroi_pool(&case.features, &rois, out, 1.0).unwrap()),
        "roi_align forward" => timed(&|| roi_align(&case.features, &case.rois, out, 1.0, 2, false).unwrap()),
        "roi_align backward" => backward(&roi_align(&features, &case.rois, out, 1.0, 2, false).unwrap()),
        "channels_last" => timed(&last),
        "nms" => {
            let start = Instant::now();
            let kept = nms(&case.boxes, &case.scores, 0.7, BoxConvention::HalfOpen).unwrap();
            let elapsed = start.elapsed();
            assert!(!kept.is_empty());
            elapsed.as_secs_f64() * 1e3
        }
        other => panic!("unknown measurement {other}"),
    }
}

fn main() {
    let mut case = setup(1, 32, 32, 1);
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if let Some(sizes) = line.strip_prefix("setup ") {
            let sizes: Vec<usize> = sizes.split_whitespace().map(|s| s.parse().unwrap()).collect();
            let &[c, h, w, count] = sizes.as_slice() else { panic!("setup needs C H W BOXES") };
            case = setup(c, h, w, count);
            println!("ready");
        } else {
            println!("{}", measure(&case, &line));
        }
        std::io::stdout().flush().unwrap();
    }
}
