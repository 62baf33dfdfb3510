//! What of a run others need to predict with it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::model_file::ModelMetadata;

/// What a run has beside its weights that is read in prediction, or says what it is and under which terms.
const BESIDE: [&str; 6] =
    ["README.md", "LICENSE.md", "config.toml", "tracker.toml", "tabular.toml", "regressor.json"];

/// Where `file`, which a model's file `model` names as seen from its own folder, is: there, or, where it moved
/// with the model, by its name beside that or one folder up. Its content says whether it is the right one.
pub fn moved_with(model: &Path, file: &Path) -> PathBuf {
    let folder = model.parent().unwrap_or(Path::new(""));
    let there = folder.join(file);
    let Some(name) = file.file_name().filter(|_| !there.exists()) else { return there };
    let above = folder.parent().unwrap_or(Path::new(".."));
    let moved = [folder, &folder.join(".."), above].map(|folder| folder.join(name));
    moved.into_iter().find(|path| path.exists()).unwrap_or(there)
}

/// Returns the way from `folder` to `file`, both of which exist, for a model that names its base: the whole path of a
/// machine stays out of files that others get.
///
/// # Errors
/// [`Error::Io`] where one of them is not found.
pub fn seen_from(folder: &Path, file: &Path) -> Result<PathBuf> {
    let whole = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().map_err(|source| Error::Io { path: path.to_owned(), action: "find", source })
    };
    let (folder, file) = (whole(folder)?, whole(file)?);
    let shared = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    Ok(up.chain(file.components().skip(shared)).collect())
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
        let whole = |path: &Path| {
            path.canonicalize().map_err(|source| Error::Io { path: path.to_owned(), action: "find", source })
        };
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
    fn a_base_is_named_as_seen_from_its_model() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["weights", "runs/one"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let file = dir.path().join("weights/base.safetensors");
        std::fs::write(&file, "x").unwrap();
        let seen = |folder: &str| seen_from(&dir.path().join(folder), &file).unwrap();
        assert_eq!(seen("weights"), Path::new("base.safetensors"));
        assert_eq!(seen("runs/one"), Path::new("../../weights/base.safetensors"));
        assert!(seen_from(dir.path(), &dir.path().join("none")).unwrap_err().to_string().contains("none"));
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
