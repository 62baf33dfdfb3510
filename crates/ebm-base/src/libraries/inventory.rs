//! What there is to compute on with CUDA, and for several processes. The driver is asked directly, so that a
//! build without the feature can tell too.

use std::ffi::{c_char, c_int};

use serde::Serialize;

use crate::libraries::shared_library::{open_first, open_first_mpi};

/// What was found of CUDA on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Inventory {
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
}

/// A library that is opened at run time.
#[derive(Clone, Debug, Serialize)]
pub struct Library {
    /// Its name.
    pub name: &'static str,
    /// The files that it may be, the preferred one first.
    #[serde(skip)]
    pub files: &'static [&'static str],
    /// The file that was opened.
    pub file: Option<String>,
    /// Why none was opened.
    pub problem: Option<String>,
    /// What it is needed for.
    pub needed_for: &'static str,
    /// Whether nothing runs on a GPU without it.
    pub required: bool,
}

/// A library that nobody has looked for.
pub(crate) const fn wanted(
    required: bool,
    name: &'static str,
    files: &'static [&'static str],
    needed_for: &'static str,
) -> Library {
    Library { name, files, file: None, problem: None, needed_for, required }
}

pub(crate) const DRIVER: Library = wanted(
    true,
    "CUDA driver",
    &["libcuda.so.1", "libcuda.so"],
    "everything on a GPU; it comes with NVIDIA's driver",
);
pub(crate) const CUBLAS: Library =
    wanted(true, "cuBLAS", &["libcublas.so.13", "libcublas.so.12", "libcublas.so"], "matrix products");
pub(crate) const CURAND: Library =
    wanted(true, "cuRAND", &["libcurand.so.10", "libcurand.so"], "opening a device");
pub(crate) const CUDNN: Library = wanted(
    false,
    "cuDNN",
    &["libcudnn.so.9", "libcudnn.so"],
    "fast convolutions; without it they are products of image columns",
);
/// NVIDIA's NCCL.
pub const NCCL: Library = wanted(false, "NCCL", &["libnccl.so.2", "libnccl.so"], "training on several GPUs");
/// Open MPI's and MPICH's; Open MPI's first.
pub const MPI: Library = wanted(
    false,
    "MPI",
    &["libmpi.so.40", "libmpi.so.12", "libmpi.so"],
    "training in several processes without NCCL",
);

impl Inventory {
    /// Looks for the driver, its devices, CUDA's libraries and MPI.
    #[must_use]
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
    /// The functions of the driver that are asked here (cuda.h).
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

/// What a call writes to the place that it is given.
fn asked<T: Default>(call: &str, ask: impl FnOnce(*mut T) -> c_int) -> Result<T, String> {
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
        // SAFETY: it writes to the one place.
        let version = asked("cuDriverGetVersion", |to| unsafe { (self.version)(to) }).ok()?;
        Some(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    fn devices(&self) -> Result<Vec<CudaDevice>, String> {
        // SAFETY: the second writes to the one place, the first nowhere.
        let count = unsafe {
            asked("cuInit", |_: *mut c_int| (self.init)(0))?;
            asked("cuDeviceGetCount", |to| (self.count)(to))?
        };
        (0..count).map(|number| self.device(number)).collect()
    }

    fn device(&self, number: c_int) -> Result<CudaDevice, String> {
        const NAME: usize = 256;
        let mut name = [0_u8; NAME];
        let place = name.as_mut_ptr().cast();
        // SAFETY: each call writes to the one place, that of the name no more than it is told.
        unsafe {
            let device = asked("cuDeviceGet", |to| (self.get)(to, number))?;
            asked("cuDeviceGetName", |_: *mut c_int| (self.name)(place, NAME as c_int, device))?;
            let attribute = |which| asked("cuDeviceGetAttribute", |to| (self.attribute)(to, which, device));
            let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
            Ok(CudaDevice {
                number: usize::try_from(number).unwrap_or_default(),
                name: String::from_utf8_lossy(&name[..length]).into_owned(),
                capability: (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?),
                memory_bytes: asked("cuDeviceTotalMem", |to| (self.memory)(to, device))? as u64,
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
