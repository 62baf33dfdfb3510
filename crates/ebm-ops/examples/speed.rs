//! Times `conv2d` of this crate and of candle. For each shape it prints one line of JSON with the shortest milliseconds of a
//! forward pass, and of a forward and a backward pass with the gradients of map, weight and bias. `speed.py` runs it beside
//! PyTorch and writes the table.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;
use std::time::Instant;

use candle_core::{Device, Tensor, Var};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Images, channels, height, width, channels of the output, side of the kernel, stride.
const SHAPES: [[usize; 7]; 8] = [
    [1, 3, 224, 224, 64, 7, 2],
    [8, 64, 56, 56, 64, 3, 1],
    [8, 64, 56, 56, 256, 1, 1],
    [8, 128, 28, 28, 128, 3, 1],
    [8, 128, 56, 56, 128, 3, 2],
    [8, 512, 7, 7, 512, 3, 1],
    [1, 256, 100, 136, 256, 3, 1],
    [32, 16, 32, 32, 32, 3, 1],
];
const PASSES: usize = 7;

fn main() -> Result<()> {
    for shape in SHAPES {
        let [n, c, h, w, o, k, stride] = shape;
        let var = |shape: &[usize]| -> Result<Var> {
            let numbers = Tensor::arange(0f32, shape.iter().product::<usize>() as f32, &Device::Cpu)?;
            Ok(Var::from_tensor(&numbers.sin()?.reshape(shape)?)?)
        };
        let [map, weight, bias] = [var(&[n, c, h, w])?, var(&[o, c, k, k])?, var(&[o])?];
        let candle = || map.conv2d(&weight, k / 2, stride, 1, 1)?.broadcast_add(&bias.reshape((1, o, 1, 1))?);
        let ours = || ebm_ops::conv2d(&map, &weight, Some(&bias), stride, k / 2);
        let times = [
            shortest(|| Ok(ours()?))?,
            shortest(|| Ok(candle()?))?,
            shortest(|| Ok(ebm_ops::backward(&ours()?.sum_all()?)?))?,
            shortest(|| Ok(candle()?.sum_all()?.backward()?))?,
        ];
        println!("{{\"shape\": {shape:?}, \"milliseconds\": {times:?}}}");
    }
    Ok(())
}

/// Returns the shortest milliseconds of some passes, after one that is not timed.
fn shortest<T>(mut pass: impl FnMut() -> Result<T>) -> Result<f64> {
    pass()?;
    let mut shortest = f64::INFINITY;
    for _ in 0..PASSES {
        let start = Instant::now();
        pass()?;
        shortest = shortest.min(1e3 * start.elapsed().as_secs_f64());
    }
    Ok(shortest)
}
