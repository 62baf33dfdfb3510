//! What of a run others need to predict with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebm_files::Durability;
use ebm_nn::import::WeightBytes;

use crate::error::{Error, Result};
use crate::model_file::{ModelMetadata, file_digest};

/// What a run has beside its weights that is read in prediction, or says what it is and under which terms.
const BESIDE: [&str; 6] =
    ["README.md", "LICENSE.md", "config.toml", "tracker.toml", "tabular.toml", "regressor.json"];

/// Where `file`, which a model's file `model` names as seen from its own folder, is: by its name beside that, there, or,
/// where it moved with the model, by its name one folder up. Its content says whether it is the right one.
pub fn moved_with(model: &Path, file: &Path) -> PathBuf {
    let folder = model.parent().unwrap_or(Path::new(""));
    let there = folder.join(file);
    let Some(name) = file.file_name() else { return there };
    let above = folder.parent().unwrap_or(Path::new(".."));
    let places = [folder.join(name), there.clone(), folder.join("..").join(name), above.join(name)];
    places.into_iter().find(|path| path != model && path.exists()).unwrap_or(there)
}

/// Copies `file`, a network that models in `folder` stand on, into it as `name` with its own ending, unless it lies there,
/// and returns its name. So a model is moved and given away with what it needs, and names no place of the machine that
/// trained it.
///
/// # Errors
/// [`Error::Model`] where `folder` has another file of that name; [`Error::Io`].
pub fn keep_base(file: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let (own, parent) = (file.file_name().unwrap_or_default(), file.parent().unwrap_or(folder));
    if whole(parent).is_ok_and(|parent| whole(folder).is_ok_and(|folder| parent == folder)) {
        return Ok(own.into());
    }
    let name = Path::new(name).with_extension(file.extension().unwrap_or("safetensors".as_ref()));
    let kept = folder.join(&name);
    if !kept.exists() {
        let bytes = WeightBytes::read(file)?.bytes;
        let write = || {
            std::fs::create_dir_all(folder)?;
            ebm_files::replace(&kept, &bytes, Durability::Synced)
        };
        write().map_err(|source| Error::Io { path: kept.clone(), action: "write", source })?;
    } else if file_digest(&kept)? != file_digest(file)? {
        let given = file.display();
        return Err(refusal(&kept, format!("it is not {given}; give the file that the run began with")));
    }
    Ok(name)
}

/// The files by which others predict with `run`, by the path that each has in a folder of their own: those of a
/// trained model's folder, of a folder of such folders, or one file of weights; and the networks that models
/// were trained on top of, where their files say so, beside them.
///
/// # Errors
/// [`Error::Model`] where there are no weights, a network below a model is not found, or two files would have
/// one name; [`Error::Io`].
pub fn published(run: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    if run.is_file() {
        found.insert(name_of(run)?, run.to_owned());
    } else {
        found = files_in(run)?;
        for folder in listed(run)?.into_iter().filter(|path| path.is_dir()) {
            let files = files_in(&folder)?;
            if files.keys().any(|name| is_weights(name)) {
                let inside = name_of(&folder)?;
                found.extend(files.into_iter().map(|(name, path)| (format!("{inside}/{name}"), path)));
            }
        }
    }
    let models: Vec<PathBuf> =
        found.iter().filter(|(name, _)| is_weights(name)).map(|(_, path)| path.clone()).collect();
    if models.is_empty() {
        return Err(refusal(
            run,
            "no .safetensors file is there; give a run's folder, or a model's file".into(),
        ));
    }
    for model in models {
        let base = ModelMetadata::read(&model)?.and_then(|said| said.base?.file);
        let Some(file) = base.map(|file| moved_with(&model, &file)) else { continue };
        let file = whole(&file)?;
        if found.values().any(|known| known.canonicalize().is_ok_and(|known| known == file)) {
            continue;
        }
        let name = name_of(&file)?;
        if let Some(other) = found.insert(name, file.clone()) {
            let reason = format!("{} would have the name of {}; rename one", file.display(), other.display());
            return Err(refusal(&model, reason));
        }
    }
    Ok(found)
}

