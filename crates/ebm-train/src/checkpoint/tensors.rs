//! Conversion of tensor maps to safetensors bytes and back.

use crate::error::{Error, Result};
use candle_core::{DType, Device, Tensor};
use safetensors::tensor::View;
use std::collections::BTreeMap;
use std::path::Path;

/// Encodes tensors, ordered by type and name, so that equal maps give equal bytes.
///
/// # Errors
/// [`Error::NonFinite`], so that no checkpoint with such a value is written; [`Error::Candle`].
pub(crate) fn encode(tensors: &BTreeMap<String, Tensor>, step: usize) -> Result<Vec<u8>> {
    let mut host = BTreeMap::new();
    for (name, tensor) in tensors {
        host.insert(name, on_host(name, tensor, step)?);
    }
    safetensors::serialize(&host, None).map_err(|source| Error::tensor("(all)", source))
}

/// Decodes bytes whose hash was verified. The tensors are on the CPU.
///
/// # Errors
/// [`Error::File`] if the bytes are no safetensors file.
pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let tensors = candle_core::safetensors::load_buffer(bytes, &Device::Cpu);
    let tensors =
        tensors.map_err(|source| Error::corrupt(path.into(), format!("no safetensors file: {source}")))?;
    Ok(tensors.into_iter().collect())
}

/// Copies a finite tensor to the host. A failed copy is an error here; candle's own view would panic.
fn on_host(name: &str, tensor: &Tensor, step: usize) -> Result<Tensor> {
    let fail = |source| Error::tensor(name, source);
    let finite: fn(&[u8]) -> bool = match tensor.dtype() {
        DType::F16 => |bytes| exponents_below_max::<2>(bytes, 0x7c00),
        DType::BF16 => |bytes| exponents_below_max::<2>(bytes, 0x7f80),
        DType::F32 => |bytes| exponents_below_max::<4>(bytes, 0x7f80_0000),
        DType::F64 => |bytes| exponents_below_max::<8>(bytes, 0x7ff0_0000_0000_0000),
        DType::U8 | DType::U32 | DType::I64 => |_| true,
        other => {
            let reason = "checkpoints hold f16, bf16, f32, f64, u8, u32 and i64";
            return Err(fail(candle_core::Error::Msg(format!("it has type {}; {reason}", other.as_str()))));
        }
    };
    let tensor = tensor.to_device(&Device::Cpu).and_then(|tensor| tensor.contiguous()).map_err(fail)?;
    if !finite(&View::data(&tensor)) {
        let remedy = "resume the last checkpoint with a smaller learning rate";
        return Err(Error::NonFinite(step, format!("{name} has a NaN or infinite value; {remedy}")));
    }
    Ok(tensor)
}

/// Returns whether no little-endian float of `N` bytes has all bits of its exponent set, as NaN and infinity have.
fn exponents_below_max<const N: usize>(bytes: &[u8], exponent: u64) -> bool {
    bytes.chunks_exact(N).all(|chunk| {
        let mut bits = [0; 8];
        bits[..N].copy_from_slice(chunk);
        u64::from_le_bytes(bits) & exponent != exponent
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(tensor: Tensor) -> BTreeMap<String, Tensor> {
        BTreeMap::from([("t".to_string(), tensor)])
    }

    fn round_trip(tensor: &Tensor) -> Tensor {
        let bytes = encode(&one(tensor.clone()), 0).unwrap();
        decode(&bytes, Path::new("x")).unwrap().remove("t").unwrap()
    }

    #[test]
    fn every_type_and_shape_comes_back() {
        let values = Tensor::new(&[[0.0f64, -1.5, 3.0], [2.0, 100.0, 7.0]], &Device::Cpu).unwrap();
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::U8, DType::U32, DType::I64] {
            let tensor = values.abs().unwrap().to_dtype(dtype).unwrap();
            // The transposed tensor is not contiguous.
            for tensor in [tensor.clone(), tensor.t().unwrap(), tensor.get(0).unwrap().get(1).unwrap()] {
                let back = round_trip(&tensor);
                assert_eq!((back.dtype(), back.dims()), (dtype, tensor.dims()));
                let [a, b] = [&tensor, &back].map(|t| t.to_dtype(DType::F64).unwrap().flatten_all().unwrap());
                assert_eq!(a.to_vec1::<f64>().unwrap(), b.to_vec1::<f64>().unwrap());
            }
        }
        let empty = Tensor::zeros((0, 3), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(round_trip(&empty).dims(), [0, 3]);
        assert!(decode(&encode(&BTreeMap::new(), 0).unwrap(), Path::new("x")).unwrap().is_empty());
    }

    #[test]
    fn non_finite_tensors_are_refused_by_name() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
                let tensor = Tensor::new(&[1.0, bad, 2.0], &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
                let error = encode(&one(tensor), 12).unwrap_err();
                assert!(
                    matches!(&error, Error::NonFinite(12, reason) if reason.starts_with("t has a NaN")),
                    "{error}"
                );
            }
        }
        let largest = Tensor::new(&[f32::MAX, f32::MIN, f32::MIN_POSITIVE], &Device::Cpu).unwrap();
        encode(&one(largest), 0).unwrap();
    }

    #[test]
    fn equal_maps_give_equal_bytes() {
        let tensor = |v: f32| Tensor::new(&[v, v], &Device::Cpu).unwrap();
        let map: BTreeMap<_, _> = (0..20).map(|i| (format!("layer{i}.weight"), tensor(i as f32))).collect();
        let bytes = encode(&map, 0).unwrap();
        assert_eq!(encode(&decode(&bytes, Path::new("x")).unwrap(), 0).unwrap(), bytes);
    }

    #[test]
    fn garbage_is_corrupt_not_a_panic() {
        for bytes in [&b""[..], b"1234567", &[0xff; 64]] {
            let error = decode(bytes, Path::new("dir/model.safetensors")).unwrap_err();
            assert!(error.to_string().contains("dir/model.safetensors"), "{error}");
        }
    }
}
