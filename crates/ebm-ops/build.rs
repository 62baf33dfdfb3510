//! With the feature `cuda`: compiles the kernels beside their operations to PTX.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    {
        let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
        cuda::compile_kernels(&out)?;
        // The folder of our stand-ins comes before the folders of candle, because the linker takes the first that has a
        // library.
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

    /// Compiles every `.cu` below `src` to `ptx.rs`, which has a constant for each.
    ///
    /// Fast mathematics is off, because a kernel must agree with its counterpart on the CPU.
    pub fn compile_kernels(out: &Path) -> Result<(), Box<dyn Error>> {
        cudaforge::KernelBuilder::new()
            .source_dir("src")
            // Also watches the headers, and kernels that are added later.
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
