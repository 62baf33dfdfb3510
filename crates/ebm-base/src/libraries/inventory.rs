//! Inventory of the machine's GPUs and libraries for CUDA and for several processes. The driver is called
//! directly, so that a build without the feature `cuda` has the inventory too.

use std::ffi::{c_char, c_int};

use serde::Serialize;

use crate::libraries::shared_library::{open_first, open_first_mpi};

/// GPUs and libraries that were found on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Inventory {
    /// Newest CUDA version that the driver supports, `major.minor`.
    pub driver_cuda: Option<String>,
    /// Reason why the driver does not answer.
    pub driver_problem: Option<String>,
    /// GPUs of the machine.
    pub devices: Vec<CudaDevice>,
    /// Libraries for computing on a GPU or in several processes.
    pub libraries: Vec<Library>,
}

/// A GPU.
#[derive(Clone, Debug, Serialize)]
pub struct CudaDevice {
    /// Number of the GPU, N of `cuda:N`.
    pub number: usize,
    /// Name of the GPU.
    pub name: String,
    /// Compute capability, `(major, minor)`.
    pub capability: (i32, i32),
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// A library that is opened at run time.
#[derive(Clone, Debug, Serialize)]
pub struct Library {
    /// Name of the library.
    pub name: &'static str,
    /// Possible file names, the preferred one first.
    #[serde(skip)]
    pub files: &'static [&'static str],
    /// File that was opened.
    pub file: Option<String>,
    /// Reason why no file was opened.
    pub problem: Option<String>,
    /// Purpose of the library.
    pub needed_for: &'static str,
    /// Whether all work on a GPU needs the library.
    pub required: bool,
}

/// Returns a library before the search for its file.
pub(crate) const fn unopened(
    required: bool,
    name: &'static str,
    files: &'static [&'static str],
    needed_for: &'static str,
) -> Library {
    Library { name, files, file: None, problem: None, needed_for, required }
}

pub(crate) const DRIVER: Library = unopened(
    true,
    "CUDA driver",
    &["libcuda.so.1", "libcuda.so"],
    "everything on a GPU; it comes with NVIDIA's driver",
);
pub(crate) const CUBLAS: Library =
    unopened(true, "cuBLAS", &["libcublas.so.13", "libcublas.so.12", "libcublas.so"], "matrix products");
pub(crate) const CURAND: Library =
    unopened(true, "cuRAND", &["libcurand.so.10", "libcurand.so"], "opening a device");
pub(crate) const CUDNN: Library = unopened(
    false,
    "cuDNN",
    &["libcudnn.so.9", "libcudnn.so"],
    "fast convolutions; without it they are products of image columns",
);
/// NVIDIA's NCCL.
pub const NCCL: Library =
    unopened(false, "NCCL", &["libnccl.so.2", "libnccl.so"], "training on several GPUs");
/// MPI: Open MPI or MPICH, Open MPI first.
pub const MPI: Library = unopened(
    false,
    "MPI",
    &["libmpi.so.40", "libmpi.so.12", "libmpi.so"],
    "training in several processes without NCCL",
);

impl Inventory {
    /// Looks for the driver, its devices, CUDA's libraries and MPI.
    pub fn take() -> Self {
        let libraries = [DRIVER, CUBLAS, CURAND, CUDNN, NCCL, MPI].map(|mut library| {
            let open = if library.name == MPI.name { open_first_mpi } else { open_first };
            match open(library.files) {
                Ok((_, file)) => library.file = Some(file),
                Err(why) => library.problem = Some(why),
            }
            library
        });
        let driver = open_first(DRIVER.files)
            .and_then(|(library, _)| Driver::of(library).map_err(|name| format!("the driver has no {name}")));
        let devices = driver.as_ref().map_err(Clone::clone).and_then(Driver::devices);
        Self {
            driver_cuda: driver.ok().and_then(|driver| driver.cuda()),
            driver_problem: devices.as_ref().err().cloned(),
            devices: devices.unwrap_or_default(),
            libraries: libraries.into(),
        }
    }
}

crate::functions! {
    /// Functions of the driver that the inventory calls (cuda.h).
    struct Driver {
        init = "cuInit": (u32);
        version = "cuDriverGetVersion": (*mut c_int);
        count = "cuDeviceGetCount": (*mut c_int);
        get = "cuDeviceGet": (*mut c_int, c_int);
        name = "cuDeviceGetName": (*mut c_char, c_int, c_int);
        attribute = "cuDeviceGetAttribute": (*mut c_int, c_int, c_int);
        memory = "cuDeviceTotalMem_v2": (*mut usize, c_int);
    }
}

/// `CU_DEVICE_ATTRIBUTE_…` of cuda.h.
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// Returns the value that a call writes to the address it is given.
fn query<T: Default>(call: &str, ask: impl FnOnce(*mut T) -> c_int) -> Result<T, String> {
    let mut answer = T::default();
    match ask(&raw mut answer) {
        0 => Ok(answer),
        100 => Err("the driver finds no device".to_owned()),
        code => Err(format!("{call} of the driver failed with code {code}")),
    }
}

#[expect(unsafe_code, reason = "calls of the driver")]
impl Driver {
    fn cuda(&self) -> Option<String> {
        // SAFETY: the call writes to this one address.
        let version = query("cuDriverGetVersion", |to| unsafe { (self.version)(to) }).ok()?;
        Some(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    fn devices(&self) -> Result<Vec<CudaDevice>, String> {
        // SAFETY: the second call writes to this one address, and the first writes nothing.
        let count = unsafe {
            query("cuInit", |_: *mut c_int| (self.init)(0))?;
            query("cuDeviceGetCount", |to| (self.count)(to))?
        };
        (0..count).map(|number| self.device(number)).collect()
    }

    fn device(&self, number: c_int) -> Result<CudaDevice, String> {
        const NAME: usize = 256;
        let mut name = [0_u8; NAME];
        let place = name.as_mut_ptr().cast();
        // SAFETY: each call writes to its one address, and the name has at most the length that is passed.
        unsafe {
            let device = query("cuDeviceGet", |to| (self.get)(to, number))?;
            query("cuDeviceGetName", |_: *mut c_int| (self.name)(place, NAME as c_int, device))?;
            let attribute = |which| query("cuDeviceGetAttribute", |to| (self.attribute)(to, which, device));
            let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
            Ok(CudaDevice {
                number: usize::try_from(number).unwrap_or_default(),
                name: String::from_utf8_lossy(&name[..length]).into_owned(),
                capability: (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?),
                memory_bytes: query("cuDeviceTotalMem", |to| (self.memory)(to, device))? as u64,
            })
        }
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
