//! The operations after a convolution on a GPU, in one pass over its maps: bias, residual, activation.

use candle_core::{Result, Tensor};

use crate::channel_sums::{channel_sums, extents};
use crate::cuda::{self, Argument, Made, by_any_type, elements, made, parameters, sizes, threads_by_channel};
use crate::kernel::{Apply, Gradients, Kernel};
use crate::relu::Activation;

/// Returns `activation` of x (…, C) + bias (C), plus a residual of x's shape. The bias of maps in bf16 is f32.
pub(crate) fn epilogue(
    x: &Tensor,
    bias: &Tensor,
    residual: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor> {
    match residual {
        Some(residual) => Epilogue { activation }.apply([x, bias, residual]),
        None => Epilogue { activation }.apply([x, bias]),
    }
}

/// Kernel on x and the bias and, as an optional third argument, the residual.
#[derive(Clone, Copy)]
struct Epilogue {
    activation: Activation,
}

impl<const N: usize> Kernel<N> for Epilogue {
    const NAME: &'static str = "the end of a convolution";

    fn cuda(&self, arguments: [Argument<'_>; N]) -> Made {
        let (x, bias, residual) = (arguments[0], arguments[1], arguments.get(2).copied());
        let ([_, channels], len, device) = (extents(x.1.shape()), cuda::len(x), cuda::device(x));
        let ([c, n], has_residual) = (sizes([channels, len])?, i32::from(residual.is_some()));
        by_any_type!(x, "conv2d", T => {
            let ([least, most], residual) =
                (self.activation.bounds().map(cuda::wide::<T>), elements::<T>(residual.unwrap_or(x))?);
            let (x, bias) = (elements::<T>(x)?, parameters::<T>(bias)?);
            made!(device, EPILOGUE::"epilogue", T, threads_by_channel(len, channels) => len;
                &x, &bias, &residual; &has_residual, &least, &most, &c, &n)
        })
    }

    /// Returns the gradients. The gradient in a residual is the gradient in x.
    fn gradients(&self, arguments: [&Tensor; N], y: &Tensor, g: &Tensor) -> Gradients<N> {
        let (g, bias) = (self.activation.gradient(g, y)?, arguments[1]);
        let mut gradients = std::array::from_fn(|_| Some(g.clone()));
        gradients[1] = bias.track_op().then(|| channel_sums(&g)?.to_dtype(bias.dtype())).transpose()?;
        Ok(gradients)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::tests::{check_devices, devices, distance, noise_tensor};

    /// Computes the epilogue by single operations, which the CPU has too.
    fn composed(x: &Tensor, bias: &Tensor, residual: Option<&Tensor>, f: Activation) -> Result<Tensor> {
        f.apply(&x.broadcast_add(&bias.to_dtype(x.dtype())?)?, residual).map_err(candle_core::Error::wrap)
    }

    #[test]
    fn one_pass_is_the_single_operations() {
        // Channels that are read one by one, and four at a time.
        for (dtype, channels, tolerance) in
            [(DType::F64, 3, 1e-13), (DType::F64, 8, 1e-13), (DType::F32, 3, 1e-5), (DType::F32, 8, 1e-5)]
        {
            let [x, residual] =
                [1, 2].map(|salt| noise_tensor(&[2, 5, 7, channels], salt).unwrap().to_dtype(dtype).unwrap());
            let bias = noise_tensor(&[channels], 3).unwrap().to_dtype(dtype).unwrap();
            for f in [Activation::None, Activation::Relu, Activation::Relu6] {
                let form = |x: &Tensor, b: &Tensor, r: Option<&Tensor>| {
                    if x.device().is_cpu() { composed(x, b, r, f) } else { epilogue(x, b, r, f) }
                };
                check_devices(|t| form(&t[0], &t[1], None), &[x.clone(), bias.clone()], tolerance).unwrap();
                let all = [x.clone(), bias.clone(), residual.clone()];
                check_devices(|t| form(&t[0], &t[1], Some(&t[2])), &all, tolerance).unwrap();
            }
        }
    }

    #[test]
    fn half_precision_is_rounded_once() {
        let gpus = devices().into_iter().skip(1);
        for (device, channels) in gpus.flat_map(|device| [(device.clone(), 3), (device, 8)]) {
            let tensor = |shape: &[usize], salt, dtype| {
                noise_tensor(shape, salt).unwrap().to_dtype(dtype).unwrap().to_device(&device).unwrap()
            };
            let x = Var::from_tensor(&tensor(&[2, 5, 7, channels], 1, DType::BF16)).unwrap();
            let bias = Var::from_tensor(&tensor(&[channels], 2, DType::F32)).unwrap();
            let residual = tensor(&[2, 5, 7, channels], 3, DType::BF16);
            let y = epilogue(&x, &bias, Some(&residual), Activation::Relu).unwrap();
            let wide = [x.as_tensor(), &residual].map(|t| t.to_dtype(DType::F32).unwrap());
            let expected = composed(&wide[0], &bias, Some(&wide[1]), Activation::Relu).unwrap();
            assert_eq!(distance(&y, &expected.to_dtype(DType::BF16).unwrap()).unwrap(), 0.0);
            let grads = y.to_dtype(DType::F32).unwrap().sqr().unwrap().sum_all().unwrap().backward().unwrap();
            let found = grads.get(&bias).unwrap();
            assert_eq!(found.dtype(), DType::F32);
            let expected = (expected * 2.0).unwrap().sum((0, 1, 2)).unwrap();
            assert!(distance(found, &expected).unwrap() < 1e-2);
        }
    }
}
