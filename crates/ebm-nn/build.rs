//! With the feature `cuda`: compiles the kernels beside their operations to PTX, and keeps the linker from tying programs
//! to CUDA's libraries (`src/device/libraries.rs` opens them when a device is asked for).

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    {
        let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
        cuda::compile_kernels(&out)?;
        #[cfg(target_os = "linux")]
        cuda::replace_libraries(&out.join("link"))?;
    }
    Ok(())
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::error::Error;
    use std::path::{Path, PathBuf};

    /// Every `.cu` below `src`, to `ptx.rs` with a constant for each.
    ///
    /// No fast mathematics: a kernel must agree with its twin on the CPU.
    pub fn compile_kernels(out: &Path) -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-changed=src/ops/kernels.cuh");
        cudaforge::KernelBuilder::new()
            .source_dir("src")
            .arg("-std=c++17")
            .arg("-O3")
            .build_ptx()
            .map_err(|error| {
                format!(
                    "{error}\nnvcc is needed: run `cargo xtask cuda-setup` and source the file that it names"
                )
            })?
            .write(out.join("ptx.rs"))?;
        Ok(())
    }

    /// What candle asks the linker for, it finds in `dir`: nothing, or the static CUDA runtime.
    #[cfg(target_os = "linux")]
    pub fn replace_libraries(dir: &Path) -> Result<(), Box<dyn Error>> {
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
        Ok(())
    }
}
