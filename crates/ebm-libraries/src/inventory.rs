//! What there is to compute on with CUDA, and for several processes. The driver is asked directly, so that a
//! build without the feature can tell too.

use std::ffi::{c_char, c_int, c_void};

use serde::Serialize;

use crate::shared_library::{SharedLibrary, open_first, open_first_mpi};

/// What was found of CUDA on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Inventory {
    /// The version of the kernel's module, if it is loaded.
    pub kernel_module: Option<String>,
    /// The newest CUDA that the driver supports, `major.minor`.
    pub driver_cuda: Option<String>,
    /// Why the driver does not answer.
    pub driver_problem: Option<String>,
    /// The GPUs.
    pub devices: Vec<CudaDevice>,
    /// The libraries that computing on a GPU, or in several processes, opens.
    pub libraries: Vec<Library>,
}

/// A GPU.
#[derive(Clone, Debug, Serialize)]
pub struct CudaDevice {
    /// Its number, N of `cuda:N`.
    pub number: usize,
    /// What it is called.
    pub name: String,
    /// Its compute capability, `(major, minor)`.
    pub capability: (i32, i32),
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// How many multiprocessors it has.
    pub multiprocessors: i32,
}

/// A library that is opened at run time.
#[derive(Clone, Debug, Serialize)]
pub struct Library {
    /// Its name.
    pub name: &'static str,
    /// The file that was opened.
    pub file: Option<String>,
    /// Why none was opened.
    pub problem: Option<String>,
    /// What it is needed for.
    pub needed_for: &'static str,
    /// Whether nothing runs on a GPU without it.
    pub required: bool,
}

/// A library to look for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: &'static str,
    /// The files that it may be, the preferred one first.
    pub files: &'static [&'static str],
    /// What it is needed for.
    pub needed_for: &'static str,
    /// Whether nothing runs on a GPU without it.
    pub required: bool,
}

pub(crate) const DRIVER: Wanted = Wanted {
    name: "CUDA driver",
    files: &["libcuda.so.1", "libcuda.so"],
    needed_for: "everything on a GPU; it comes with NVIDIA's driver",
    required: true,
};
pub(crate) const CUBLAS: Wanted = Wanted {
    name: "cuBLAS",
    files: &["libcublas.so.13", "libcublas.so.12", "libcublas.so"],
    needed_for: "matrix products",
    required: true,
};
pub(crate) const CURAND: Wanted = Wanted {
    name: "cuRAND",
    files: &["libcurand.so.10", "libcurand.so"],
    needed_for: "opening a device",
    required: true,
};
pub(crate) const CUDNN: Wanted = Wanted {
    name: "cuDNN",
    files: &["libcudnn.so.9", "libcudnn.so"],
    needed_for: "fast convolutions; without it they are products of image columns",
    required: false,
};
/// NVIDIA's NCCL.
pub const NCCL: Wanted = Wanted {
    name: "NCCL",
    files: &["libnccl.so.2", "libnccl.so"],
    needed_for: "training on several GPUs",
    required: false,
};
/// Open MPI's and MPICH's; Open MPI's first.
pub const MPI: Wanted = Wanted {
    name: "MPI",
    files: &["libmpi.so.40", "libmpi.so.12", "libmpi.so"],
    needed_for: "training in several processes without NCCL",
    required: false,
};

impl Inventory {
    /// Looks for the driver, its devices, CUDA's libraries and MPI.
    #[must_use]
    pub fn take() -> Self {
        let libraries = [DRIVER, CUBLAS, CURAND, CUDNN, NCCL, MPI].map(|wanted| {
            let Wanted { name, files, needed_for, required } = wanted;
            let opened = if name == MPI.name { open_first_mpi(files) } else { open_first(files) };
            let (file, problem) = match opened {
                Ok((_, file)) => (Some(file), None),
                Err(problem) => (None, Some(problem)),
            };
            Library { name, file, problem, needed_for, required }
        });
        let mut found = Self {
            kernel_module: kernel_module(),
            driver_cuda: None,
            driver_problem: None,
            devices: Vec::new(),
            libraries: libraries.into(),
        };
        match open_first(DRIVER.files).and_then(|(library, _)| Driver::of(library)) {
            Ok(driver) => {
                found.driver_cuda =
                    driver.version().map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
                match driver.devices() {
                    Ok(devices) => found.devices = devices,
                    Err(why) => found.driver_problem = Some(why),
                }
            }
            Err(why) => found.driver_problem = Some(why),
        }
        found
    }
}

