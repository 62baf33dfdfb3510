//! Weights files: safetensors, fixed point, and files of other kinds.

use std::collections::BTreeMap;

use crate::common::{CPU, formula, message, to_vec};
use candle_core::{DType, Tensor};
use ebm_nn::import;

/// The head of a file of MXNet's parameters.
const MXNET: [u8; 24] = [0x12, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn files_that_are_nothing_are_errors_with_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weights.bin");
    assert!(message(import::load(&path, &CPU)).contains("weights.bin"));
    for bytes in [&b""[..], b"hello", b"PK\x03\x04", b"PK\x05\x06", &[0x80, 2], &[0xFF; 64], &MXNET] {
        std::fs::write(&path, bytes).unwrap();
        for load in [import::load, import::load_safetensors] {
            assert!(message(load(&path, &CPU)).contains("weights.bin"), "{bytes:?}");
        }
    }
    assert!(import::load(dir.path(), &CPU).is_err());
}

#[test]
fn fixed_point_is_decoded_by_each_tensors_exponent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fixed.safetensors");
    let write = |fracs: &[(&str, &str)]| {
        let bytes: Vec<u8> = [-128i8, -1, 0, 3, 127, 64].iter().map(|v| v.cast_unsigned()).collect();
        let float = 1.5f32.to_le_bytes();
        let view = |dtype, shape: &[usize], data| {
            safetensors::tensor::TensorView::new(dtype, shape.to_vec(), data).unwrap()
        };
        let tensors = [
            ("w", view(safetensors::Dtype::I8, &[2, 3], &bytes)),
            ("x", view(safetensors::Dtype::F32, &[1], &float[..])),
        ];
        let metadata = fracs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        std::fs::write(&path, safetensors::serialize(tensors, Some(metadata)).unwrap()).unwrap();
    };
    write(&[("w.frac", "7"), ("source", "a test")]);
    let found = import::load(&path, &CPU).unwrap();
    assert_eq!(to_vec(&found["w"]), [-1., -1. / 128., 0., 3. / 128., 127. / 128., 0.5]);
    assert_eq!((found["w"].dims(), found["w"].dtype()), (&[2, 3][..], DType::F32));
    assert_eq!(to_vec(&found["x"]), [1.5]);
    assert_eq!(to_vec(&import::load_safetensors(&path, &CPU).unwrap()["w"]), to_vec(&found["w"]));
    assert_eq!(import::metadata(&path).unwrap()["source"], "a test");
    write(&[("w.frac", "-2")]);
    assert_eq!(to_vec(&import::load(&path, &CPU).unwrap()["w"])[3], 12.);
    write(&[]);
    assert!(message(import::load(&path, &CPU)).contains("lacks w.frac"));
    for bad in ["", "many", "1e3", "101", "99999999999"] {
        write(&[("w.frac", bad)]);
        assert!(message(import::load(&path, &CPU)).contains("not an integer from"), "{bad}");
    }
}

#[test]
fn a_header_whose_length_looks_like_a_pickle_is_still_safetensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("length");
    let data = 1.5f32.to_le_bytes();
    let mut lengths = BTreeMap::new();
    for padding in 0..1400 {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1], &data[..]).unwrap();
        let metadata = [("padding".to_owned(), "x".repeat(padding))].into();
        let bytes = safetensors::serialize([("x", view)], Some(metadata)).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        if [0x280, 0x380, 0x480, 0x580].contains(&length) && lengths.insert(length, ()).is_none() {
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(to_vec(&import::load(&path, &CPU).unwrap()["x"]), [1.5]);
        }
    }
    assert_eq!(lengths.len(), 4);
}

#[test]
fn an_impossible_header_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb");
    // The length of the first file matches its header; none takes space on the disk.
    for (header, length) in [(450_000_000u64, 450_000_100), (450_000_000, 1000), (0, 3 << 30)] {
        std::fs::write(&path, header.to_le_bytes()).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        for load in [import::load, import::load_safetensors] {
            let start = std::time::Instant::now();
            let said = message(load(&path, &CPU));
            assert!(said.contains(&format!("have {header} bytes")) && said.contains("bomb"), "{said}");
            // Reading and parsing it would take longer.
            assert!(start.elapsed().as_millis() < 100);
        }
        assert!(import::metadata(&path).is_err());
    }
}

