//! Damaged files: the parsers answer, and quickly.
#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

use std::time::{Duration, Instant};

use ebm_fuzz::{Bench, Refusal, targets};
use ebm_seed::Key;
use rand::Rng;

/// Damaged versions of each seed.
const ROUNDS: usize = 1000;
/// Far above what any of the small files takes.
const TIME: Duration = Duration::from_secs(1);

/// A truncation, a few changed bits, a moved piece, or a word that parsers may stumble over, in turn.
fn damaged(original: &[u8], round: usize, rng: &mut impl Rng) -> Vec<u8> {
    const WORDS: [&[u8]; 8] =
        [b"NaN", b"-1", b"1e999", b"99999999999999999999", b"\0", b"\xff\xfe", b"[[[[", b"\"\\u0000\""];
    let mut bytes = original.to_vec();
    let end = bytes.len();
    match round % 4 {
        0 => bytes.truncate(rng.random_range(0..end)),
        1 => (0..3).for_each(|_| bytes[rng.random_range(0..end)] ^= 1 << rng.random_range(0..8)),
        2 => {
            let (from, to) = (rng.random_range(0..end), rng.random_range(0..end));
            let len = (end - from.max(to)).min(rng.random_range(1..64));
            bytes.copy_within(from..from + len, to);
        }
        _ => {
            let at = rng.random_range(0..end);
            bytes.splice(at..at, WORDS[rng.random_range(0..WORDS.len())].iter().copied());
        }
    }
    bytes
}

/// Whether the machine failed, not the file: the file was there all the time.
fn is_of_the_machine(refusal: &Refusal) -> bool {
    matches!(refusal.downcast_ref(), Some(ebm_data::Error::Io { .. }))
        || matches!(refusal.downcast_ref(), Some(ebm_train::Error::Io { .. }))
}

#[test]
fn no_damaged_file_is_too_much_for_its_parser() {
    for target in targets() {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        let bench = Bench::new(target).unwrap();
        let mut refused = 0;
        let mut rng = Key::new(12).split(target.name).rng();
        for seed in &seeds {
            bench
                .read(seed)
                .unwrap_or_else(|refusal| panic!("{}: a seed is refused: {refusal}", target.name));
            for round in 0..ROUNDS {
                let bytes = damaged(seed, round, &mut rng);
                let start = Instant::now();
                if let Err(refusal) = bench.read(&bytes) {
                    refused += 1;
                    assert!(!is_of_the_machine(&refusal), "{}: {refusal}", target.name);
                    assert!(!refusal.to_string().is_empty(), "{}", target.name);
                }
                assert!(start.elapsed() < TIME, "{}: {:?}", target.name, start.elapsed());
            }
            bench.read(seed).unwrap();
        }
        assert!(refused > seeds.len() * ROUNDS / 20, "{}: {refused} refused", target.name);
    }
}
