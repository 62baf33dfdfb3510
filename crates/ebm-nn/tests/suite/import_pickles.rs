//! Files that are pickles: torch's `.pth` in both of its formats, numpy's arrays, and damage of every kind.

use std::collections::BTreeMap;

use crate::common::{CPU, golden, golden_path, to_vec};
use candle_core::Tensor;
use ebm_nn::import;
use proptest::prelude::*;

fn message(result: ebm_nn::Result<BTreeMap<String, Tensor>>) -> String {
    result.unwrap_err().to_string()
}

/// The tensors that torch itself wrote in the other format.
fn check(found: &BTreeMap<String, Tensor>, golden_name: &str, with_flag: bool) {
    let mut expected = golden(golden_name);
    if with_flag {
        expected.insert("flag".to_owned(), Tensor::new(&[1u8, 0, 1], &CPU).unwrap());
    }
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (name, expected) in &expected {
        let found = &found[name];
        assert_eq!((found.dims(), found.dtype()), (expected.dims(), expected.dtype()), "{name}");
        assert_eq!(to_vec(found), to_vec(expected), "{name}");
    }
}

fn check_pth(found: &BTreeMap<String, Tensor>) {
    check(found, "pth", true);
}

/// The values are those of the golden file, whatever torch or Python wrote them.
#[test]
fn files_from_before_torch_1_6_and_arrays_are_read() {
    let load = |file: &str| import::load(&golden_path(file), &CPU).unwrap();
    check(&load("legacy.pth"), "pth", true);
    check(&load("legacy_nested.pth"), "legacy", true);
    check(&import::load_pth_key(&golden_path("legacy_nested.pth"), "model", &CPU).unwrap(), "legacy", true);
    for file in ["arrays2.pkl", "arrays4.pkl", "arrays_python2.pkl"] {
        check(&load(file), "arrays", false);
    }
}

/// As numpy pickles in protocol 5, by its own description of the format:
/// `_frombuffer(bytes, type, shape, order)`.
#[test]
fn arrays_of_protocol_5_are_read() {
    let array = |bytes: &[u8], order: &[u8]| {
        let text = |text: &[u8]| [&[0x8C, text.len() as u8], text].concat();
        let mut pickle = [&b"\x80\x05}"[..], &text(b"a"), &text(b"numpy._core.numeric")].concat();
        pickle
            .extend([&text(b"_frombuffer")[..], b"\x93(", bytes, &text(b"numpy"), &text(b"dtype")].concat());
        pickle.extend([b"\x93", &text(b"f4")[..], b"\x89\x88\x87R(K\x03", &text(b"<")].concat());
        pickle.extend(
            [&b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tbK\x02K\x03\x86"[..], &text(order)].concat(),
        );
        pickle.extend(b"tRs.");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, pickle).unwrap();
        import::load(file.path(), &CPU)
    };
    let numbers: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let writable = [&[0x96, 24, 0, 0, 0, 0, 0, 0, 0][..], &numbers].concat();
    let constant = [&[b'C', 24][..], &numbers].concat();
    for bytes in [&writable, &constant] {
        let rows = array(bytes, b"C").unwrap()["a"].to_vec2::<f32>().unwrap();
        assert_eq!(rows, [[0., 1., 2.], [3., 4., 5.]]);
        let columns = array(bytes, b"F").unwrap()["a"].to_vec2::<f32>().unwrap();
        assert_eq!(columns, [[0., 2., 4.], [1., 3., 5.]]);
    }
    assert!(message(array(&writable, b"K")).contains("numpy's"));
    assert!(message(array(b"\x97", b"C")).contains("outside of itself"));
}

#[test]
fn pth_files_are_read_wherever_their_tensors_are() {
    check_pth(&import::load_pth(&golden_path("flat.pth"), &CPU).unwrap());
    check_pth(&import::load(&golden_path("flat.pth"), &CPU).unwrap());
    check_pth(&import::load_pth(&golden_path("nested.pth"), &CPU).unwrap());
    check_pth(&import::load_pth_key(&golden_path("nested.pth"), "model", &CPU).unwrap());
    check_pth(&import::load_pth_key(&golden_path("deep.pth"), "weights.inner", &CPU).unwrap());
    let state = import::load_pth(&golden_path("state_dict.pth"), &CPU).unwrap();
    assert_eq!(state.keys().collect::<Vec<_>>(), ["fc.bias", "fc.weight"]);
}

#[test]
fn pth_files_without_tensors_are_errors_that_say_what_to_do() {
    let load = |file| message(import::load_pth(&golden_path(file), &CPU));
    assert!(load("deep.pth").contains("give the key, one of: "), "{}", load("deep.pth"));
    assert!(load("deep.pth").contains("weights"));
    assert!(load("empty.pth").contains("no tensors"), "{}", load("empty.pth"));
    assert!(load("legacy_empty.pth").contains("no tensors"), "{}", load("legacy_empty.pth"));
    assert!(load("legacy_module.pth").contains("whole pickled module"), "{}", load("legacy_module.pth"));
    assert!(load("big_endian.pkl").contains("x: its values are big-endian"), "{}", load("big_endian.pkl"));
    assert!(load("script.pth").contains("TorchScript"), "{}", load("script.pth"));
    let key = message(import::load_pth_key(&golden_path("nested.pth"), "ema", &CPU));
    assert!(key.contains("\"ema\"") && key.contains("model"), "{key}");
    let key = message(import::load_pth_key(&golden_path("deep.pth"), "weights", &CPU));
    assert!(key.contains("no tensors") && key.contains("inner"), "{key}");
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut");
    for file in ["flat.pth", "legacy_nested.pth", "arrays2.pkl", "arrays_python2.pkl", "pth.safetensors"] {
        let bytes = std::fs::read(golden_path(file)).unwrap();
        for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(import::load(&path, &CPU).is_err(), "{file} cut at {length}");
        }
    }
}

