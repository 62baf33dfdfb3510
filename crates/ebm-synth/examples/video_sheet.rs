//! A sheet of generated videos: one video in each row, frames evenly spaced, with the target's box. Prints
//! what was measured. `cargo run -p ebm-synth --example video_sheet -- FILE.png SEED FIRST ROWS COLUMNS`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_data::sequences::Rect;
use ebm_seed::Key;
use ebm_synth::videos::{Video, VideoConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, seed, first, rows, columns] = &arguments[..] else {
        return Err("arguments: FILE.png SEED FIRST ROWS COLUMNS".into());
    };
    let (key, config) = (Key::new(seed.parse()?), VideoConfig::default());
    let (rows, columns): (usize, usize) = (rows.parse()?, columns.parse()?);
    let mut sheet = Image::filled(columns * config.width, rows * config.height, [0; 3])?;
    let (mut drawn, mut frames) = (Duration::ZERO, 0);
    for row in 0..rows {
        let index = first.parse::<u64>()? + row as u64;
        let start = Instant::now();
        let video = Video::new(&config, key.index(index))?;
        drawn += start.elapsed();
        let (boxes, hidden) = (video.boxes(), video.occlusion());
        for column in 0..columns {
            let frame = column * (config.frames - 1) / (columns - 1).max(1);
            let start = Instant::now();
            let mut image = video.frame(frame)?;
            drawn += start.elapsed();
            frames += 1;
            outline(&mut image, boxes[frame]);
            paste(&mut sheet, &image, column * config.width, row * config.height);
        }
        let steps = boxes.windows(2).map(|pair| {
            let center = |[x, y, width, height]: Rect| [x + 0.5 * width, y + 0.5 * height];
            let ([x0, y0], [x1, y1]) = (center(pair[0]), center(pair[1]));
            (x1 - x0).hypot(y1 - y0)
        });
        let fastest = steps.fold(0.0, f64::max);
        let areas: Vec<f64> = boxes.iter().map(|[_, _, width, height]| (width * height).sqrt()).collect();
        println!(
            "{index}: sides {:.0} to {:.0}, fastest {fastest:.1}, most hidden {:.2}, absent {}",
            areas.iter().copied().fold(f64::INFINITY, f64::min),
            areas.iter().copied().fold(0.0, f64::max),
            hidden.iter().copied().fold(0.0, f32::max),
            areas.iter().filter(|area| area.is_nan()).count()
        );
    }
    write_png(Path::new(file), &sheet)?;
    println!(
        "{:.1} ms per frame, drawing of the plan included",
        drawn.as_secs_f64() * 1e3 / f64::from(frames)
    );
    Ok(())
}

/// The pixels around a box, yellow.
fn outline(image: &mut Image, [x, y, width, height]: Rect) {
    if x.is_nan() {
        return;
    }
    let (x0, y0) = (x.floor() as i64 - 1, y.floor() as i64 - 1);
    let (x1, y1) = ((x + width).ceil() as i64, (y + height).ceil() as i64);
    for row in y0..=y1 {
        for column in x0..=x1 {
            let on_edge = row == y0 || row == y1 || column == x0 || column == x1;
            let inside = (0..image.height as i64).contains(&row) && (0..image.width as i64).contains(&column);
            if on_edge && inside {
                let start = 3 * (row as usize * image.width + column as usize);
                image.pixels[start..start + 3].copy_from_slice(&[255, 230, 0]);
            }
        }
    }
}

fn paste(sheet: &mut Image, frame: &Image, x: usize, y: usize) {
    for (row, pixels) in frame.pixels.chunks_exact(3 * frame.width).enumerate() {
        let start = 3 * ((y + row) * sheet.width + x);
        sheet.pixels[start..start + pixels.len()].copy_from_slice(pixels);
    }
}
