//! A run's directory and its lock.

use ebm_train::{Environment, Error, RunDir};
use std::collections::BTreeMap;
use std::fs;

fn environment() -> Environment {
    let versions = BTreeMap::from([("candle-core".to_string(), "0.11.1".to_string())]);
    let machine = BTreeMap::from([("device".to_string(), "cpu".to_string())]);
    Environment { git_commit: Some("abc123".into()), versions, machine }
}

#[test]
fn a_run_records_what_was_asked_for_and_where_it_ran() {
    let root = tempfile::tempdir().unwrap();
    let runs = root.path().join("runs");
    let run = RunDir::create(&runs, "first-1.0_a", "steps = 3\n", &environment()).unwrap();
    assert_eq!(run.path(), runs.join("first-1.0_a"));
    assert_eq!(fs::read_to_string(run.path().join("config.toml")).unwrap(), "steps = 3\n");
    let json = fs::read(run.path().join("environment.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Environment>(&json).unwrap(), environment());

    let path = run.path().to_path_buf();
    drop(run);
    let error = RunDir::create(&runs, "first-1.0_a", "steps = 4\n", &environment()).unwrap_err();
    assert!(error.to_string().contains("already holds a run"), "{error}");
    assert_eq!(RunDir::open(&path).unwrap().config(), "steps = 3\n");
}

#[test]
fn a_held_run_names_its_holder() {
    let root = tempfile::tempdir().unwrap();
    let run = RunDir::create(root.path(), "run", "", &environment()).unwrap();
    let path = run.path().to_path_buf();
    for error in [
        RunDir::open(&path).unwrap_err(),
        RunDir::create(root.path(), "run", "", &environment()).unwrap_err(),
    ] {
        let holder = format!("in use by process {};", std::process::id());
        assert!(error.to_string().contains(&holder), "{error}");
    }
    drop(run);
    RunDir::open(&path).unwrap();
}

#[test]
fn a_creation_that_was_killed_can_be_repeated() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("lock"), "999999").unwrap();
    fs::write(path.join(".tmp-config.toml-999999"), "steps").unwrap();
    let error = RunDir::open(&path).unwrap_err();
    assert!(error.to_string().contains("config.toml"), "{error}");
    RunDir::create(root.path(), "run", "steps = 1\n", &environment()).unwrap();
    assert!(!path.join(".tmp-config.toml-999999").exists());
}

#[test]
fn names_stay_inside_the_root() {
    let root = tempfile::tempdir().unwrap();
    for name in ["", ".", "..", ".hidden", "a/b", "../a", "a\\b", "a b", "a\n"] {
        let error = RunDir::create(root.path(), name, "", &environment()).unwrap_err();
        assert!(matches!(error, Error::RunName { .. }), "{name:?}: {error}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn an_unusable_root_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = RunDir::create(&file, "run", "", &environment()).unwrap_err();
    assert!(error.to_string().contains("file/run"), "{error}");
    let error = RunDir::open(&root.path().join("absent")).unwrap_err();
    assert!(error.to_string().contains("absent/config.toml"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_read_only_root_is_not_writable() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let locked = root.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let refused = fs::write(locked.join("probe"), b"").err();
    let remedy = "run the test as another user than root";
    if ebm_testing::needs("system", "a folder that this user may not write", remedy, refused).is_none() {
        return;
    }
    let error = RunDir::create(&locked, "run", "", &environment()).unwrap_err();
    assert!(error.to_string().contains("locked/run: "), "{error}");
    assert!(error.to_string().contains("change its permissions"), "{error}");
}
