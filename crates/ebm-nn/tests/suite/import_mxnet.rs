//! MXNet's `.params`: what is read, and what is refused with its place.

use crate::common::{CPU, formula, golden_path, to_vec};
use candle_core::DType;
use ebm_nn::import;

/// What is said of the golden file with other bytes from `at` on.
fn refused(at: usize, bytes: &[u8]) -> String {
    let mut file = std::fs::read(golden_path("arrays.params")).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    import::of_bytes("a.params".as_ref(), &file, &CPU).unwrap_err().to_string()
}

#[test]
fn arrays_are_read_by_their_names_and_types() {
    let found = import::load(&golden_path("arrays.params"), &CPU).unwrap();
    let expected = [
        ("arg:conv_weight", &[2, 3, 1, 1][..], DType::F32, 1e-6),
        ("aux:norm_moving_var", &[2], DType::F64, 1e-12),
        ("arg:half_bias", &[3, 1], DType::F16, 1e-3),
    ];
    assert_eq!(found.len(), expected.len());
    for (name, shape, dtype, tolerance) in expected {
        assert_eq!((found[name].dims(), found[name].dtype()), (shape, dtype));
        let differences = to_vec(&found[name]).into_iter().zip(to_vec(&formula(name, shape)));
        assert!(differences.into_iter().all(|(a, b)| (a - b).abs() < tolerance), "{name}");
    }
}

#[test]
fn what_is_damaged_is_refused_with_its_place() {
    // 24 bytes of the list, then magic, storage, rank, four extents, device, type and 24 bytes of numbers.
    assert!(refused(24, &[0xC8]).contains("array 0 at byte 24"));
    assert!(refused(28, &[1]).contains("only dense arrays"));
    for rank in [0u8, 33] {
        assert!(refused(32, &[rank]).contains(&format!("{rank} dimensions")));
    }
    let huge = 0x4000_0000_0000_0000u64.to_le_bytes();
    assert!(refused(36, &huge).contains("more than any memory"));
    assert!(refused(36, &1000u64.to_le_bytes()).contains("cut off: 12000 bytes from byte 80 on, of 277"));
    assert!(refused(76, &[5]).contains("the number 5"));
    assert!(
        refused(80, &f32::NAN.to_le_bytes()).contains("arg:conv_weight holds numbers that are not finite")
    );
    assert!(refused(16, &[2]).contains("names for 2 arrays"));
    let file = std::fs::read(golden_path("arrays.params")).unwrap();
    let of_bytes = |bytes: &[u8]| import::of_bytes("a.params".as_ref(), bytes, &CPU);
    for end in 16..file.len() {
        let message = of_bytes(&file[..end]).unwrap_err().to_string();
        assert!(message.contains("a.params") && message.contains("cut off"), "{end}: {message}");
    }
    let longer = [&file[..], &[0]].concat();
    assert!(of_bytes(&longer).unwrap_err().to_string().contains("1 bytes are left"));
    let at = file.windows(4).position(|window| window == b"aux:").unwrap();
    assert!(refused(at, &[0xFF]).contains("the name at byte"));
}
