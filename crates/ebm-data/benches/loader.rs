//! Times an epoch of the loader. One line per request on standard input, so that `loader.py` can alternate
//! with torch's `DataLoader` in one run:
//!
//! ```text
//! cargo bench -p ebm-data --bench loader --no-run     (prints the path of the binary)
//! python crates/ebm-data/benches/loader.py BINARY     (torch, torchvision, Pillow; 2 workers each)
//! ```
//!
//! Requests: `setup FILTER ANNOTATIONS IMAGES SHORT MAX BATCH WORKERS`, where FILTER is `pillow` or `torch`,
//! then `epoch` (the answer: images and seconds) and `peak` (the largest resident memory so far, in MiB).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::transform::{Normalise, Resample, ResizeRule, Transform};
use ebm_seed::Key;

/// As in the programs: freed blocks are kept.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn setup(request: &str) -> Loader {
    let words: Vec<&str> = request.split_whitespace().collect();
    let &[filter, annotations, images, short_side, max_side, batch_size, workers] = &words[..] else {
        panic!("setup needs FILTER ANNOTATIONS IMAGES SHORT MAX BATCH WORKERS")
    };
    let resample = match filter {
        "pillow" => Resample::Pillow,
        "torch" => Resample::TorchBilinear,
        _ => panic!("unknown filter {filter}"),
    };
    let load = LoadOptions::new(Purpose::Train);
    let dataset = Arc::new(CocoDataset::load(Path::new(annotations), Path::new(images), &load).unwrap());
    let resize = ResizeRule { short_side: short_side.parse().unwrap(), max_side: max_side.parse().unwrap() };
    let transform = Transform { resize, resample, normalise: Normalise::IMAGENET };
    let train = LoaderConfig::train(transform, batch_size.parse().unwrap());
    Loader::new(dataset, LoaderConfig { workers: workers.parse().unwrap(), ..train }, Key::new(0)).unwrap()
}

fn epoch(loader: &Loader, number: u64) -> (usize, f64) {
    let start = Instant::now();
    let images = loader.epoch(number).unwrap().map(|batch| batch.unwrap().samples.len()).sum();
    (images, start.elapsed().as_secs_f64())
}

fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

fn main() {
    let mut loader = None;
    for (number, line) in (0..).zip(std::io::stdin().lock().lines()) {
        let line = line.unwrap();
        match (line.strip_prefix("setup "), &loader) {
            (Some(request), _) => {
                loader = Some(setup(request));
                println!("ready");
            }
            (None, Some(loader)) if line == "epoch" => {
                let (images, seconds) = epoch(loader, number);
                println!("{images} {seconds}");
            }
            (None, _) if line == "peak" => println!("{}", peak()),
            _ => panic!("unknown request {line}"),
        }
        std::io::stdout().flush().unwrap();
    }
}
