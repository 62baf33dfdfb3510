//! The system's dynamic loader: libraries that a program can do without.

use std::ffi::c_void;
use std::path::PathBuf;

/// An opened library. It stays open until the process ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedLibrary(*mut c_void);

/// Folders in which CUDA's libraries are looked for after the system's own: those of a toolkit, and of Python's packages in an
/// active virtual environment.
fn folders() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let toolkit = std::env::var_os("CUDA_HOME").map(PathBuf::from);
    for root in toolkit.into_iter().chain(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from)) {
        found.extend(["lib64", "lib"].map(|lib| root.join(lib)));
    }
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV") {
        let pythons = std::fs::read_dir(PathBuf::from(environment).join("lib"));
        for python in pythons.into_iter().flatten().flatten() {
            let nvidia = python.path().join("site-packages/nvidia");
            found.extend(["cu13", "cudnn", "nccl"].map(|package| nvidia.join(package).join("lib")));
        }
    }
    found
}

/// The first of these files that opens: by name, as the system looks for libraries, then in the places where CUDA is put. Gives its
/// name too; the error is the loader's for the first.
#[cfg(target_os = "linux")]
pub(super) fn open_first(files: &[&str]) -> Result<(SharedLibrary, String), String> {
    let mut why = None;
    for file in files {
        match open(file) {
            Ok(library) => return Ok((library, (*file).to_owned())),
            Err(error) => why = why.or(Some(error)),
        }
    }
    for folder in folders() {
        for path in files.iter().map(|file| folder.join(file)).filter(|path| path.exists()) {
            let path = path.to_string_lossy().into_owned();
            if let Ok(library) = open(&path) {
                return Ok((library, path));
            }
        }
    }
    Err(why.unwrap_or_else(|| "no library is named".to_owned()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_first(files: &[&str]) -> Result<(SharedLibrary, String), String> {
    Err(format!("{}: CUDA is supported on Linux", files.first().copied().unwrap_or_default()))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{CStr, CString, c_char, c_int, c_void};

    use super::SharedLibrary;

    #[expect(unsafe_code, reason = "the C library's dynamic loader, which every Rust program on Linux links")]
    // SAFETY: the signatures are those of dlfcn.h.
    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *const c_char;
    }

    const RTLD_NOW: c_int = 2;

    #[expect(unsafe_code, reason = "opening a library runs its initialisers")]
    pub(in super::super) fn open(file: &str) -> Result<SharedLibrary, String> {
        let name = CString::new(file).map_err(|error| error.to_string())?;
        // SAFETY: the name is a C string; the initialisers are those of NVIDIA's libraries, which are trusted as the driver is.
        // `dlerror` gives a C string or null, valid until the thread's next call.
        unsafe {
            let handle = dlopen(name.as_ptr(), RTLD_NOW);
            if !handle.is_null() {
                return Ok(SharedLibrary(handle));
            }
            let error = dlerror();
            Err(if error.is_null() {
                format!("{file} cannot be opened")
            } else {
                CStr::from_ptr(error).to_string_lossy().into_owned()
            })
        }
    }

    impl SharedLibrary {
        /// Where the function of this name is, if the library has it.
        #[expect(unsafe_code, reason = "a look-up in a library that is open")]
        pub(in super::super) fn function(self, name: &str) -> Option<*const c_void> {
            let name = CString::new(name).ok()?;
            // SAFETY: the handle is of an open library, which is never closed, and the name is a C string.
            let address = unsafe { dlsym(self.0, name.as_ptr()) };
            (!address.is_null()).then_some(address.cast_const())
        }
    }
}

#[cfg(target_os = "linux")]
use linux::open;

#[cfg(not(target_os = "linux"))]
impl SharedLibrary {
    /// Nothing opens elsewhere.
    pub(super) fn function(self, _name: &str) -> Option<*const c_void> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_library_opens_by_its_first_name_that_is_there() {
        let (library, file) = open_first(&["libno-such-library.so", "libc.so.6"]).unwrap();
        assert_eq!(file, "libc.so.6");
        assert!(library.function("malloc").is_some() && library.function("no_such_function").is_none());
        let why = open_first(&["libno-such-library.so"]).unwrap_err();
        assert!(why.contains("libno-such-library.so"), "{why}");
    }
}
