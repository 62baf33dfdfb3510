//! Shared code of the fuzz targets.

use std::path::Path;
use std::sync::OnceLock;

/// Writes `bytes` to a file `name` in a temporary folder, in memory if the system has /dev/shm, and calls `read` with
/// its path.
pub fn file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let memory = Path::new("/dev/shm");
    let folder = FOLDER.get_or_init(|| {
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        made.unwrap_or_else(|error| panic!("no folder for what is read: {error}"))
    });
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read(&path);
}
