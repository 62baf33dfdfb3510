//! With the feature `cuda`: compiles the kernels beside their operations to PTX.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    {
        let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
        cuda::compile_kernels(&out)?;
        // Ours before candle's: the linker takes the first folder that has a library.
        if let Some(stand_ins) = std::env::var_os("DEP_EBM_BASE_LINK") {
            println!("cargo::rustc-link-search=native={}", stand_ins.display());
        }
    }
    Ok(())
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::error::Error;
    use std::path::Path;

    /// Every `.cu` below `src`, to `ptx.rs` with a constant for each.
    ///
    /// No fast mathematics: a kernel must agree with its twin on the CPU.
    pub fn compile_kernels(out: &Path) -> Result<(), Box<dyn Error>> {
        cudaforge::KernelBuilder::new()
            .source_dir("src")
            // The headers too, and kernels that come.
            .watch(["src"])
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
}
