//! torch's `.pth`: a zip archive of one pickle and one member per storage.
//!
//! The pickle is read by candle's virtual machine, which runs no code; what it yields is interpreted
//! here, so that nested dictionaries are found and nothing is skipped in silence.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::pickle::{Object, Stack};
use candle_core::{DType, Device, Tensor};

use super::zip::{self, Archive};
use super::{format_error, read};
use crate::Result;

/// Where checkpoints keep their parameters, in order of search, when not at the top.
const KEYS: [&str; 6] = ["state_dict", "model", "model_state_dict", "model_state", "net", "network"];

/// The largest pickle that is read; that of a ResNet-50 takes 0.05 MB.
const MAX_PICKLE_BYTES: usize = 64 << 20;

/// Reads the tensors of a `.pth` file that torch ≥ 1.6 saved: those at the top of its dictionary, or else
/// those under the first of the usual keys (`state_dict`, `model`, …) that holds any.
///
/// # Errors
/// When the file cannot be read, is no such file, or holds no tensors in these places.
pub fn load_pth(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    from_bytes(path, &read(path)?, None, device)
}

/// [`load_pth`] for the dictionary under `key`; dots lead deeper (`"model.backbone"`).
///
/// # Errors
/// As [`load_pth`]; an unknown key is answered with the known ones.
pub fn load_pth_key(path: &Path, key: &str, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    from_bytes(path, &read(path)?, Some(key), device)
}

/// Whether `bytes` begin as torch's format before 1.6 does: with a pickled integer of ten bytes.
pub(super) fn is_legacy(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, 0x8A, 10, ..])
}

pub(super) fn from_bytes(
    path: &Path,
    bytes: &[u8],
    key: Option<&str>,
    device: &Device,
) -> Result<BTreeMap<String, Tensor>> {
    if is_legacy(bytes) {
        let reason = "torch's format from before 1.6, which is not read; convert it once in Python: \
                      torch.save(torch.load(old, map_location='cpu', weights_only=True), new)";
        return Err(format_error(path, reason));
    }
    if !zip::is_zip(bytes) {
        return Err(format_error(path, "not a torch .pth file (a zip archive); is it complete?"));
    }
    let archive = Archive::open(path, bytes)?;
    let Some(pickle) =
        archive.names().find(|n| *n == "data.pkl" || n.ends_with("/data.pkl")).map(str::to_owned)
    else {
        return Err(format_error(path, "a zip archive without torch's data.pkl"));
    };
    let prefix = pickle.trim_end_matches("data.pkl").to_owned();
    if archive
        .names()
        .any(|name| *name == format!("{prefix}code") || name.starts_with(&format!("{prefix}code/")))
    {
        return Err(format_error(
            path,
            "a TorchScript module; save its state_dict() with torch.save instead",
        ));
    }
    let order = format!("{prefix}byteorder");
    if archive.names().any(|name| name == order) && archive.read(path, &order)? != b"little" {
        return Err(format_error(path, "the tensors were saved on a big-endian machine"));
    }
    let root = unpickle(path, archive.read(path, &pickle)?)?;
    let dictionary = select(path, root, key)?;
    let file = File { path, archive, prefix };
    let mut tensors = BTreeMap::new();
    for (name, value) in dictionary {
        if let (Object::Unicode(name), Some(spec)) = (name, TensorSpec::parse(&value)) {
            let spec = spec.map_err(|reason| format_error(path, format!("{name}: {reason}")))?;
            tensors.insert(name.clone(), file.tensor(&name, &spec, device)?);
        }
    }
    Ok(tensors)
}

fn unpickle(path: &Path, bytes: &[u8]) -> Result<Object> {
    let unreadable = |reason: String| format_error(path, format!("its pickle cannot be read: {reason}"));
    if bytes.len() > MAX_PICKLE_BYTES {
        return Err(unreadable(format!("{} bytes are more than {MAX_PICKLE_BYTES}", bytes.len())));
    }
    let mut stack = Stack::empty();
    let mut reader = bytes;
    stack.read_loop(&mut reader).map_err(|error| unreadable(error.to_string()))?;
    stack.finalize().map_err(|error| unreadable(error.to_string()))
}

