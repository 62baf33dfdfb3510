//! A sheet of generated heads: 8x8 poses on the left, 8x8 ages on the right. Prints what is to be predicted,
//! row by row. `cargo run -p ebm-synth --example heads_sheet -- FILE.png SEED SIZE`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_seed::Key;
use ebm_synth::heads::{HeadConfig, age_latents, pose_latents, render_age, render_pose};

const SIDE: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, seed, size] = &arguments[..] else {
        return Err("arguments: FILE.png SEED SIZE".into());
    };
    let (key, config) =
        (Key::new(seed.parse()?), HeadConfig { size: size.parse()?, ..HeadConfig::default() });
    let mut sheet = Image::filled(2 * SIDE * config.size, SIDE * config.size, [0; 3])?;
    let start = Instant::now();
    for index in 0..SIDE * SIDE {
        let (pose, _) = render_pose(&config, key, index as u64)?;
        let (age, _) = render_age(&config, key, index as u64)?;
        let (row, column) = (index / SIDE, index % SIDE);
        paste(&mut sheet, &pose, column * config.size, row * config.size);
        paste(&mut sheet, &age, (SIDE + column) * config.size, row * config.size);
    }
    let rate = (2 * SIDE * SIDE) as f64 / start.elapsed().as_secs_f64();
    write_png(Path::new(file), &sheet)?;
    for index in 0..(SIDE * SIDE) as u64 {
        let (pose, age) = (pose_latents(&config, key, index)?, age_latents(&config, key, index)?);
        let [yaw, pitch, roll] = pose.pose;
        let hidden = pose.hidden.map_or_else(|| "-".to_owned(), |hidden| format!("{hidden:?}"));
        println!(
            "{index:2}: yaw {yaw:6.1} pitch {pitch:6.1} roll {roll:6.1} {hidden:9} age {} hair {} skin {}",
            age.age, age.hair, age.skin
        );
    }
    println!("{rate:.0} heads/s on one thread");
    Ok(())
}

fn paste(sheet: &mut Image, head: &Image, x: usize, y: usize) {
    for (row, pixels) in head.pixels.chunks_exact(3 * head.width).enumerate() {
        let start = 3 * ((y + row) * sheet.width + x);
        sheet.pixels[start..start + pixels.len()].copy_from_slice(pixels);
    }
}
