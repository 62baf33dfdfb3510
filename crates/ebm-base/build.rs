//! With the feature `cuda`, keeps the linker from linking programs with CUDA's libraries; `src/libraries/cuda.rs`
//! opens them when a device is requested.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    {
        let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
        replace_libraries(&out.join("link"))?;
    }
    Ok(())
}

/// Fills `dir` with a replacement for every library that candle asks the linker for: an empty archive, or the
/// static CUDA runtime.
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn replace_libraries(dir: &std::path::Path) -> Result<(), Box<dyn Error>> {
    use std::path::PathBuf;
    const EMPTY: &str = "!<arch>\n";
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)?;
    for library in ["cuda", "nvrtc", "curand", "cublas", "cublasLt", "cudnn", "nccl"] {
        std::fs::write(dir.join(format!("lib{library}.a")), EMPTY)?;
    }
    let target = match std::env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "aarch64" => "targets/sbsa-linux/lib",
        _ => "targets/x86_64-linux/lib",
    };
    let mut roots: Vec<PathBuf> = Vec::new();
    for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"] {
        println!("cargo::rerun-if-env-changed={name}");
        roots.extend(std::env::var_os(name).map(PathBuf::from));
    }
    roots.extend(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from));
    let places = roots.iter().flat_map(|root| ["lib64", "lib", target].map(|lib| root.join(lib)));
    let runtime = dir.join("libcudart.a");
    match places.map(|lib| lib.join("libcudart_static.a")).find(|file| file.exists()) {
        Some(file) => std::os::unix::fs::symlink(file, runtime)?,
        None => std::fs::write(runtime, EMPTY)?,
    }
    println!("cargo::rustc-link-search=native={}", dir.display());
    println!("cargo::metadata=link={}", dir.display());
    Ok(())
}