#[test]
fn what_no_header_describes_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("extended");
    import::save_safetensors(&path, &BTreeMap::from([("x".to_owned(), formula("x", &[2, 3]))])).unwrap();
    let whole = std::fs::metadata(&path).unwrap().len();
    // It takes no space on the disk.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(6 << 30).unwrap();
    for load in [import::load, import::load_safetensors] {
        let start = std::time::Instant::now();
        let said = message(load(&path, &CPU));
        assert!(said.contains(&format!("its header describes {whole}")), "{said}");
        assert!(start.elapsed().as_millis() < 100);
    }
}

#[test]
fn no_damaged_safetensors_file_panics() {
    let tensors = BTreeMap::from(["a", "b.c"].map(|name| (name.to_owned(), formula(name, &[2, 3]))));
    let original = import::to_safetensors(&tensors).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged");
    let mut state = 3u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let mut refused = 0;
    for round in 0..300 {
        let mut bytes = original.clone();
        match round % 3 {
            0 => bytes.truncate(random(original.len())),
            1 => {
                let at = random(bytes.len());
                bytes[at] ^= 1 << random(8);
            }
            _ => {
                let (from, to) = (random(bytes.len()), random(bytes.len()));
                let len = random(bytes.len() - from.max(to)).min(32);
                bytes.copy_within(from..from + len, to);
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match import::load(&path, &CPU) {
            Ok(found) => assert!(round % 3 != 0 && found.values().all(|tensor| tensor.elem_count() > 0)),
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("damaged"), "{error}");
            }
        }
    }
    assert!(refused > 150, "{refused}");
}

#[test]
fn renaming_drops_and_refuses_collisions() {
    let tensors = BTreeMap::from(["a.x", "a.y", "b.x"].map(|name| (name.to_owned(), formula(name, &[1]))));
    let renamed = import::rename(tensors.clone(), |name| name.strip_prefix("a.").map(str::to_owned)).unwrap();
    assert_eq!(renamed.keys().collect::<Vec<_>>(), ["x", "y"]);
    let message = message(import::rename(tensors, |name| Some(name[2..].to_owned())));
    assert!(message.contains("two tensors would be named x"), "{message}");
}

#[test]
fn equal_tensors_and_metadata_are_equal_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("with.safetensors");
    let tensors = BTreeMap::from(["b", "a"].map(|name| (name.to_owned(), formula(name, &[3, 5]))));
    let awkward = "a \"quoted\" \\ line\nand\ttab, \u{1}, π";
    let metadata: BTreeMap<String, String> =
        (0..9).map(|i| (format!("key {i}"), awkward.repeat(i))).collect();
    for tensors in [tensors, BTreeMap::new()] {
        let mut written = Vec::new();
        for _ in 0..3 {
            import::save_safetensors_with(&path, &tensors, &metadata).unwrap();
            written.push(std::fs::read(&path).unwrap());
        }
        assert!(written.iter().all(|bytes| *bytes == written[0]));
        assert_eq!(import::metadata(&path).unwrap(), metadata);
        let found = import::load(&path, &CPU).unwrap();
        assert!(found.keys().eq(tensors.keys()));
        assert!(found.iter().all(|(name, tensor)| to_vec(tensor) == to_vec(&tensors[name])));
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused_with_their_tensor() {
    let dir = tempfile::tempdir().unwrap();
    for (number, dtype) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .into_iter()
        .flat_map(|number| [DType::F32, DType::F64, DType::F16, DType::BF16].map(|dtype| (number, dtype)))
    {
        let path = dir.path().join("weights.safetensors");
        let mut numbers = vec![1f32; 1000];
        numbers[777] = number;
        let tensor = Tensor::new(numbers, &candle_core::Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        let whole = Tensor::zeros(3, DType::F32, &candle_core::Device::Cpu).unwrap();
        let tensors = BTreeMap::from([("fc.bias".to_owned(), whole), ("fc.weight".to_owned(), tensor)]);
        import::save_safetensors(&path, &tensors).unwrap();
        let said = message(import::load(&path, &candle_core::Device::Cpu));
        assert!(said.contains("fc.weight") && said.contains("not finite"), "{dtype:?}: {said}");
    }
}