type Dictionary = Vec<(Object, Object)>;

/// The dictionary of tensors: the one under `key`, or the root, or the one under a usual key.
fn select(path: &Path, root: Object, key: Option<&str>) -> Result<Dictionary> {
    let Some(mut dictionary) = into_dictionary(root) else {
        let reason = "it holds no dictionary (a whole pickled module?); save model.state_dict() instead";
        return Err(format_error(path, reason));
    };
    if let Some(key) = key {
        for part in key.split('.') {
            let known = names(&dictionary);
            dictionary = take(dictionary, part).ok_or_else(|| {
                format_error(path, format!("no dictionary under {part:?} of {key:?}; known: {known}"))
            })?;
        }
        if holds_tensors(&dictionary) {
            return Ok(dictionary);
        }
        let reason = format!("no tensors under {key:?}, only: {}", names(&dictionary));
        return Err(format_error(path, reason));
    }
    if holds_tensors(&dictionary) {
        return Ok(dictionary);
    }
    let known = names(&dictionary);
    let found = KEYS.iter().find(|key| {
        (dictionary.iter())
            .any(|(name, value)| is_name(name, key) && dictionary_of(value).is_some_and(holds_tensors))
    });
    (found.and_then(|key| take(dictionary, key))).ok_or_else(|| {
        let reason =
            format!("no tensors at its top or under {}; give the key, one of: {known}", KEYS.join(", "));
        format_error(path, reason)
    })
}

/// An ordered dictionary with attributes (a `state_dict` with its `_metadata`) comes as a build of it.
fn into_dictionary(object: Object) -> Option<Dictionary> {
    match object {
        Object::Dict(dictionary) => Some(dictionary),
        Object::Build { callable, .. } => into_dictionary(*callable),
        _ => None,
    }
}

fn dictionary_of(object: &Object) -> Option<&[(Object, Object)]> {
    match object {
        Object::Dict(dictionary) => Some(dictionary),
        Object::Build { callable, .. } => dictionary_of(callable),
        _ => None,
    }
}

fn take(dictionary: Dictionary, key: &str) -> Option<Dictionary> {
    dictionary.into_iter().find(|(name, _)| is_name(name, key)).and_then(|(_, value)| into_dictionary(value))
}

fn is_name(object: &Object, name: &str) -> bool {
    matches!(object, Object::Unicode(text) if text == name)
}

fn holds_tensors(dictionary: &[(Object, Object)]) -> bool {
    dictionary.iter().any(|(_, value)| TensorSpec::parse(value).is_some())
}

