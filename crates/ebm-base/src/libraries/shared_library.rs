//! Optional libraries, opened by the system's dynamic loader.

use std::error::Error;
use std::ffi::c_void;
use std::path::PathBuf;

use libloading::Library;

/// An opened library. It stays open until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct SharedLibrary(&'static Library);

impl SharedLibrary {
    /// Returns the address of the function or object `name`, if the library has it.
    #[expect(unsafe_code, reason = "a look-up in a library that is open")]
    pub fn function(self, name: &str) -> Option<*const c_void> {
        // SAFETY: the address of a symbol is read as a pointer, and every symbol has one.
        unsafe { self.0.get::<*const c_void>(name) }.ok().map(|symbol| *symbol)
    }
}

/// Declares a table of functions of a library that all return a C `int`. The table's function `of` looks them up
/// and fails with the name of a missing one. The table's documentation names the header with the signatures.
#[macro_export]
macro_rules! functions {
    ($(#[$doc:meta])* struct $table:ident $(<$handle:ident>)? {
        $($field:ident = $name:literal: ($($argument:ty),*);)*
    }) => {
        $(#[$doc])*
        struct $table $(<$handle>)? { $($field: unsafe extern "C" fn($($argument),*) -> ::std::ffi::c_int,)* }

        impl $(<$handle>)? $table $(<$handle>)? {
            #[expect(unsafe_code, reason = "functions of a library that was opened at run time")]
            fn of(library: $crate::libraries::SharedLibrary) -> ::std::result::Result<Self, &'static str> {
                Ok(Self { $($field: {
                    let name = $name;
                    let place = library.function(name).ok_or(name)?;
                    // SAFETY: the signature equals the header's.
                    unsafe { ::std::mem::transmute::<*const ::std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> ::std::ffi::c_int>(place) }
                },)* })
            }
        }
    };
}

/// Returns the folders that are searched for CUDA's libraries after the system's own: the folders of a toolkit,
/// and of Python packages in an active virtual environment.
fn cuda_folders() -> Vec<PathBuf> {
    let toolkit = std::env::var_os("CUDA_HOME").map(PathBuf::from);
    let roots = toolkit.into_iter().chain(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from));
    let mut found: Vec<_> = roots.flat_map(|root| ["lib64", "lib"].map(|lib| root.join(lib))).collect();
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV") {
        let pythons = std::fs::read_dir(PathBuf::from(environment).join("lib"));
        for python in pythons.into_iter().flatten().flatten() {
            let nvidia = python.path().join("site-packages/nvidia");
            found.extend(["cu13", "cudnn", "nccl"].map(|package| nvidia.join(package).join("lib")));
        }
    }
    found
}

/// Opens the first of `files` that opens, and returns it with its name. A file is looked up by name, as the
/// system does, then in the folders where CUDA is installed.
///
/// # Errors
/// The loader's reason for the first.
pub fn open_first(files: &[&str]) -> Result<(SharedLibrary, String), String> {
    first(files.iter().map(PathBuf::from).chain(within(&cuda_folders(), files)), false)
}

/// Opens the first of MPI's libraries that opens: in `$MPI_HOME/lib`, beside the `mpiexec` of the shell, then by
/// name. Libraries that are opened later see its symbols, because the parts that MPI loads need them.
///
/// # Errors
/// The loader's reason for the first.
pub fn open_first_mpi(files: &[&str]) -> Result<(SharedLibrary, String), String> {
    let home = std::env::var_os("MPI_HOME").map(|home| PathBuf::from(home).join("lib"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mpiexec = std::env::split_paths(&path).find(|folder| folder.join("mpiexec").exists());
    let folders: Vec<PathBuf> = home.into_iter().chain(mpiexec.map(|bin| bin.join("../lib"))).collect();
    first(within(&folders, files).chain(files.iter().map(PathBuf::from)), true)
}

/// Returns the paths of `files` that exist in `folders`.
fn within<'a>(folders: &'a [PathBuf], files: &'a [&str]) -> impl Iterator<Item = PathBuf> + 'a {
    let paths = folders.iter().flat_map(|folder| files.iter().map(move |file| folder.join(file)));
    paths.filter(|path| path.exists())
}

fn first(paths: impl Iterator<Item = PathBuf>, global: bool) -> Result<(SharedLibrary, String), String> {
    let mut why = None;
    for path in paths {
        let name = path.to_string_lossy().into_owned();
        match open(&name, global) {
            Ok(library) => return Ok((library, name)),
            Err(error) => {
                why.get_or_insert(error);
            }
        }
    }
    Err(why.unwrap_or_default())
}

/// Opens a library. If it is `global`, libraries that are opened later see its symbols.
#[expect(unsafe_code, reason = "opening a library runs its initialisers")]
fn open(file: &str, global: bool) -> Result<SharedLibrary, String> {
    if cfg!(target_feature = "crt-static") {
        // A statically linked program has its own C library; a library would load a second one.
        let reason = "this program is linked statically and opens no libraries";
        return Err(format!("{file}: {reason}; one that cargo builds without that does"));
    }
    #[cfg(unix)]
    let opened = {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: the initialisers belong to the libraries of NVIDIA and of MPI, which are trusted like the
        // driver.
        unsafe { Library::open(Some(file), if global { RTLD_NOW | RTLD_GLOBAL } else { RTLD_NOW }) }
    };
    #[cfg(not(unix))]
    // SAFETY: as above.
    let opened = unsafe { Library::new(file) };
    // The error's own text lacks the loader's reason.
    let why =
        |error: libloading::Error| error.source().map_or_else(|| error.to_string(), ToString::to_string);
    Ok(SharedLibrary(Box::leak(Box::new(opened.map_err(why)?.into()))))
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