/// From the first line of the file in which the kernel's module tells its version.
fn kernel_module() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let words = text.lines().next()?.split_whitespace();
    words
        .into_iter()
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

macro_rules! driver {
    ($($field:ident = $function:literal: ($($argument:ty),*);)*) => {
        /// The functions of the driver that are asked here.
        struct Driver { $($field: extern "C" fn($($argument),*) -> c_int,)* }

        impl Driver {
            #[expect(unsafe_code, reason = "functions of a library that was opened at run time")]
            fn of(library: SharedLibrary) -> Result<Self, String> {
                $(
                    let $field = library.function($function).ok_or_else(|| format!("the driver has no {}", $function))?;
                    // SAFETY: the driver's function of this name has this signature (cuda.h), and the library stays open.
                    let $field = unsafe {
                        std::mem::transmute::<*const c_void, extern "C" fn($($argument),*) -> c_int>($field)
                    };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}

driver! {
    init = "cuInit": (u32);
    version = "cuDriverGetVersion": (&mut c_int);
    count = "cuDeviceGetCount": (&mut c_int);
    get = "cuDeviceGet": (&mut c_int, c_int);
    name = "cuDeviceGetName": (*mut c_char, c_int, c_int);
    attribute = "cuDeviceGetAttribute": (&mut c_int, c_int, c_int);
    memory = "cuDeviceTotalMem_v2": (&mut usize, c_int);
}

/// `CU_DEVICE_ATTRIBUTE_…` of cuda.h.
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

fn checked(call: &str, code: c_int) -> Result<(), String> {
    match code {
        0 => Ok(()),
        100 => Err("the driver finds no device".to_owned()),
        code => Err(format!("{call} of the driver failed with code {code}")),
    }
}

impl Driver {
    fn version(&self) -> Option<c_int> {
        let mut version = 0;
        ((self.version)(&mut version) == 0).then_some(version)
    }

    fn devices(&self) -> Result<Vec<CudaDevice>, String> {
        checked("cuInit", (self.init)(0))?;
        let mut count = 0;
        checked("cuDeviceGetCount", (self.count)(&mut count))?;
        (0..count).map(|number| self.device(number)).collect()
    }

    fn device(&self, number: c_int) -> Result<CudaDevice, String> {
        let mut device = 0;
        checked("cuDeviceGet", (self.get)(&mut device, number))?;
        let attribute = |which| {
            let mut value = 0;
            checked("cuDeviceGetAttribute", (self.attribute)(&mut value, which, device)).map(|()| value)
        };
        let mut name = [0u8; 256];
        checked("cuDeviceGetName", (self.name)(name.as_mut_ptr().cast(), 256, device))?;
        let mut memory = 0;
        checked("cuDeviceTotalMem", (self.memory)(&mut memory, device))?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        Ok(CudaDevice {
            number: usize::try_from(number).unwrap_or_default(),
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            capability: (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?),
            memory_bytes: memory as u64,
            multiprocessors: attribute(MULTIPROCESSORS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_found_or_has_a_problem() {
        let found = Inventory::take();
        assert_eq!(found.libraries.len(), 6);
        for library in &found.libraries {
            assert_ne!(library.file.is_some(), library.problem.is_some(), "{library:?}");
        }
        assert_eq!(found.devices.is_empty(), found.driver_problem.is_some(), "{found:?}");
    }
}
