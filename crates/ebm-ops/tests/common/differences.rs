//! Finite differences for the gradient tests of the operations, on every available device.
#![allow(dead_code)]

use candle_core::{DType, Device, Result, Tensor, Var};

/// Returns fixed numbers in [-1, 1) that look random: the bits of a counter, mixed with the bits of `salt`.
pub fn noise(len: usize, salt: u64) -> Vec<f64> {
    (0..len as u64)
        .map(|i| {
            let mut z =
                (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt.wrapping_mul(0xD1B5_4A32_D192_ED03);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

/// Returns [`noise`] as an f64 tensor of `shape` on the CPU.
pub fn noise_tensor(shape: &[usize], salt: u64) -> Result<Tensor> {
    Tensor::from_vec(noise(shape.iter().product(), salt), shape, &Device::Cpu)
}

/// Returns the devices that the tests run on: the CPU, and with the feature `cuda` the first GPU if there is one.
pub fn devices() -> Vec<Device> {
    let mut devices = vec![Device::Cpu];
    if let Ok(opened) = ebm_ops::device::open(ebm_ops::device::Choice::Auto)
        && !opened.device.is_cpu()
    {
        devices.push(opened.device);
    }
    devices
}

/// Returns the largest difference of two tensors, which may be on different devices, over the largest magnitude of the second
/// (at least 1).
pub fn distance(a: &Tensor, b: &Tensor) -> Result<f64> {
    let values =
        |t: &Tensor| t.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
    if a.dims() != b.dims() {
        candle_core::bail!("{:?} and {:?} are compared", a.dims(), b.dims());
    }
    let (a, b) = (values(a)?, values(b)?);
    let scale = b.iter().fold(1.0f64, |most, v| most.max(v.abs()));
    // NaN is infinitely far.
    let far = |(a, b): (&f64, &f64)| if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() };
    Ok(a.iter().zip(&b).map(far).fold(0.0, f64::max) / scale)
}

/// Function that is checked. Behind a pointer, because the checks would be compiled for each function otherwise.
type Checked<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;

/// Fails if `f` of f32 or f64 inputs gives, on another device, values or gradients of their weighted sum that differ from the
/// CPU's by more than `tolerance` of the largest.
pub fn check_devices(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    tolerance: f64,
) -> Result<()> {
    by_device(&f, inputs, tolerance)
}

fn by_device(f: Checked<'_>, inputs: &[Tensor], tolerance: f64) -> Result<()> {
    let run = |device: &Device| -> Result<Vec<Tensor>> {
        let vars: Vec<Var> =
            inputs.iter().map(|t| Var::from_tensor(&t.to_device(device)?)).collect::<Result<_>>()?;
        let tracked: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
        let out = f(&tracked)?;
        let weights = noise_tensor(out.dims(), 0x5EED)?.to_dtype(out.dtype())?.to_device(device)?;
        let grads = (&out * weights)?.sum_all()?.backward()?;
        let mut found = vec![out.detach()];
        for var in &vars {
            found.extend(grads.get(var).cloned());
        }
        Ok(found)
    };
    let expected = run(&Device::Cpu)?;
    for device in devices().iter().skip(1) {
        let found = run(device)?;
        if found.len() != expected.len() {
            candle_core::bail!(
                "{} results on {:?}, {} on the CPU",
                found.len(),
                device.location(),
                expected.len()
            );
        }
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let distance = distance(found, expected)?;
            if distance > tolerance {
                candle_core::bail!(
                    "result {number} on {:?} is {distance:e} from the CPU's",
                    device.location()
                );
            }
        }
    }
    Ok(())
}

/// Compares, on the CPU, the gradient of `sum(f(inputs) * fixed weights)` in every element of every f64 input with central
/// differences of step `eps`, then values and gradients on each other device with the CPU's. The weights differ per output
/// element, so that a gradient at the wrong place shows. Fails with the input's number, the element and both values if they
/// differ by more than `tol * max(1, |numeric|)`, or if an input gets no gradient.
pub fn check_gradients(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    eps: f64,
    tol: f64,
) -> Result<()> {
    by_differences(&f, inputs, eps, tol)?;
    by_device(&f, inputs, 1e-9)
}

/// Runs the central differences of [`check_gradients`] on the inputs' device.
pub fn check_gradients_there(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    eps: f64,
    tol: f64,
) -> Result<()> {
    by_differences(&f, inputs, eps, tol)
}

fn by_differences(f: Checked<'_>, inputs: &[Tensor], eps: f64, tol: f64) -> Result<()> {
    let Some(device) = inputs.first().map(|t| t.device().clone()) else { return Ok(()) };
    let vars = inputs.iter().map(Var::from_tensor).collect::<Result<Vec<_>>>()?;
    let tracked: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let out = f(&tracked)?;
    let weights = noise_tensor(out.dims(), 0x5EED)?.to_device(&device)?;
    let scalar = |t: &Tensor| -> Result<f64> {
        let t = t.to_dtype(DType::F64)?;
        (t * &weights)?.sum_all()?.to_scalar::<f64>()
    };
    let grads = (out.to_dtype(DType::F64)? * &weights)?.sum_all()?.backward()?;
    for (number, var) in vars.iter().enumerate() {
        let Some(grad) = grads.get(var) else { candle_core::bail!("input {number} got no gradient") };
        if grad.dims() != var.dims() {
            candle_core::bail!("input {number}: gradient {:?} of an input {:?}", grad.dims(), var.dims());
        }
        let analytic = grad.flatten_all()?.to_vec1::<f64>()?;
        let values = inputs[number].flatten_all()?.to_vec1::<f64>()?;
        for (i, &value) in values.iter().enumerate() {
            let at = |x: f64| -> Result<f64> {
                let mut moved = values.clone();
                moved[i] = x;
                let mut args: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect();
                args[number] = Tensor::from_vec(moved, inputs[number].dims(), inputs[number].device())?;
                scalar(&f(&args)?)
            };
            let numeric = (at(value + eps)? - at(value - eps)?) / (2.0 * eps);
            let error = (numeric - analytic[i]).abs();
            // NaN fails too.
            if error.is_nan() || error > tol * numeric.abs().max(1.0) {
                candle_core::bail!("input {number}, element {i}: analytic {} numeric {numeric}", analytic[i]);
            }
        }
    }
    Ok(())
}
