//! Images per second of the loader:
//! `cargo run --release -p ebm-data --example loader_speed -- ANNOTATIONS IMAGES_DIR SHORT_SIDE WORKERS EPOCHS`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ebm_base::Key;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::transform::{ResizeRule, Transform};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [annotations, images, short_side, workers, epochs] = &arguments[..] else {
        return Err("arguments: ANNOTATIONS IMAGES_DIR SHORT_SIDE WORKERS EPOCHS".into());
    };
    let (short_side, workers, epochs): (usize, usize, u64) =
        (short_side.parse()?, workers.parse()?, epochs.parse()?);
    let load = LoadOptions::new(Purpose::Train);
    let dataset = Arc::new(CocoDataset::load(Path::new(annotations), Path::new(images), &load)?);
    let resize = ResizeRule { short_side, max_side: short_side * 1333 / 800 };
    for (name, transform) in [("pillow", Transform::MASKRCNN_BENCHMARK), ("torch", Transform::TORCHVISION)] {
        let transform = Transform { resize, ..transform };
        let config = LoaderConfig { workers, ..LoaderConfig::train(transform, 2) };
        let loader = Loader::new(Arc::clone(&dataset), config, Key::new(0))?;
        for epoch in 0..epochs {
            let start = Instant::now();
            let mut count = 0;
            for batch in loader.epoch(epoch)? {
                count += batch?.samples.len();
            }
            let rate = count as f64 / start.elapsed().as_secs_f64();
            println!(
                "{name}: short side {short_side}, {workers} workers: {count} images, {rate:.1} images/s"
            );
        }
    }
    Ok(())
}
