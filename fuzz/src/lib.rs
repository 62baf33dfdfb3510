//! What the fuzz targets share.

use std::path::Path;
use std::sync::OnceLock;

/// Has a parser read a file of this name with these bytes, in a folder of this process; in memory where the system has such a place.
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