/// The bytes of a legacy file with `from` replaced by `to` everywhere, and what is said about it.
fn refusal_of_changed(file: &str, from: &[u8], to: &[u8]) -> String {
    let mut bytes = std::fs::read(golden_path(file)).unwrap();
    let mut at = 0;
    let mut changed = 0;
    while at + from.len() <= bytes.len() {
        if bytes[at..].starts_with(from) {
            bytes.splice(at..at + from.len(), to.iter().copied());
            changed += 1;
        }
        at += 1;
    }
    assert!(changed > 0, "{from:?} is not in {file}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file);
    std::fs::write(&path, &bytes).unwrap();
    message(import::load(&path, &CPU))
}

#[test]
fn legacy_files_that_contradict_themselves_say_where() {
    let says = |from: &[u8], to: &[u8], part: &str| {
        let message = refusal_of_changed("legacy_nested.pth", from, to);
        assert!(message.contains(part), "{part:?} is not in {message}");
    };
    says(b"\x6c\xfc\x9c\x46", b"\x6d\xfc\x9c\x46", "not a torch .pth file");
    says(b"M\xe9\x03.", b"M\xea\x03.", "a version of torch's format");
    says(b"little_endianq\x02\x88", b"little_endianq\x02\x89", "big-endian");
    says(b"HalfStorage", b"HelfStorage", "is a HelfStorage, of which the size is not known");
    says(b"ByteStorage", b"CharStorage", "byte: values of torch's CharStorage are not read");
    says(b"storageq", b"stdragesq", "cannot be read");
    // 24 elements of the shared storage, announced in the pickle (K) and again before its content.
    says(b"K\x18", b"K\x19", "has 24 elements where 25 were announced");
    // Rows of 4 become rows of 40.
    says(b"K\x04K\x01\x86", b"K\x28K\x01\x86", "reaches beyond its storage");
    says(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9", "a tensor kind that is not read");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No change of bytes panics; a changed `.pth` with checksums that loads has its tensors unchanged.
    #[test]
    fn damage_never_panics(at in 0.0..1.0f64, with in any::<[u8; 3]>(), count in 1usize..4, file in 0usize..5) {
        let file = ["nested.pth", "legacy_nested.pth", "arrays2.pkl", "arrays_python2.pkl", "pth.safetensors"][file];
        let mut bytes = std::fs::read(golden_path(file)).unwrap();
        let from = (at * (bytes.len() - 3) as f64) as usize;
        bytes[from..from + count].copy_from_slice(&with[..count]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        std::fs::write(&path, &bytes).unwrap();
        let loaded = import::load(&path, &CPU);
        let _ = import::fixed_point(&path, &CPU);
        if let ("nested.pth", Ok(found)) = (file, loaded) {
            check_pth(&found);
        }
    }

    /// Programs that a pickle's reader might choke on, made of its operations.
    #[test]
    fn no_program_panics(codes in proptest::collection::vec(
        proptest::sample::select(&b"(0.12NKMJGXUCTB)]tlaesud}cRbQqrhj\x80\x81\x85\x86\x87\x88\x8a\x8b\x8c\x8e\x92\x93\x94\x95\0\x01\x02\n"[..]),
        1..60,
    )) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program.pkl");
        std::fs::write(&path, [&b"\x80\x02"[..], &codes, b"."].concat()).unwrap();
        prop_assert!(import::load(&path, &CPU).is_err());
    }
}

/// Every byte of a file without checksums, or of another every fourth, with its lowest, its highest or all
/// its bits flipped.
#[test]
fn no_flipped_byte_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped");
    for (file, step) in [("legacy_nested.pth", 1), ("arrays_python2.pkl", 4)] {
        let bytes = std::fs::read(golden_path(file)).unwrap();
        let mut loaded = 0;
        for at in (0..bytes.len()).step_by(step) {
            let mut changed = bytes.clone();
            changed[at] ^= [1, 0x80, 0xFF][at % 3];
            std::fs::write(&path, &changed).unwrap();
            loaded += usize::from(import::load(&path, &CPU).is_ok());
        }
        // Elements and unused parts may be anything; what describes them may not.
        assert!(loaded > 0 && loaded < bytes.len() / step, "{file}: {loaded}");
    }
}

/// Objects nested and shared so deeply that a reader that recurses or copies would not return.
#[test]
fn depth_and_sharing_are_no_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep.pkl");
    let refuse = |program: &[u8]| {
        std::fs::write(&path, [b"\x80\x02", program, b"."].concat()).unwrap();
        assert!(message(import::load(&path, &CPU)).contains("no dictionary"));
    };
    refuse(&[&b"N"[..], &vec![0x85; 1 << 20]].concat());
    let doubling: Vec<u8> = (0..=254u8).flat_map(|i| [b'q', i, b'h', i, 0x86]).collect();
    refuse(&[&b"N"[..], &doubling].concat());
}
