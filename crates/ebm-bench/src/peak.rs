//! What the machine can do at best: multiply-adds in registers, and reads from memory.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use candle_core::{DType, Device, Tensor};
use ebm_nn::ops::arch;
use pulp::{Simd, WithSimd};
use serde::Serialize;

/// Independent sums: enough to hide the latency of a fused multiply-add on every pipeline.
const SUMS: usize = 12;

/// Multiply-adds of each sum in a measurement.
const STEPS: usize = 20_000_000;

/// Numbers that each thread reads: 256 MiB, which no cache holds.
const NUMBERS: usize = 64 << 20;

/// Measurements; the shortest counts.
const REPEATS: usize = 5;

/// How much less a smoke test does.
const SMOKE: usize = 1000;

/// The best of some threads together, or of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// "2 threads", or the GPU's name.
    pub of: String,
    /// 10⁹ additions and multiplications in f32 per second.
    pub gflops: f64,
    /// 10⁹ bytes read per second, on a GPU read or written.
    pub gigabytes: f64,
}

/// What `device`, which is called `name`, can do at best; of a CPU with one thread and then with `threads`.
///
/// # Errors
/// When a GPU runs out of memory.
pub fn peaks(device: &Device, name: String, threads: usize, smoke: bool) -> Result<Vec<Peak>> {
    if device.is_cpu() { Ok(measure(threads, smoke)) } else { Ok(vec![of_gpu(device, name, smoke)?]) }
}

/// Measures one thread and then `threads`.
fn measure(threads: usize, smoke: bool) -> Vec<Peak> {
    let share = if smoke { SMOKE } else { 1 };
    let mut counts = vec![1, threads];
    counts.dedup();
    counts.into_iter().map(|threads| one(threads, STEPS / share, NUMBERS / share)).collect()
}

/// Measures a GPU by candle's operations: the product of square matrices, in the precision it was opened
/// with, and a copy.
fn of_gpu(device: &Device, name: String, smoke: bool) -> Result<Peak> {
    let (side, numbers) = if smoke { (64, NUMBERS / SMOKE) } else { (8192, NUMBERS) };
    let matrix = Tensor::ones((side, side), DType::F32, device)?;
    let buffer = Tensor::ones(numbers, DType::F32, device)?;
    let best = |work: &dyn Fn() -> candle_core::Result<Tensor>| -> Result<f64> {
        let mut best = f64::INFINITY;
        // The first is not counted: it loads what the device needs.
        for repeat in 0..=REPEATS {
            device.synchronize()?;
            let start = Instant::now();
            let result = work()?;
            device.synchronize()?;
            if repeat > 0 {
                best = best.min(start.elapsed().as_secs_f64());
            }
            drop(result);
        }
        Ok(best)
    };
    let (product, copy) = (best(&|| matrix.matmul(&matrix))?, best(&|| buffer.copy())?);
    let (operations, bytes) = (2.0 * (side as f64).powi(3), (2 * numbers * size_of::<f32>()) as f64);
    Ok(Peak { of: name, gflops: operations / product / 1e9, gigabytes: bytes / copy / 1e9 })
}

fn one(threads: usize, steps: usize, numbers: usize) -> Peak {
    let operations = arch().dispatch(MultiplyAdd { steps: 1 }).0 * steps * threads;
    let arithmetic = shortest(&vec![(); threads], |()| arch().dispatch(MultiplyAdd { steps }).1);
    // Written here, so that every page is there before the clock runs.
    let buffers: Vec<Vec<f32>> = (0..threads).map(|thread| vec![1.0 + thread as f32; numbers]).collect();
    let reading = shortest(&buffers, |numbers| arch().dispatch(Read { numbers }));
    let bytes = size_of::<f32>() * numbers * threads;
    let of = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    Peak { of, gflops: operations as f64 / arithmetic / 1e9, gigabytes: bytes as f64 / reading / 1e9 }
}

/// The shortest time in seconds in which one thread for each of `inputs` does `work`.
fn shortest<T: Sync>(inputs: &[T], work: impl Fn(&T) -> f32 + Sync) -> f64 {
    let once = || {
        let start = Instant::now();
        thread::scope(|scope| {
            for input in inputs {
                scope.spawn(|| black_box(work(input)));
            }
        });
        start.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// The number of operations, and a sum that depends on all of them.
struct MultiplyAdd {
    steps: usize,
}

impl WithSimd for MultiplyAdd {
    type Output = (usize, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> (usize, f32) {
        // Opaque, and such that the sums neither grow nor vanish.
        let factor = simd.splat_f32s(black_box(0.5));
        let summand = simd.splat_f32s(black_box(0.5));
        let mut sums = [summand; SUMS];
        for _ in 0..self.steps {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, summand);
            }
        }
        let total = sums.into_iter().fold(simd.splat_f32s(0.0), |a, b| simd.add_f32s(a, b));
        (self.steps * SUMS * S::F32_LANES * 2, simd.reduce_sum_f32s(total))
    }
}

struct Read<'a> {
    numbers: &'a [f32],
}

impl WithSimd for Read<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (chunks, _) = S::as_simd_f32s(self.numbers).0.as_chunks::<SUMS>();
        let mut sums = [simd.splat_f32s(0.0); SUMS];
        for chunk in chunks {
            for (sum, &numbers) in sums.iter_mut().zip(chunk) {
                *sum = simd.add_f32s(*sum, numbers);
            }
        }
        let total = sums.into_iter().fold(simd.splat_f32s(0.0), |a, b| simd.add_f32s(a, b));
        simd.reduce_sum_f32s(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_positive_for_every_number_of_threads() {
        for (threads, expected) in [(1, vec!["1 thread"]), (3, vec!["1 thread", "3 threads"])] {
            let peaks = measure(threads, true);
            assert_eq!(peaks.iter().map(|peak| peak.of.as_str()).collect::<Vec<_>>(), expected);
            assert!(peaks.iter().all(|peak| peak.gflops > 0.0 && peak.gigabytes > 0.0), "{peaks:?}");
        }
    }

    #[test]
    fn a_device_is_measured_by_its_operations() {
        let peak = of_gpu(&Device::Cpu, "cuda:0".to_owned(), true).unwrap();
        assert!(peak.of == "cuda:0" && peak.gflops > 0.0 && peak.gigabytes > 0.0, "{peak:?}");
    }

    #[test]
    fn the_kernels_compute_what_they_claim() {
        let (operations, sum) = arch().dispatch(MultiplyAdd { steps: 100 });
        let lanes = operations / (100 * SUMS * 2);
        // The fixed point of x/2 + 1/2 is 1.
        assert!((sum - (SUMS * lanes) as f32).abs() < 1e-3, "{sum}");
        let numbers = vec![1.0; SUMS * 64];
        assert!((arch().dispatch(Read { numbers: &numbers }) - numbers.len() as f32).abs() < 1e-3);
    }
}
