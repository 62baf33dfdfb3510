//! The system's dynamic loader: libraries that a program can do without.

use std::ffi::c_void;
use std::path::PathBuf;

/// An opened library. It stays open until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct SharedLibrary(*mut c_void);

/// Folders in which CUDA's libraries are looked for after the system's own: those of a toolkit, and of
/// Python's packages in an active virtual environment.
fn cuda_folders() -> Vec<PathBuf> {
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

/// The first of these files that opens: by name, as the system looks for libraries, then in the places where
/// CUDA is put. Gives its name too.
///
/// # Errors
/// The loader's reason for the first.
pub fn open_first(files: &[&str]) -> Result<(SharedLibrary, String), String> {
    let by_name = by_name(files, Scope::Own);
    by_name.or_else(|why| in_folders(files, &cuda_folders(), Scope::Own).ok_or(why))
}

/// The first of MPI's libraries that opens: in `$MPI_HOME/lib`, beside the `mpiexec` that the shell finds,
/// then by name.
///
/// # Errors
/// The loader's reason for the first.
pub fn open_first_mpi(files: &[&str]) -> Result<(SharedLibrary, String), String> {
    let home = std::env::var_os("MPI_HOME").map(|home| PathBuf::from(home).join("lib"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mpiexec = std::env::split_paths(&path).find(|folder| folder.join("mpiexec").exists());
    let folders: Vec<PathBuf> = home.into_iter().chain(mpiexec.map(|bin| bin.join("../lib"))).collect();
    in_folders(files, &folders, Scope::Global).map_or_else(|| by_name(files, Scope::Global), Ok)
}

fn by_name(files: &[&str], scope: Scope) -> Result<(SharedLibrary, String), String> {
    let mut why = None;
    for file in files {
        match open(file, scope) {
            Ok(library) => return Ok((library, (*file).to_owned())),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or_else(|| "no library is named".to_owned()))
}

fn in_folders(files: &[&str], folders: &[PathBuf], scope: Scope) -> Option<(SharedLibrary, String)> {
    let paths = folders.iter().flat_map(|folder| files.iter().map(move |file| folder.join(file)));
    let names = paths.filter(|path| path.exists()).map(|path| path.to_string_lossy().into_owned());
    names.into_iter().find_map(|path| open(&path, scope).ok().map(|library| (library, path)))
}

/// Who sees a library's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Who asks it for them.
    Own,
    /// Libraries that are opened later too, as the parts that MPI's load need.
    Global,
}

#[cfg(not(target_os = "linux"))]
fn open(file: &str, _scope: Scope) -> Result<SharedLibrary, String> {
    Err(format!("{file}: is supported on Linux"))
}

/// A static program has a C library of its own, beside which a library's would be a second one.
#[cfg(all(target_os = "linux", target_feature = "crt-static"))]
fn open(file: &str, _scope: Scope) -> Result<SharedLibrary, String> {
    Err(format!(
        "{file}: this program is linked statically and opens no libraries; one that cargo builds without that does"
    ))
}

#[cfg(all(target_os = "linux", not(target_feature = "crt-static")))]
mod linux {
    use std::ffi::{CStr, CString, c_char, c_int, c_void};

    use super::{Scope, SharedLibrary};

    #[expect(unsafe_code, reason = "the C library's dynamic loader, which every Rust program on Linux links")]
    // SAFETY: the signatures are those of dlfcn.h.
    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *const c_char;
    }

    const RTLD_NOW: c_int = 2;
    const RTLD_GLOBAL: c_int = 0x100;

    #[expect(unsafe_code, reason = "opening a library runs its initialisers")]
    pub(super) fn open(file: &str, scope: Scope) -> Result<SharedLibrary, String> {
        let name = CString::new(file).map_err(|error| error.to_string())?;
        let flags = if scope == Scope::Global { RTLD_NOW | RTLD_GLOBAL } else { RTLD_NOW };
        // SAFETY: the name is a C string; the initialisers are those of NVIDIA's libraries and of MPI's, which are trusted as the
        // driver is. `dlerror` gives a C string or null, valid until the thread's next call.
        unsafe {
            let handle = dlopen(name.as_ptr(), flags);
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
        /// Where the function or the object of this name is, if the library has it.
        #[expect(unsafe_code, reason = "a look-up in a library that is open")]
        #[must_use]
        pub fn function(self, name: &str) -> Option<*const c_void> {
            let name = CString::new(name).ok()?;
            // SAFETY: the handle is of an open library, which is never closed, and the name is a C string.
            let address = unsafe { dlsym(self.0, name.as_ptr()) };
            (!address.is_null()).then_some(address.cast_const())
        }
    }
}

#[cfg(all(target_os = "linux", not(target_feature = "crt-static")))]
use linux::open;

#[cfg(any(not(target_os = "linux"), target_feature = "crt-static"))]
impl SharedLibrary {
    /// Nothing opens here.
    #[must_use]
    pub fn function(self, _name: &str) -> Option<*const c_void> {
        None
    }
}

#[cfg(all(test, target_os = "linux", not(target_feature = "crt-static")))]
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
