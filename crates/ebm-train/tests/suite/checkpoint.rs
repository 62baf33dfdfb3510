//! Commits, damage of every kind, retention.

use candle_core::{Device, Tensor};
use ebm_testing::files::names;
use ebm_train::checkpoint::SCHEMA_VERSION;
use ebm_train::{Checkpoint, CheckpointData, CheckpointState, CheckpointStore, Error, load_latest};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FILES: [&str; 4] = ["model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"];

fn checkpoint(step: usize, loss: f64) -> Checkpoint {
    let tensor = |value: f64| Tensor::new(&[value, -value, 0.5], &Device::Cpu).unwrap();
    let map = |name: &str, value| BTreeMap::from([(name.to_string(), tensor(value))]);
    let state = CheckpointState {
        schema_version: SCHEMA_VERSION,
        step,
        seed: 7,
        config_digest: "d".into(),
        metrics_len: 12,
        guard_hits: vec![3],
    };
    Checkpoint { data: CheckpointData { model: map("w", step as f64), optimizer: map("m", loss) }, state }
}

/// A directory with checkpoints of steps 10, 20, 30.
fn three() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    for step in [10, 20, 30] {
        store.save(&checkpoint(step, 1.0 / step as f64)).unwrap();
    }
    dir
}

fn values(map: &BTreeMap<String, Tensor>) -> Vec<(String, Vec<f64>)> {
    map.iter().map(|(name, tensor)| (name.clone(), tensor.to_vec1().unwrap())).collect()
}

#[test]
fn a_checkpoint_comes_back() {
    let dir = three();
    assert_eq!(names(dir.path()), ["step-00000010", "step-00000020", "step-00000030"]);
    let loaded = load_latest(dir.path()).unwrap();
    let expected = checkpoint(30, 1.0 / 30.0);
    assert!(loaded.skipped.is_empty());
    assert_eq!(loaded.path, dir.path().join("step-00000030"));
    assert_eq!(loaded.checkpoint.state, expected.state);
    assert_eq!(values(&loaded.checkpoint.data.model), values(&expected.data.model));
    assert_eq!(values(&loaded.checkpoint.data.optimizer), values(&expected.data.optimizer));
    assert_eq!(
        names(&loaded.path),
        ["SHA256SUMS", "model.safetensors", "optimizer.safetensors", "state.json"]
    );
}

#[test]
fn equal_checkpoints_have_equal_bytes() {
    let (a, b) = (three(), three());
    for file in FILES.map(|file| format!("step-00000020/{file}")) {
        assert_eq!(
            fs::read(a.path().join(&file)).unwrap(),
            fs::read(b.path().join(&file)).unwrap(),
            "{file}"
        );
    }
}

/// Damages a file of the newest checkpoint in one way after another; each must be noticed and named, and
/// reading must fall back.
fn assert_noticed(dir: &Path, file: &Path, damages: impl Iterator<Item = Vec<u8>>) {
    let good = fs::read(file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    for bytes in damages {
        assert_ne!(bytes, good);
        fs::write(file, &bytes).unwrap();
        let loaded = load_latest(dir).unwrap();
        assert_eq!(loaded.checkpoint.state.step, 20, "{name}");
        let warnings = loaded.skipped.concat();
        // A damaged sums file may be noticed at the file that it describes.
        assert!(warnings.contains(name) || warnings.contains("SHA256SUMS"), "{name}: {warnings}");
    }
    fs::write(file, &good).unwrap();
    assert!(load_latest(dir).unwrap().skipped.is_empty());
}

fn newest_files(dir: &Path) -> Vec<PathBuf> {
    let step = dir.join("step-00000030");
    FILES.iter().map(|file| step.join(file)).collect()
}

#[test]
fn a_flipped_bit_in_any_byte_of_any_file_is_noticed() {
    let dir = three();
    let mut count = 0;
    for file in newest_files(dir.path()) {
        let good = fs::read(&file).unwrap();
        let flips = (0..good.len()).flat_map(|byte| {
            // Neighbouring bytes lose different bits: 5 is odd.
            [5 * byte % 8, (5 * byte + 3) % 8].map(|bit| {
                let mut bytes = good.clone();
                bytes[byte] ^= 1 << bit;
                bytes
            })
        });
        count += 2 * good.len();
        assert_noticed(dir.path(), &file, flips);
    }
    assert!(count >= 1000, "{count}");
}

#[test]
fn every_truncation_and_an_extension_of_every_file_is_noticed() {
    let dir = three();
    for file in newest_files(dir.path()) {
        let good = fs::read(&file).unwrap();
        let longer = [good.as_slice(), b"\n"].concat();
        assert_noticed(dir.path(), &file, (0..good.len()).map(|len| good[..len].to_vec()).chain([longer]));
    }
}

#[test]
fn missing_files_are_noticed() {
    for file in FILES {
        let dir = three();
        fs::remove_file(dir.path().join("step-00000030").join(file)).unwrap();
        let loaded = load_latest(dir.path()).unwrap();
        assert_eq!(loaded.checkpoint.state.step, 20);
        assert!(loaded.skipped[0].contains(file), "{}", loaded.skipped[0]);
    }
}

#[test]
fn the_message_has_both_hashes() {
    let dir = three();
    let step = dir.path().join("step-00000030");
    let recorded = fs::read_to_string(step.join("SHA256SUMS")).unwrap();
    fs::write(step.join("model.safetensors"), b"abc").unwrap();
    let message = &load_latest(dir.path()).unwrap().skipped[0];
    assert!(message.contains("model.safetensors") && message.contains(&recorded[..64]), "{message}");
    assert!(
        message.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        "{message}"
    );
}

#[test]
fn nothing_valid_is_an_error_that_lists_everything() {
    let dir = three();
    for step in [10, 20, 30] {
        fs::write(dir.path().join(format!("step-{step:08}/model.safetensors")), b"x").unwrap();
    }
    let error = load_latest(dir.path()).unwrap_err();
    let Error::NoValidCheckpoint(_, skipped) = &error else { panic!("{error}") };
    assert_eq!(skipped.len(), 3);
    assert!(["00000010", "00000020", "00000030"].iter().all(|step| error.to_string().contains(step)));

    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(load_latest(empty.path()), Err(Error::NoCheckpoint { .. })));
    assert!(matches!(load_latest(&empty.path().join("absent")), Err(Error::NoCheckpoint { .. })));
}

