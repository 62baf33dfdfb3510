//! torch's `.pth` files, in both formats.
//!
//! No code is run. Nested dictionaries are found, and a tensor that cannot be read is an error.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};

use super::pickle::{Id, Pickle};
use super::tensor_spec::TensorSpec;
use super::{legacy, zip};

/// Keys of checkpoints for their parameters, in order of search, if the parameters are not at the top.
const KEYS: [&str; 6] = ["state_dict", "model", "model_state_dict", "model_state", "net", "network"];

/// Limit on the size of all tensors, as a multiple of the file's size: tensors that share values get separate
/// copies.
const MAX_SHARING: usize = 8;

/// Returns whether `bytes` are such a file, or a pickle of something else.
pub(super) fn is_pth(bytes: &[u8]) -> bool {
    zip::is_zip(bytes) || legacy::is_pickle(bytes)
}

/// Reads the tensors at the top of the file's dictionary, or else under the first of the usual keys that has any.
/// The error states the problem.
pub(super) fn read(bytes: &[u8], device: &Device) -> Result<BTreeMap<String, Tensor>, String> {
    let (pickle, storages) = if zip::is_zip(bytes) { zip::read(bytes) } else { legacy::read(bytes) }?;
    let mut budget = bytes.len().saturating_mul(MAX_SHARING);
    let mut tensors = BTreeMap::new();
    for &(name, value) in pickle.dictionary(select(&pickle)?).unwrap_or_default() {
        let (Some(name), Some(spec)) = (pickle.text(name), TensorSpec::parse(&pickle, value)) else {
            continue;
        };
        let tensor = spec.and_then(|spec| {
            let data = storages.get(spec.storage);
            let data = data.ok_or_else(|| format!("storage {} is missing", spec.storage))?;
            spec.tensor(data, &mut budget, device)
        });
        tensors.insert(name.to_owned(), tensor.map_err(|reason| format!("{name}: {reason}"))?);
    }
    Ok(tensors)
}

/// Returns the dictionary of tensors: the root, or the dictionary under a usual key.
fn select(pickle: &Pickle<'_>) -> Result<Id, String> {
    const SHOWN: usize = 12;
    let root = pickle.root();
    let Some(entries) = pickle.dictionary(root) else {
        let reason = "it holds no dictionary (a whole pickled module?); save model.state_dict() instead";
        return Err(reason.to_owned());
    };
    let usual = KEYS.iter().filter_map(|key| pickle.value(root, key));
    [root].into_iter().chain(usual).find(|&value| holds_tensors(pickle, value)).ok_or_else(|| {
        let names: Vec<_> = entries.iter().filter_map(|(name, _)| pickle.text(*name)).take(SHOWN).collect();
        let (keys, names) = (KEYS.join(", "), names.join(", "));
        format!("no tensors at its top or under {keys}, only: {names}; save the dictionary of tensors alone")
    })
}

fn holds_tensors(pickle: &Pickle<'_>, dictionary: Id) -> bool {
    let entries = pickle.dictionary(dictionary).unwrap_or_default();
    entries.iter().any(|(_, value)| TensorSpec::parse(pickle, *value).is_some())
}
