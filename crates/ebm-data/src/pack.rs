//! Folders into archives.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::error::{Error, Result};
use crate::files::write_atomic;

/// Writes all files below `folder` to the zip file `archive`, atomically, in the order of their paths, which
/// are relative to `folder`: the same files make the same bytes.
///
/// # Errors
/// [`Error::Io`] when a file can not be read or the archive not written.
pub fn zip_folder(folder: &Path, archive: &Path) -> Result<()> {
    let fail = |path: &Path, source| Error::io("put into an archive", path, source);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for path in files_below(folder)? {
        let inner = path.strip_prefix(folder).unwrap_or(&path);
        let parts: Vec<_> = inner.iter().map(|part| part.to_string_lossy()).collect();
        let bytes = std::fs::read(&path).map_err(|source| fail(&path, source))?;
        writer.start_file(parts.join("/"), options).map_err(|error| fail(&path, error.into()))?;
        writer.write_all(&bytes).map_err(|source| fail(&path, source))?;
    }
    let bytes = writer.finish().map_err(|error| fail(archive, error.into()))?.into_inner();
    write_atomic(archive, &bytes)
}

/// All files below a folder, sorted.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let fail = |source| Error::io("list", &folder, source);
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("b")).unwrap();
        std::fs::write(root.join("b/two.txt"), "2").unwrap();
        std::fs::write(root.join("a.txt"), "1").unwrap();
        let archive = dir.path().join("out.zip");
        zip_folder(&root, &archive).unwrap();
        let first = std::fs::read(&archive).unwrap();
        let mut packed = zip::ZipArchive::new(Cursor::new(&first)).unwrap();
        let mut found = Vec::new();
        for i in 0..packed.len() {
            let mut file = packed.by_index(i).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            found.push((file.name().unwrap().into_owned(), text));
        }
        assert_eq!(found, [("a.txt".to_owned(), "1".to_owned()), ("b/two.txt".to_owned(), "2".to_owned())]);
        zip_folder(&root, &archive).unwrap();
        assert_eq!(std::fs::read(&archive).unwrap(), first);
        assert!(
            zip_folder(&dir.path().join("nowhere"), &archive).unwrap_err().to_string().contains("nowhere")
        );
    }
}