#[test]
fn an_interrupted_commit_leaves_the_previous_checkpoint() {
    let dir = three();
    // Killed while writing.
    let temporary = dir.path().join(".tmp-40-1");
    fs::create_dir(&temporary).unwrap();
    fs::write(temporary.join("model.safetensors"), b"half").unwrap();
    // Killed while removing.
    fs::create_dir(dir.path().join(".old-0-1")).unwrap();
    let loaded = load_latest(dir.path()).unwrap();
    assert_eq!((loaded.checkpoint.state.step, loaded.skipped.len()), (30, 0));
    CheckpointStore::open(dir.path()).unwrap();
    assert_eq!(names(dir.path()), ["step-00000010", "step-00000020", "step-00000030"]);

    // A later one, which was left for an earlier one, gives way to the next commit.
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    store.save(&checkpoint(40, 0.1)).unwrap();
    store.save(&checkpoint(35, 0.1)).unwrap();
    assert_eq!(load_latest(dir.path()).unwrap().checkpoint.state.step, 35);
    assert_eq!(names(dir.path()), ["step-00000020", "step-00000030", "step-00000035"]);
}

#[test]
fn a_step_can_be_committed_again() {
    let dir = three();
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    store.save(&checkpoint(30, 5.0)).unwrap();
    let loaded = load_latest(dir.path()).unwrap();
    assert_eq!(values(&loaded.checkpoint.data.optimizer), values(&checkpoint(30, 5.0).data.optimizer));
    assert!(loaded.skipped.is_empty());
    assert_eq!(names(dir.path()).len(), 3);
}

#[test]
fn the_last_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    for step in 0..5 {
        store.save(&checkpoint(step, 1.0)).unwrap();
    }
    assert_eq!(names(dir.path()), [2, 3, 4].map(|step| format!("step-{step:08}")));
}

#[test]
fn another_schema_is_named_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    let mut newer = checkpoint(5, 1.0);
    newer.state.schema_version = SCHEMA_VERSION + 1;
    store.save(&checkpoint(4, 1.0)).unwrap();
    store.save(&newer).unwrap();
    let error = load_latest(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Schema(_, found) if found == SCHEMA_VERSION + 1), "{error}");
}

#[test]
fn a_poisoned_checkpoint_is_never_written() {
    let dir = three();
    let before = names(dir.path());
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    for part in ["model", "optimizer"] {
        let mut poisoned = checkpoint(40, 1.0);
        let tensor = Tensor::new(&[1.0f32, f32::NAN], &Device::Cpu).unwrap();
        let map = if part == "model" { &mut poisoned.data.model } else { &mut poisoned.data.optimizer };
        map.insert("layer1.bias".into(), tensor);
        let error = store.save(&poisoned).unwrap_err();
        assert!(
            matches!(&error, Error::NonFinite(40, reason) if reason.starts_with("layer1.bias has")),
            "{error}"
        );
    }
    assert_eq!(names(dir.path()), before);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_every_earlier_checkpoint() {
    let Some(full) = ebm_testing::system::full_device() else { return };
    let dir = three();
    let mut store = CheckpointStore::open(dir.path()).unwrap();
    for file in FILES {
        // Where this process will write its next checkpoint, one file lies on a full device.
        let temporary = dir.path().join(format!(".tmp-40-{}", std::process::id()));
        fs::create_dir(&temporary).unwrap();
        std::os::unix::fs::symlink(full, temporary.join(file)).unwrap();
        let error = store.save(&checkpoint(40, 1.0)).unwrap_err();
        assert!(matches!(&error, Error::DiskFull { path, .. } if path.ends_with(file)), "{error}");
        assert!(error.to_string().contains("free some"), "{error}");
        assert_eq!(names(dir.path()), ["step-00000010", "step-00000020", "step-00000030"]);
        let loaded = load_latest(dir.path()).unwrap();
        assert_eq!((loaded.checkpoint.state.step, loaded.skipped.len()), (30, 0));
    }
}

#[cfg(unix)]
#[test]
fn files_have_the_mode_that_the_umask_gives() {
    use std::os::unix::fs::PermissionsExt;
    let dir = three();
    let ordinary = dir.path().join("ordinary");
    fs::write(&ordinary, b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    for file in newest_files(dir.path()) {
        assert_eq!(mode(&file), mode(&ordinary), "{}", file.display());
    }
}

#[test]
fn an_impossible_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = CheckpointStore::open(file.join("checkpoints")).unwrap_err();
    assert!(error.to_string().contains("file/checkpoints"), "{error}");
}