fn names(dictionary: &[(Object, Object)]) -> String {
    const SHOWN: usize = 12;
    let names: Vec<_> = (dictionary.iter())
        .filter_map(|(name, _)| if let Object::Unicode(name) = name { Some(name.as_str()) } else { None })
        .take(SHOWN)
        .collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// A tensor as torch pickles it: a view of a storage.
struct TensorSpec {
    dtype: DType,
    storage: String,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl TensorSpec {
    /// `None` for an object that is no tensor; an error for a tensor that is not understood.
    fn parse(object: &Object) -> Option<std::result::Result<Self, String>> {
        let Object::Reduce { callable, args } = object else { return None };
        let (Object::Class { module_name, class_name }, Object::Tuple(args)) = (&**callable, &**args) else {
            return None;
        };
        match (module_name.as_str(), class_name.as_str()) {
            // Arguments: the tensor, requires_grad, hooks.
            ("torch._utils", "_rebuild_parameter") => Self::parse(args.first()?),
            // Arguments: storage, offset, size, stride, …
            ("torch._utils", "_rebuild_tensor_v2") => {
                let understood = Self::from_args(args);
                Some(
                    understood
                        .unwrap_or_else(|| Err("its description in the pickle is not torch's".to_owned())),
                )
            }
            ("torch._utils" | "torch._tensor", name) if name.starts_with("_rebuild_") => {
                Some(Err(format!("a tensor kind that is not read ({name}); save it as a plain dense tensor")))
            }
            _ => None,
        }
    }

    fn from_args(args: &[Object]) -> Option<std::result::Result<Self, String>> {
        let [Object::PersistentLoad(storage), offset, Object::Tuple(shape), Object::Tuple(strides), ..] =
            args
        else {
            return None;
        };
        let Object::Tuple(storage) = &**storage else { return None };
        let [_, Object::Class { class_name, .. }, Object::Unicode(storage), ..] = storage.as_slice() else {
            return None;
        };
        let dtype = match class_name.as_str() {
            "FloatStorage" => DType::F32,
            "DoubleStorage" => DType::F64,
            "HalfStorage" => DType::F16,
            "BFloat16Storage" => DType::BF16,
            "ByteStorage" | "BoolStorage" => DType::U8,
            "ShortStorage" => DType::I16,
            "IntStorage" => DType::I32,
            "LongStorage" => DType::I64,
            other => return Some(Err(format!("values of torch's {other} are not read"))),
        };
        let sizes = |objects: &[Object]| objects.iter().map(size).collect::<Option<Vec<_>>>();
        let (shape, strides) = (sizes(shape)?, sizes(strides)?);
        (shape.len() == strides.len()).then_some(())?;
        Some(Ok(Self { dtype, storage: storage.clone(), offset: size(offset)?, shape, strides }))
    }

    /// The number of elements and the end of the last one in the storage, both in elements.
    fn extent(&self) -> Option<(usize, usize)> {
        let count = self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        let mut last = self.offset;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add(dim.saturating_sub(1).checked_mul(stride)?)?;
        }
        Some((count, if count == 0 { self.offset } else { last.checked_add(1)? }))
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(&dim, &stride)| {
            let fits = dim <= 1 || stride == expected;
            expected *= dim;
            fits
        })
    }
}

fn size(object: &Object) -> Option<usize> {
    match *object {
        Object::Int(value) => usize::try_from(value).ok(),
        Object::Long(value) => usize::try_from(value).ok(),
        _ => None,
    }
}

struct File<'a> {
    path: &'a Path,
    archive: Archive<'a>,
    prefix: String,
}

impl File<'_> {
    fn tensor(&self, name: &str, spec: &TensorSpec, device: &Device) -> Result<Tensor> {
        let data = self.archive.read(self.path, &format!("{}data/{}", self.prefix, spec.storage))?;
        let width = spec.dtype.size_in_bytes();
        let inside = |(count, end): &(usize, usize)| {
            // A broadcast view may have more elements than its storage: it is no parameter, and a lie about
            // the shape would allocate without bounds.
            end.checked_mul(width).is_some_and(|end| end <= data.len()) && *count <= data.len() / width
        };
        let Some((count, end)) = spec.extent().filter(inside) else {
            let reason = format!("{name} of shape {:?} reaches beyond its storage", spec.shape);
            return Err(format_error(self.path, reason));
        };
        let gathered;
        let bytes = if count == 0 || spec.is_contiguous() {
            &data[spec.offset.min(end) * width..][..count * width]
        } else {
            gathered = gather(data, spec, count);
            &gathered
        };
        Tensor::from_raw_buffer(bytes, spec.dtype, &spec.shape, device)
            .map_err(|error| format_error(self.path, format!("{name}: {error}")))
    }
}

/// The elements of a strided view in row-major order; the view was checked to lie inside `data`.
fn gather(data: &[u8], spec: &TensorSpec, count: usize) -> Vec<u8> {
    let width = spec.dtype.size_in_bytes();
    let mut bytes = Vec::with_capacity(count * width);
    for flat in 0..count {
        let (mut rest, mut at) = (flat, spec.offset);
        for (&dim, &stride) in spec.shape.iter().zip(&spec.strides).rev() {
            at += rest % dim * stride;
            rest /= dim;
        }
        bytes.extend_from_slice(&data[at * width..][..width]);
    }
    bytes
}
