//! torch's `.pth` in both of its formats, and damage of every kind.

use std::collections::BTreeMap;

use crate::common::{CPU, golden, golden_path, message, to_vec};
use candle_core::Tensor;
use ebm_nn::import;
use proptest::prelude::*;

/// The tensors that torch itself wrote in the other format.
fn check(found: &BTreeMap<String, Tensor>, golden_name: &str) {
    let mut expected = golden(golden_name);
    expected.insert("flag".to_owned(), Tensor::new(&[1u8, 0, 1], &CPU).unwrap());
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (name, expected) in &expected {
        let found = &found[name];
        assert_eq!((found.dims(), found.dtype()), (expected.dims(), expected.dtype()), "{name}");
        assert_eq!(to_vec(found), to_vec(expected), "{name}");
    }
}

fn check_pth(found: &BTreeMap<String, Tensor>) {
    check(found, "pth");
}

#[test]
fn files_from_before_torch_1_6_are_read() {
    check(&import::load(&golden_path("legacy.pth"), &CPU).unwrap(), "pth");
    check(&import::load(&golden_path("legacy_nested.pth"), &CPU).unwrap(), "legacy");
}

#[test]
fn pth_files_are_read_wherever_their_tensors_are() {
    check_pth(&import::load(&golden_path("flat.pth"), &CPU).unwrap());
    check_pth(&import::load(&golden_path("nested.pth"), &CPU).unwrap());
    let state = import::load(&golden_path("state_dict.pth"), &CPU).unwrap();
    assert_eq!(state.keys().collect::<Vec<_>>(), ["fc.bias", "fc.weight"]);
}

#[test]
fn pth_files_without_tensors_are_errors_that_say_what_to_do() {
    let load = |file| message(import::load(&golden_path(file), &CPU));
    assert!(load("deep.pth").contains("only: epoch, weights; save the dictionary"), "{}", load("deep.pth"));
    assert!(load("empty.pth").contains("no tensors"), "{}", load("empty.pth"));
    assert!(load("legacy_empty.pth").contains("no tensors"), "{}", load("legacy_empty.pth"));
    assert!(load("legacy_module.pth").contains("whole pickled module"), "{}", load("legacy_module.pth"));
    assert!(load("script.pth").contains("TorchScript"), "{}", load("script.pth"));
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut");
    for file in ["flat.pth", "legacy_nested.pth", "pth.safetensors"] {
        let bytes = std::fs::read(golden_path(file)).unwrap();
        for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(import::load(&path, &CPU).is_err(), "{file} cut at {length}");
        }
    }
}

/// Returns the error for a legacy file with `from` replaced by `to` everywhere.
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

/// Returns a file of torch's older format whose object `program` makes.
fn of_program(program: &[u8]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let machine = b"\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    [&magic[..], b"\x80\x02M\xe9\x03.", machine, b"\x80\x02", program, b".", b"\x80\x02]."].concat()
}

#[test]
fn pickles_of_something_else_are_sent_to_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model_final.pkl");
    std::fs::write(&path, b"\x80\x02}U\x05blobs}s.").unwrap();
    let said = message(import::load(&path, &CPU));
    assert!(said.contains("model_final.pkl") && said.contains("docs/weights.md"), "{said}");
    // A complete file around it is a file of torch without tensors.
    std::fs::write(&path, of_program(b"}U\x05blobs}s")).unwrap();
    assert!(message(import::load(&path, &CPU)).contains("only: blobs"));
}

/// Protocol 4, which `torch.save` can be told to write: short texts, globals from the stack, an implicit memo.
#[test]
fn other_protocols_are_read() {
    let text = |text: &str| [&[0x8C, text.len() as u8], text.as_bytes(), b"\x94"].concat();
    let global = |module: &str, name: &str| [&text(module)[..], &text(name), b"\x93"].concat();
    let program = [
        &b"}\x94"[..],
        &text("a"),
        &global("torch._utils", "_rebuild_tensor_v2"),
        b"((",
        &text("storage"),
        &global("torch", "FloatStorage"),
        &text("0"),
        &text("cpu"),
        b"K\x02tQK\0K\x02\x85K\x01\x85\x89NtRs",
    ];
    let mut file = of_program(&program.concat());
    file.truncate(file.len() - 2);
    file.extend(b"]X\x01\0\0\x000a.\x02\0\0\0\0\0\0\0");
    file.extend([1.5f32, -2.0].iter().flat_map(|value| value.to_le_bytes()));
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&path, file).unwrap();
    assert_eq!(to_vec(&import::load(path.path(), &CPU).unwrap()["a"]), [1.5, -2.0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No change of bytes panics; a changed `.pth` with checksums that loads has its tensors unchanged.
    #[test]
    fn damage_never_panics(at in 0.0..1.0f64, with in any::<[u8; 3]>(), count in 1usize..4, file in 0usize..3) {
        let file = ["nested.pth", "legacy_nested.pth", "pth.safetensors"][file];
        let mut bytes = std::fs::read(golden_path(file)).unwrap();
        let from = (at * (bytes.len() - 3) as f64) as usize;
        bytes[from..from + count].copy_from_slice(&with[..count]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        std::fs::write(&path, &bytes).unwrap();
        let loaded = import::load(&path, &CPU);
        let _ = import::load_safetensors(&path, &CPU);
        if let ("nested.pth", Ok(found)) = (file, loaded) {
            check_pth(&found);
        }
    }

    /// Random programs of a pickle's operations.
    #[test]
    fn no_program_panics(codes in proptest::collection::vec(
        proptest::sample::select(&b"(0.12NKMJGXUCTB)]tlaesud}cRbQqrhj\x80\x81\x85\x86\x87\x88\x8a\x8b\x8c\x8e\x92\x93\x94\x95\0\x01\x02\n"[..]),
        1..60,
    )) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program.pth");
        std::fs::write(&path, of_program(&codes)).unwrap();
        prop_assert!(import::load(&path, &CPU).is_err());
    }
}

/// Every byte of a file without checksums, with its lowest, its highest or all its bits flipped.
#[test]
fn no_flipped_byte_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped");
    let bytes = std::fs::read(golden_path("legacy_nested.pth")).unwrap();
    let mut loaded = 0;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= [1, 0x80, 0xFF][at % 3];
        std::fs::write(&path, &changed).unwrap();
        loaded += usize::from(import::load(&path, &CPU).is_ok());
    }
    // Elements and unused parts may change; their descriptions may not.
    assert!(loaded > 0 && loaded < bytes.len(), "{loaded}");
}

/// Objects that are nested and shared so deeply that a reader that recurses or copies would not return.
#[test]
fn depth_and_sharing_are_no_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep.pth");
    let refuse = |program: &[u8]| {
        std::fs::write(&path, of_program(program)).unwrap();
        assert!(message(import::load(&path, &CPU)).contains("no dictionary"));
    };
    refuse(&[&b"N"[..], &vec![0x85; 1 << 20]].concat());
    let doubling: Vec<u8> = (0..=254u8).flat_map(|i| [b'q', i, b'h', i, 0x86]).collect();
    refuse(&[&b"N"[..], &doubling].concat());
}
