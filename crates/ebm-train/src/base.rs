//! The base network of a run, which its models need: how its file is found, and how it is copied beside them.

use std::path::{Path, PathBuf};

use ebm_base::files::Durability;
use ebm_nn::import::WeightBytes;

use crate::error::{Error, Result};
use crate::model_file::file_digest;

/// Finds `file`, which the model's file `model` names relative to its own folder. It looks for the name beside
/// the model, for the path itself, and, if the file was moved with the model, for the name one folder up. The
/// caller checks the content.
pub fn moved_with(model: &Path, file: &Path) -> PathBuf {
    let folder = model.parent().unwrap_or(Path::new(""));
    let there = folder.join(file);
    let Some(name) = file.file_name() else { return there };
    let above = folder.parent().unwrap_or(Path::new(".."));
    let places = [folder.join(name), there.clone(), folder.join("..").join(name), above.join(name)];
    places.into_iter().find(|path| path != model && path.exists()).unwrap_or(there)
}

/// Copies `file`, the base network of models in `folder`, into that folder as `name` with its own extension,
/// unless it is there, and returns its name. The model can then be moved and shared together with its base, and
/// its file names no path of the machine that trained it.
///
/// # Errors
/// [`Error::File`] if `folder` has a different file of that name; [`Error::Io`].
pub fn keep_base(file: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let (own, parent) = (file.file_name().unwrap_or_default(), file.parent().unwrap_or(folder));
    if canonical(parent).is_ok_and(|parent| canonical(folder).is_ok_and(|folder| parent == folder)) {
        return Ok(own.into());
    }
    let name = Path::new(name).with_extension(file.extension().unwrap_or("safetensors".as_ref()));
    let kept = folder.join(&name);
    if !kept.exists() {
        let bytes = WeightBytes::read(file)?.bytes;
        let write = || {
            std::fs::create_dir_all(folder)?;
            ebm_base::files::replace(&kept, &bytes, Durability::Synced)
        };
        write().map_err(|source| Error::Io { path: kept.clone(), action: "write", source })?;
    } else if file_digest(&kept)? != file_digest(file)? {
        let given = file.display();
        return Err(refusal(&kept, format!("it is not {given}; give the file that the run began with")));
    }
    Ok(name)
}

/// Returns a path without symbolic links and relative parts.
fn canonical(path: &Path) -> Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize().map_err(|source| Error::Io { path: path.to_owned(), action: "find", source })
}

fn refusal(path: &Path, reason: String) -> Error {
    Error::File(path.to_owned(), reason)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use candle_core::{Device, Tensor};

    use super::*;
    use crate::{BaseNetwork, ModelMetadata};

    fn write(path: &Path, base: Option<&str>) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let base = base.map(|file| BaseNetwork { digest: "ab".into(), file: Some(file.into()) });
        let tensors = BTreeMap::from([("w".to_owned(), Tensor::new(&[1f32], &Device::Cpu).unwrap())]);
        ModelMetadata { base, ..ModelMetadata::default() }.save(path, &tensors).unwrap();
    }

    #[test]
    fn a_base_is_kept_with_what_stands_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write(&at("given/any.pth"), None);
        write(&at("run/model.safetensors"), Some("../base.pth"));
        for _ in 0..2 {
            assert_eq!(keep_base(&at("given/any.pth"), &at("run"), "base").unwrap(), Path::new("base.pth"));
        }
        let bytes = |name: &str| std::fs::read(at(name)).unwrap();
        assert_eq!(bytes("run/base.pth"), bytes("given/any.pth"));
        assert_eq!(moved_with(&at("run/model.safetensors"), Path::new("../base.pth")), at("run/base.pth"));
        // A file in the folder keeps its name; the base of another run is not overwritten.
        assert_eq!(keep_base(&at("given/any.pth"), &at("given"), "base").unwrap(), Path::new("any.pth"));
        std::fs::write(at("given/any.pth"), [1; 64]).unwrap();
        let error = keep_base(&at("given/any.pth"), &at("run"), "base").unwrap_err().to_string();
        assert!(error.contains("run/base.pth") && error.contains("the run began with"), "{error}");
    }
}
