use super::*;

fn full() -> ModelMetadata {
    ModelMetadata {
        task: "detection".to_owned(),
        method: "ebm".to_owned(),
        seed: Some(3),
        config: "title = \"x\"\n[head]\nwidth = 4\n".to_owned(),
        classes: vec![Class { label: 1, id: 7, name: "raccoon".to_owned() }],
        input: "scale = 255.0\n".to_owned(),
        step_factor: Some(0.0625),
        calibration: "margins = [0.5]\n".to_owned(),
        base: Some(BaseNetwork { digest: "ab".to_owned(), file: Some("../trunk.safetensors".into()) }),
    }
}

#[test]
fn a_file_says_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let tensors =
        BTreeMap::from([("w".to_owned(), Tensor::new(&[1f32, 2.0], &candle_core::Device::Cpu).unwrap())]);
    for metadata in [full(), ModelMetadata::default()] {
        metadata.save(&path, &tensors).unwrap();
        assert_eq!(ModelMetadata::read(&path).unwrap(), Some(metadata));
    }
    import::save_safetensors(&path, &tensors).unwrap();
    assert_eq!(ModelMetadata::read(&path).unwrap(), None);
    let error = ModelMetadata::require(&path, &["age"]).unwrap_err().to_string();
    assert!(error.contains("model.safetensors: it does not say"), "{error}");
}

#[test]
fn what_this_program_did_not_write_is_refused() {
    let path = Path::new("m.safetensors");
    let refused = |change: &dyn Fn(&mut Metadata), part: &str| {
        let mut metadata = full().to_metadata().unwrap();
        change(&mut metadata);
        let error = ModelMetadata::parse(path, &metadata).unwrap_err().to_string();
        assert!(error.contains("m.safetensors") && error.contains(part), "{error}");
    };
    refused(&|m| drop(m.insert(VERSION.to_owned(), "2".to_owned())), "format_version is 2");
    refused(&|m| drop(m.remove("config")), "missing field `config`");
    refused(&|m| drop(m.insert("seed".to_owned(), "many".to_owned())), "\"many\"");
    let error = full().check_task(path, &["age", "head pose"]).unwrap_err().to_string();
    assert!(error.contains("for detection, and one for age or head pose is needed"), "{error}");
}

#[test]
fn what_differs_is_said_with_both_values() {
    let path = Path::new("m.safetensors");
    let other = ModelMetadata {
        seed: Some(4),
        config: "title = \"y\"\n[head]\nwidth = 8\n".to_owned(),
        base: None,
        ..full()
    };
    let check = |matters: fn(&str) -> bool| full().check_same(path, &other, matters);
    let error = check(|name| name != "title").unwrap_err().to_string();
    assert!(
        error.contains("base_digest = ab (here: none), head.width = 4 (here: 8), seed = 3 (here: 4); give"),
        "{error}"
    );
    check(|name| name == "method").unwrap();
    let classes = |name: &str| vec![Class { label: 1, id: 1, name: name.to_owned() }];
    full().check_classes(path, "a.json", &classes("raccoon")).unwrap();
    let error = full().check_classes(path, "a.json", &classes("kangaroo")).unwrap_err().to_string();
    assert!(["\"raccoon\" (id 7)", "a.json", "\"kangaroo\" (id 1)"].iter().all(|part| error.contains(part)));
}

#[test]
fn the_digest_is_of_values_and_names() {
    let one = |name: &str, value: f32| {
        let tensor = Tensor::new(&[value], &candle_core::Device::Cpu).unwrap();
        BTreeMap::from([(name.to_owned(), tensor)])
    };
    let half = one("a", 0.5).into_iter().map(|(name, t)| (name, t.to_dtype(DType::F16).unwrap())).collect();
    assert_eq!(digest(&one("a", 0.5)).unwrap(), digest(&half).unwrap());
    assert_ne!(digest(&one("a", 0.5)).unwrap(), digest(&one("b", 0.5)).unwrap());
    assert_ne!(digest(&one("a", 0.5)).unwrap(), digest(&one("a", 0.25)).unwrap());
}
