//! Numbers for tests that Python can make too.

/// Uniform in [0, 1): splitmix64 of the position, seeded with the name's FNV-1a hash.
pub fn hashed(name: &str, position: usize) -> f64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let seed = name.bytes().fold(0xCBF2_9CE4_8422_2325, fnv);
    let mut z = seed.wrapping_add((position as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f64 / f64::from(1u32 << 24)
}