/// A path without what stands for others.
fn whole(path: &Path) -> Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize().map_err(|source| Error::Io { path: path.to_owned(), action: "find", source })
}

/// The weights in a folder, and what is read beside them.
fn files_in(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for path in listed(folder)?.into_iter().filter(|path| path.is_file()) {
        let name = name_of(&path)?;
        if is_weights(&name) || BESIDE.contains(&name.as_str()) {
            found.insert(name, path);
        }
    }
    Ok(found)
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::Io { path: folder.to_owned(), action: "list", source };
    let entries = std::fs::read_dir(folder).map_err(fail)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(fail)).collect()
}

fn is_weights(name: &str) -> bool {
    name.ends_with(".safetensors")
}

fn name_of(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| refusal(path, "its name is no text; rename it".into()))
}

fn refusal(path: &Path, reason: String) -> Error {
    Error::Model { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;
    use crate::BaseNetwork;

    fn write(path: &Path, base: Option<&str>) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let base = base.map(|file| BaseNetwork { digest: "ab".into(), file: Some(file.into()) });
        let tensors = BTreeMap::from([("w".to_owned(), Tensor::new(&[1f32], &Device::Cpu).unwrap())]);
        ModelMetadata { base, ..ModelMetadata::default() }.save(path, &tensors).unwrap();
    }

    fn names(run: &Path) -> Vec<String> {
        published(run).unwrap().into_keys().collect()
    }

    #[test]
    fn weights_go_with_what_they_stand_on() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write(&at("below.safetensors"), None);
        write(&at("run/model.safetensors"), Some("../below.safetensors"));
        for other in ["config.toml", "README.md", "metrics.jsonl", "environment.json", "lock"] {
            std::fs::write(at("run").join(other), "x").unwrap();
        }
        std::fs::create_dir_all(at("run/checkpoints/step-1")).unwrap();
        let whole = ["README.md", "below.safetensors", "config.toml", "model.safetensors"];
        assert_eq!(names(&at("run")), whole);
        assert_eq!(names(&at("run/model.safetensors")), ["below.safetensors", "model.safetensors"]);
        assert_eq!(names(&at("below.safetensors")), ["below.safetensors"]);

        // Moved together they find each other, and go again.
        std::fs::create_dir(at("moved")).unwrap();
        for (name, path) in published(&at("run")).unwrap() {
            std::fs::copy(path, at("moved").join(name)).unwrap();
        }
        std::fs::remove_file(at("below.safetensors")).unwrap();
        assert_eq!(names(&at("moved")), whole);
        let error = published(&at("run")).unwrap_err().to_string();
        assert!(error.contains("below.safetensors"), "{error}");
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
        // What lies there stays, under its name; what another run began with is not written over.
        assert_eq!(keep_base(&at("given/any.pth"), &at("given"), "base").unwrap(), Path::new("any.pth"));
        std::fs::write(at("given/any.pth"), [1; 64]).unwrap();
        let error = keep_base(&at("given/any.pth"), &at("run"), "base").unwrap_err().to_string();
        assert!(error.contains("run/base.pth") && error.contains("the run began with"), "{error}");
    }

    #[test]
    fn a_folder_of_runs_goes_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("trunk.safetensors"), None);
        for run in ["a-0", "b-0"] {
            write(&dir.path().join(run).join("model.safetensors"), Some("../trunk.safetensors"));
        }
        std::fs::create_dir(dir.path().join("pictures")).unwrap();
        std::fs::write(dir.path().join("pictures/README.md"), "x").unwrap();
        let expected = ["a-0/model.safetensors", "b-0/model.safetensors", "trunk.safetensors"];
        assert_eq!(names(dir.path()), expected);
        let error = published(&dir.path().join("pictures")).unwrap_err().to_string();
        assert!(error.contains("no .safetensors file"), "{error}");
    }
}
