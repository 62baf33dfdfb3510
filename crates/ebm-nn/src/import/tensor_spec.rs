//! Descriptions of tensors in torch's pickles: views of storages.

use candle_core::{DType, Device, Tensor};

use super::pickle::{Id, Object, Pickle};

/// Largest number of dimensions, more than any parameter has; torch itself stops at 64.
const MAX_RANK: usize = 16;

/// View of a storage.
pub(super) struct TensorSpec<'p> {
    dtype: DType,
    /// Key of the file's storage that has the elements.
    pub(super) storage: &'p str,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

/// Storage in a persistent reference: ('storage', class, key, location, number of elements, view).
pub(super) struct StorageId<'p> {
    pub(super) class: &'p str,
    pub(super) key: &'p str,
    /// Number of elements of the whole storage.
    pub(super) count: usize,
    /// Start of a view in the storage, in elements; 0 unless the file is from torch's first years.
    offset: usize,
}

impl<'p> StorageId<'p> {
    /// Returns `None` if the reference is not to a storage.
    pub(super) fn parse(pickle: &'p Pickle, items: &'p [Id]) -> Option<Self> {
        let &[kind, class, key, _location, count, ref view @ ..] = items else { return None };
        if pickle.text(kind)? != "storage" {
            return None;
        }
        let offset = match view.first().map(|&view| pickle.get(view)) {
            None | Some(Object::Other) => 0,
            Some(Object::Sequence(view)) => pickle.size(*view.get(1)?)?,
            Some(_) => return None,
        };
        let (_, class) = pickle.global(class)?;
        Some(Self { class, key: pickle.text(key)?, count: pickle.size(count)?, offset })
    }
}

/// Returns the size in bytes of an element of torch's storage class, and candle's type if there is one.
fn element(class: &str) -> Option<(usize, Option<DType>)> {
    Some(match class {
        "FloatStorage" => (4, Some(DType::F32)),
        "DoubleStorage" => (8, Some(DType::F64)),
        "HalfStorage" => (2, Some(DType::F16)),
        "BFloat16Storage" => (2, Some(DType::BF16)),
        "ByteStorage" | "BoolStorage" => (1, Some(DType::U8)),
        "ShortStorage" => (2, Some(DType::I16)),
        "IntStorage" => (4, Some(DType::I32)),
        "LongStorage" => (8, Some(DType::I64)),
        "CharStorage" | "QInt8Storage" | "QUInt8Storage" | "UntypedStorage" => (1, None),
        "QInt32Storage" => (4, None),
        "ComplexFloatStorage" => (8, None),
        "ComplexDoubleStorage" => (16, None),
        _ => return None,
    })
}

/// Returns the size in bytes of an element of torch's storage class.
pub(super) fn element_size(class: &str) -> Option<usize> {
    Some(element(class)?.0)
}

impl<'p> TensorSpec<'p> {
    /// Returns `None` for an object that is not a tensor, and an error for a tensor of an unsupported kind.
    pub(super) fn parse(pickle: &'p Pickle<'_>, id: Id) -> Option<Result<Self, String>> {
        let (module, name, args) = pickle.call(id)?;
        match (module, name) {
            // Arguments: the tensor, requires_grad, hooks. A parameter inside a parameter does not occur.
            ("torch._utils", "_rebuild_parameter") => {
                let &tensor = args.first()?;
                let (_, inner, _) = pickle.call(tensor)?;
                (inner != name).then(|| Self::parse(pickle, tensor))?
            }
            // Arguments: storage, offset, size, stride, …
            ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => {
                let not_torchs = || Err("its description in the pickle is not torch's".to_owned());
                Some(Self::of_storage(pickle, args).unwrap_or_else(not_torchs))
            }
            ("torch._utils" | "torch._tensor", name) if name.starts_with("_rebuild_") => {
                Some(Err(format!("a tensor kind that is not read ({name}); save it as a plain dense tensor")))
            }
            _ => None,
        }
    }

    fn of_storage(pickle: &'p Pickle<'_>, args: &[Id]) -> Option<Result<Self, String>> {
        let &[storage, offset, shape, strides, ..] = args else { return None };
        let Object::Persistent(reference) = pickle.get(storage) else { return None };
        let storage = StorageId::parse(pickle, pickle.sequence(*reference)?)?;
        let Some(dtype) = element(storage.class).and_then(|(_, dtype)| dtype) else {
            return Some(Err(format!("values of torch's {} are not read", storage.class)));
        };
        let offset = pickle.size(offset)?.checked_add(storage.offset)?;
        let (shape, strides) = (pickle.sizes(shape)?, pickle.sizes(strides)?);
        let storage = storage.key;
        (shape.len() == strides.len()).then_some(Ok(Self { dtype, storage, offset, shape, strides }))
    }

    /// Creates the tensor from `data`, the content of its storage. It may take at most `budget` bytes, and its
    /// size is subtracted from `budget`.
    pub(super) fn tensor(&self, data: &[u8], budget: &mut usize, device: &Device) -> Result<Tensor, String> {
        let shape = &self.shape;
        let width = self.dtype.size_in_bytes();
        let inside = |(count, end): &(usize, usize)| {
            // A view with more elements than its storage is a broadcast, which is no parameter, or a false shape,
            // which would allocate without bounds.
            end.checked_mul(width).is_some_and(|end| end <= data.len()) && *count <= data.len() / width
        };
        if shape.len() > MAX_RANK {
            return Err(format!("it has {} dimensions", shape.len()));
        }
        let Some((count, end)) = self.extent().filter(inside) else {
            return Err(format!("its shape {shape:?} reaches beyond its storage"));
        };
        let Some(rest) = budget.checked_sub(count * width) else {
            return Err("it and those before it are many times the file: views of the same values".to_owned());
        };
        *budget = rest;
        let gathered;
        let bytes = if count == 0 || self.is_contiguous() {
            &data[self.offset.min(end) * width..][..count * width]
        } else {
            gathered = self.gather(data, count);
            &gathered
        };
        Tensor::from_raw_buffer(bytes, self.dtype, shape, device).map_err(|error| error.to_string())
    }

    /// Returns the number of elements, and the end of the last one in the storage, both in elements.
    fn extent(&self) -> Option<(usize, usize)> {
        // The product must not overflow even with a dimension of 0, because strides are made of the others.
        let bound = self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))?;
        if self.shape.contains(&0) {
            return Some((0, 0));
        }
        let mut last = self.offset;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((dim - 1).checked_mul(stride)?)?;
        }
        Some((bound, last.checked_add(1)?))
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&dim, &stride)| {
            let fits = dim <= 1 || stride == expected;
            expected *= dim;
            fits
        })
    }

    /// Returns the elements of a strided view in row-major order. The view must lie inside `data`.
    fn gather(&self, data: &[u8], count: usize) -> Vec<u8> {
        let width = self.dtype.size_in_bytes();
        let mut bytes = Vec::with_capacity(count * width);
        for flat in 0..count {
            let (mut rest, mut at) = (flat, self.offset);
            for (&dim, &stride) in self.shape.iter().zip(&self.strides).rev() {
                at += rest % dim * stride;
                rest /= dim;
            }
            bytes.extend_from_slice(&data[at * width..][..width]);
        }
        bytes
    }
}
