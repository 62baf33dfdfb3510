use candle_core::{Device, Var};

use super::*;
use crate::tests::{devices, noise_tensor};

fn var(shape: &[usize], salt: u64) -> Var {
    var_on(&Device::Cpu, shape, salt)
}

fn var_on(device: &Device, shape: &[usize], salt: u64) -> Var {
    Var::from_tensor(&noise_tensor(shape, salt).unwrap().to_device(device).unwrap()).unwrap()
}

#[test]
fn nothing_is_left_of_a_pass() {
    for device in devices() {
        let x = var_on(&device, &[3], 1);
        let shared = same(&x).unwrap();
        let loss = (same(&shared).unwrap() * &shared).unwrap().sum_all().unwrap();
        for _ in 0..2 {
            assert!(loss.backward().is_ok() && backward(&loss).is_ok());
            assert!(COLLECTED.with_borrow(Vec::is_empty));
        }
    }
}

#[test]
fn a_result_is_forgotten_with_its_last_user() {
    let x = var(&[3], 1);
    let first = same(&x).unwrap();
    let id = first.id();
    let second = same(&first).unwrap();
    drop(first);
    assert!(lock(&SOURCES).contains_key(&id));
    drop(second);
    assert!(!lock(&SOURCES).contains_key(&id));
    assert!(!lock(&SOURCES).contains_key(&same(&x.detach()).unwrap().id()));
}

/// The number of a token on a GPU is not read, but nothing of a failed pass is left.
#[test]
fn after_a_failure_the_next_pass_is_right_on_a_gpu() {
    for device in devices().into_iter().skip(1) {
        let x = var_on(&device, &[3], 1);
        let shared = same(&x).unwrap();
        let good = same(&shared).unwrap().sum_all().unwrap();
        let gradient = |gradients: GradStore| gradients.get(&x).unwrap().to_vec1::<f64>().unwrap();
        let expected = gradient(good.backward().unwrap());
        // Depending on the order of the sum, the gradient of `shared` arrives before the failure.
        let stuck = stuck(&same(&shared).unwrap()).unwrap();
        let by_kernels = [&stuck + &shared, &shared + &stuck].map(|sum| sum.unwrap().sum_all().unwrap());
        // An operation of candle's fails.
        let end = var_on(&device, &[3], 2).apply_op1(End).unwrap();
        let by_candle = ((&shared * end).unwrap() + same(&shared).unwrap()).unwrap().sum_all().unwrap();
        for bad in by_kernels.iter().chain([&by_candle]) {
            assert!(backward(bad).is_err());
            assert_eq!(gradient(backward(&good).unwrap()), expected);
        }
        for bad in &by_kernels {
            assert!(bad.backward().is_err());
            assert_eq!(gradient(good.backward().unwrap()), expected);
        }
    }
}

/// Operation of candle's without a gradient.
struct End;

impl CustomOp1 for End {
    fn name(&self) -> &'static str {
        "end"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((storage.clone(), layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let storage = candle_core::backend::BackendStorage::try_clone(storage, layout)?;
        Ok((storage, layout.shape().clone()))
    }
}

/// The identity as a kernel, with a gradient or without one.
struct Same {
    has_gradient: bool,
}

impl Kernel<1> for Same {
    const NAME: &'static str = "same";

    fn shape(&self, [x]: [&Shape; 1]) -> Result<Shape> {
        Ok(x.clone())
    }

    fn host<T: Float>(&self, [x]: [&[T]; 1]) -> Result<Vec<T>> {
        Ok(x.to_vec())
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, [x]: [crate::cuda::Argument<'_>; 1]) -> Result<CudaStorage> {
        candle_core::backend::BackendStorage::try_clone(x.0, x.1)
    }

    fn gradients(&self, _: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Result<[Option<Tensor>; 1]> {
        if self.has_gradient {
            return Ok([Some(grad.clone())]);
        }
        Err(candle_core::Error::BackwardNotSupported { op: Self::NAME }.bt())
    }
}

fn same(x: &Tensor) -> Result<Tensor> {
    Same { has_gradient: true }.apply([x])
}

fn stuck(x: &Tensor) -> Result<Tensor> {
    Same { has_gradient: false }.apply([x])
}

#[test]
fn after_a_failure_the_next_pass_is_right_or_refused() {
    let x = var(&[3], 1);
    let shared = same(&x).unwrap();
    let bad = (stuck(&same(&x).unwrap()).unwrap() + &shared).unwrap().sum_all().unwrap();
    let good = same(&shared).unwrap().sum_all().unwrap();
    let expected = good.backward().unwrap().get(&x).unwrap().to_vec1::<f64>().unwrap();
    assert!(backward(&bad).is_err() && bad.backward().is_err());
    assert!(COLLECTED.with_borrow(Vec::is_empty));
    let next = [(); 3].map(|()| backward(&good).map(|g| g.get(&x).unwrap().to_vec1::<f64>().unwrap()));
    assert!(next.iter().flatten().all(|found| *found == expected));
    assert!(next.iter().any(std::result::Result::is_ok) && next[2].is_ok());
}
