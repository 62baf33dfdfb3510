//! torch's format before version 1.6: several pickles, followed by the storages.
//!
//! The pickles are a magic number, the format's version, a description of the machine, the object itself and the
//! list of its storages' keys. The storages follow in the order of that list, each as the number of its elements
//! (8 bytes) and the elements. The format has no checksums, so damage inside the elements cannot be detected.

use std::collections::BTreeMap;

use super::pickle::{Object, Pickle};
use super::tensor_spec::{StorageId, element_size};

const MAGIC: i128 = 0x1950_A86A_20F9_469C_FC6C;
const VERSION: i128 = 1001;

/// Returns whether `bytes` begin with the protocol of a pickle. The length of a safetensors header may look like
/// one, but a brace follows it.
pub(super) fn is_pickle(bytes: &[u8]) -> bool {
    let safetensors = matches!(bytes, [_, _, _, _, 0, 0, 0, 0, b'{', ..]);
    matches!(bytes, [0x80, 2..=5, _, ..]) && !safetensors
}

/// Reads the object and its storages by key.
pub(super) fn read(mut bytes: &[u8]) -> Result<(Pickle<'_>, BTreeMap<String, &[u8]>), String> {
    // The first pickle is an integer of ten bytes.
    let not_torchs =
        || "a pickle, but not a torch .pth file; docs/weights.md says how to convert it".to_owned();
    if !matches!(bytes, [_, _, 0x8A, 10, ..]) {
        return Err(not_torchs());
    }
    let mut next = |what: &str| {
        Pickle::read(&mut bytes).map_err(|reason| format!("the pickle of {what} cannot be read: {reason}"))
    };
    let number = |pickle: &Pickle| match pickle.get(pickle.root()) {
        Object::Int(value) => Some(*value),
        _ => None,
    };
    if number(&next("torch's magic number")?) != Some(MAGIC) {
        return Err(not_torchs());
    }
    if number(&next("the format's version")?) != Some(VERSION) {
        return Err(format!("a version of torch's format that is not {VERSION}, the only one there is"));
    }
    let system = next("the machine")?;
    let little_endian = system.value(system.root(), "little_endian").map(|id| system.get(id));
    if !matches!(little_endian, Some(Object::Bool(true))) {
        return Err("the tensors were saved on a big-endian machine".to_owned());
    }
    let object = next("the object")?;
    let keys = next("the storages' keys")?;
    let storages = storages(&object, &keys, bytes)?;
    Ok((object, storages))
}

fn storages<'a>(
    object: &Pickle,
    keys: &Pickle,
    mut bytes: &'a [u8],
) -> Result<BTreeMap<String, &'a [u8]>, String> {
    let declared = declared(object)?;
    let Some(keys) = keys.sequence(keys.root()).map(|ids| ids.iter().map(|&id| keys.text(id))) else {
        return Err("the list of storages is missing".to_owned());
    };
    let mut storages = BTreeMap::new();
    for key in keys {
        let key = key.ok_or("a storage's key is no text")?;
        let &(class, count) = (declared.get(key)).ok_or_else(|| format!("no tensor is in storage {key}"))?;
        let width = element_size(class)
            .ok_or_else(|| format!("storage {key} is a {class}, of which the size is not known"))?;
        let cut_off =
            || format!("cut off in storage {key} of {count} elements; download or save the file again");
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut_off)?;
        let length = u64::from_le_bytes(*length);
        if usize::try_from(length) != Ok(count) {
            return Err(format!("storage {key} has {length} elements where {count} were announced"));
        }
        let size = count.checked_mul(width).ok_or_else(cut_off)?;
        let (content, rest) = rest.split_at_checked(size).ok_or_else(cut_off)?;
        bytes = rest;
        if storages.insert(key.to_owned(), content).is_some() {
            return Err(format!("storage {key} is there twice"));
        }
    }
    match declared.keys().find(|key| !storages.contains_key(**key)) {
        Some(key) => Err(format!("storage {key} is missing")),
        None => Ok(storages),
    }
}

/// Returns the class and the number of elements of every storage that the object refers to.
fn declared<'p>(object: &'p Pickle) -> Result<BTreeMap<&'p str, (&'p str, usize)>, String> {
    let mut declared = BTreeMap::new();
    for reference in object.persistent() {
        let Some(storage) = StorageId::parse(object, reference) else {
            return Err("it holds a whole pickled module; save model.state_dict() instead".to_owned());
        };
        let description = (storage.class, storage.count);
        if declared.insert(storage.key, description).is_some_and(|before| before != description) {
            return Err(format!("storage {} is described in two ways", storage.key));
        }
    }
    Ok(declared)
}
