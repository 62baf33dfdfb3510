//! The tests of a program once more, as on a processor without the newest instructions.

/// Runs the program's tests again, in a process that is restricted to AVX2.
#[test]
#[cfg(target_arch = "x86_64")]
fn kernels_are_right_without_newer_instructions() {
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    // On a processor with no newer ones all others would do what they do here.
    let newer = ebm_ops::instruction_sets().unwrap().newest == "AVX-512";
    tests.args(if newer { &["--skip", "kernels_are_right_without"][..] } else { &["held_to_avx2"] });
    let output = tests.env("EBM_SIMD", "avx2").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("held_to_avx2 ... ok"), "{text}");
}

#[test]
fn what_is_used_is_held_to_avx2() {
    let sets = ebm_ops::instruction_sets().unwrap();
    assert!(!sets.is_limited || sets.newest != "AVX-512");
}
