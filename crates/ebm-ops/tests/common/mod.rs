//! What golden tests share: the formulas of `golden/formulas.py` and comparisons with results of torch. Those of `ebm-nn`,
//! `ebm-detect`, `ebm-face` and `ebm-track` use it too.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};

pub const CPU: Device = Device::Cpu;

pub fn golden_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

pub fn golden(name: &str) -> BTreeMap<String, Tensor> {
    let file = golden_path(&format!("{name}.safetensors"));
    candle_core::safetensors::load(file, &CPU).unwrap().into_iter().collect()
}

/// sin of a scrambled index that a hash of the name shifts, in f64.
pub fn formula(name: &str, shape: &[usize]) -> Tensor {
    let phase = u64::from(crc32(name.as_bytes()) % 1000);
    let count: usize = shape.iter().product();
    let values: Vec<f64> =
        (0..count as u64).map(|i| (((i * 7919 + phase * 104_729) % 1_000_003) as f64 * 0.1).sin()).collect();
    Tensor::from_vec(values, shape, &CPU).unwrap()
}

/// The value of the parameter `name`, in f64.
pub fn value(name: &str, shape: &[usize]) -> Tensor {
    let v = formula(name, shape);
    match name.rsplit('.').next().unwrap() {
        "running_var" => v.affine(0.3, 1.),
        "running_mean" => v.affine(0.1, 0.),
        _ if shape.len() == 4 => {
            let fan_in: usize = shape[1..].iter().product();
            v.affine((2. / fan_in as f64 * 2.).sqrt(), 0.)
        }
        "weight" => v.affine(0.2, 0.5),
        _ => v.affine(0.1, 0.),
    }
    .unwrap()
}

/// 32 evenly spread elements, the sum and the sum of squares.
pub fn summary(t: &Tensor) -> Vec<f64> {
    let flat = to_vec(t);
    let mut found: Vec<f64> = (0..32).map(|i| flat[i * (flat.len() - 1) / 31]).collect();
    found.push(flat.iter().sum());
    found.push(flat.iter().map(|v| v * v).sum());
    found
}

pub fn to_vec(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The largest absolute value; NaN if there is one.
pub fn largest(t: &Tensor) -> f64 {
    to_vec(t).into_iter().map(f64::abs).max_by(f64::total_cmp).unwrap_or_default()
}

/// The largest absolute difference; NaN if there is one.
pub fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.dims(), b.dims());
    largest(&(a - b).unwrap())
}

/// Fails unless `found` is `expected` within `bound` of its largest number, or of 1 if that is larger.
#[track_caller]
pub fn assert_close(found: &Tensor, expected: &Tensor, bound: f64) {
    let (difference, largest) = (difference(found, expected), largest(expected));
    assert!(difference <= bound * largest.max(1.0), "{difference} of {largest}");
}

/// Fails unless `found` is `expected` within `tolerance` of the root mean square of `expected`.
#[track_caller]
pub fn assert_near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let scale = (expected.iter().map(|v| v * v).sum::<f64>() / expected.len() as f64).sqrt();
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let allowed = tolerance * scale.max(f64::MIN_POSITIVE);
        assert!((f - e).abs() <= allowed, "{what}[{i}]: {f}, expected {e} ± {allowed}");
    }
}

/// Compares the [`summary`] of `found` with the golden one: elements against their own scale, the two sums
/// against each other's.
#[track_caller]
pub fn assert_summary(what: &str, found: &Tensor, golden: &Tensor, tolerance: f64) {
    let (found, expected) = (summary(found), to_vec(golden));
    assert_near(what, &found[..32], &expected[..32], tolerance);
    let squares = expected[33];
    assert!((found[33] / squares - 1.).abs() < tolerance, "{what}: Σx² {} is not {squares}", found[33]);
    let count = expected.len() as f64;
    let allowed = tolerance * (squares.sqrt() * count + expected[32].abs());
    assert!((found[32] - expected[32]).abs() < allowed, "{what}: Σx {} is not {}", found[32], expected[32]);
}

pub fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
        crc
    })
}
