//! `ebm doctor`: reports the devices, libraries and weights of this machine, and the missing ones.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ebm_base::libraries::{CudaDevice, Inventory};
use ebm_data::fetch::Hub;
use ebm_data::files::names_in;
use ebm_ops::device::{Choice, HAS_CUDA, built_for, open};
use serde::Serialize;
use serde_json::json;

use crate::schema::document;
use crate::weights_path;

/// Arguments of `ebm doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Folder in which weights are looked for.
#[derive(Serialize)]
struct Weights {
    what: &'static str,
    folder: PathBuf,
    /// Names of the weight files and subfolders in the folder.
    entries: Vec<String>,
}

impl Weights {
    fn of(what: &'static str, folder: PathBuf) -> Self {
        let is_weights = |name: &String| {
            let path = folder.join(name);
            path.is_dir() || path.extension().is_some_and(|ending| ending == "safetensors" || ending == "pth")
        };
        let names = names_in(&folder).unwrap_or_default();
        Self { what, entries: names.into_iter().filter(is_weights).collect(), folder }
    }
}

/// Runs the command. It succeeds even if something is missing, since a CPU is enough.
pub fn run(args: &DoctorArgs) -> Result<()> {
    let found = Inventory::take();
    let opened = open(Choice::Auto)?;
    let device = if opened.device.is_cpu() { Choice::Cpu } else { Choice::Cuda(0) }.to_string();
    let unused = || "there is a GPU; build with `--features cuda` to use it".to_owned();
    let reason = opened.why_cpu.or_else(|| (!HAS_CUDA && !found.devices.is_empty()).then(unused));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let weights: Vec<Weights> =
        weights_path::folders().into_iter().map(|(what, folder)| Weights::of(what, folder)).collect();
    if args.json {
        let object = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "built_with_cuda": HAS_CUDA,
            "least_capability": built_for(),
            "processor": { "architecture": std::env::consts::ARCH, "threads": threads },
            "cuda": found,
            "weights": weights,
            "device": device,
            "reason": reason,
        });
        println!("{}", document("doctor", object));
        return Ok(());
    }
    let built = match built_for() {
        Some((major, minor)) => format!("with CUDA, for GPUs from compute capability {major}.{minor} on"),
        None => "without CUDA".to_owned(),
    };
    println!("ebm       {}, built {built}", env!("CARGO_PKG_VERSION"));
    println!("CPU       {}, {threads} threads", std::env::consts::ARCH);
    for line in lines(&found) {
        println!("{line}");
    }
    println!(
        "weights   in this program: FastestDet and a refiner of persons' boxes (predict detection), a tracker \
         (track), networks of ages, for research (predict age)"
    );
    for Weights { what, folder, entries } in &weights {
        let entries = if entries.is_empty() { "nothing".to_owned() } else { entries.join(", ") };
        println!("          {what} {}: {entries}", folder.display());
    }
    if let Ok(hub) = Hub::from_variables(|name| std::env::var(name).ok()) {
        println!("          the Hub's cache {}: for hub:OWNER/NAME", hub.cache.display());
    }
    println!("--device auto is {device}{}", reason.map_or(String::new(), |reason| format!(": {reason}")));
    Ok(())
}

fn lines(found: &Inventory) -> Vec<String> {
    let cuda = found.driver_cuda.as_ref().map(|version| format!("CUDA up to {version}"));
    let mut lines = vec![format!("driver    {}", cuda.as_deref().unwrap_or("none"))];
    if let Some(problem) = &found.driver_problem {
        lines.push(format!("GPU       none: {problem}"));
    }
    lines.extend(found.devices.iter().map(gpu));
    for library in &found.libraries {
        let needed = if library.required { "needed for" } else { "for" };
        let problem = library.problem.as_deref().unwrap_or("not found");
        let missing = || format!("missing, {needed} {}: {problem}", library.needed_for);
        lines.push(format!("{:<12} {}", library.name, library.file.clone().unwrap_or_else(missing)));
    }
    lines
}

fn gpu(device: &CudaDevice) -> String {
    let CudaDevice { number, name, capability: (major, minor), memory_bytes } = device;
    let gib = *memory_bytes as f64 / f64::from(1 << 30);
    format!("GPU       cuda:{number}, {name}, compute capability {major}.{minor}, {gib:.1} GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_base::libraries::Library;

    #[test]
    fn what_is_missing_is_named_with_what_it_is_for() {
        let library = |name, file: Option<&str>| Library {
            name,
            files: &[],
            file: file.map(str::to_owned),
            problem: file.is_none().then(|| "cannot open it".to_owned()),
            needed_for: "products",
            required: true,
        };
        let mut found = Inventory {
            driver_cuda: None,
            driver_problem: Some("no libcuda.so.1".into()),
            devices: vec![],
            libraries: vec![library("cuBLAS", None), library("cuRAND", Some("libcurand.so.10"))],
        };
        assert_eq!(
            lines(&found),
            [
                "driver    none",
                "GPU       none: no libcuda.so.1",
                "cuBLAS       missing, needed for products: cannot open it",
                "cuRAND       libcurand.so.10",
            ]
        );
        found.driver_cuda = Some("13.0".into());
        found.driver_problem = None;
        found.devices =
            vec![CudaDevice { number: 1, name: "A GPU".into(), capability: (9, 0), memory_bytes: 80 << 30 }];
        let lines = lines(&found);
        assert_eq!(lines[0], "driver    CUDA up to 13.0");
        assert_eq!(lines[1], "GPU       cuda:1, A GPU, compute capability 9.0, 80.0 GiB");
    }
}
