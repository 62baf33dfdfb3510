//! Reading of files with a size limit, and atomic writing.

use std::fs;
use std::path::{Component, Path, PathBuf};

use ebm_base::files::{Durability, ReadError, UNFINISHED, remove_all};

use crate::error::{Error, Result};

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// [`Error::Io`] if `path` cannot be read or is no regular file, [`Error::TooLarge`] above the limit (checked by
/// the file's size before reading, and again while reading).
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>> {
    ebm_base::files::read_limited(path, limit).map_err(|error| match error {
        ReadError::Io(source) => Error::io("read", path, source),
        ReadError::TooLarge { size, limit } => {
            let advice = "raise the limit if the file is trusted";
            Error::TooLarge(path.to_owned(), format!("{size} bytes exceed the limit of {limit}; {advice}"))
        }
    })
}

/// Reads a UTF-8 text, such as JSON, of at most `limit` bytes, and removes the byte order mark that some editors
/// write.
///
/// # Errors
/// The errors of [`read_limited`]; [`Error::Data`] for a text in UTF-16, in which some systems save files.
pub fn read_utf8(path: &Path, limit: u64) -> Result<Vec<u8>> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    let mut bytes = read_limited(path, limit)?;
    // A text of Latin letters in UTF-16 has a zero beside each of them.
    let wide = |&[a, b]: &[u8; 2]| matches!([a, b], [0xFF, 0xFE] | [0xFE, 0xFF]) || (a == 0) != (b == 0);
    if bytes.first_chunk().is_some_and(wide) {
        let detail = "it is in UTF-16; save it as UTF-8".to_owned();
        return Err(Error::format(path, "a text in UTF-8", detail));
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    Ok(bytes)
}

/// Largest size of a settings file, in bytes: thousands of times the usual size.
pub const MAX_SETTINGS_BYTES: u64 = 4 << 20;

/// Reads the text of a settings file.
///
/// # Errors
/// The errors of [`read_limited`] with [`MAX_SETTINGS_BYTES`]; [`Error::Data`] if the text is not UTF-8.
pub fn read_settings(path: &Path) -> Result<String> {
    read_text(path, MAX_SETTINGS_BYTES)
}

/// Reads a text of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String> {
    String::from_utf8(read_utf8(path, limit)?).map_err(|error| Error::format(path, "a text in UTF-8", error))
}

/// Creates a folder and its parents, unless it exists.
///
/// # Errors
/// [`Error::Io`].
pub fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|source| Error::io("create", path, source))
}

/// Writes `bytes` atomically: beside `path`, then renamed. A reader sees the old content or the new, never a part.
///
/// Parent directories are created. The content is not forced to the disk, so a power failure may lose it. A `path`
/// that is no regular file, such as a device or a symbolic link, is refused: it is neither replaced nor followed.
///
/// # Errors
/// [`Error::Io`] if a directory or file cannot be written; the temporary file is then removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|source| Error::io("create the directory of", path, source))?;
    }
    ebm_base::files::replace(path, bytes, Durability::Atomic)
        .map_err(|source| Error::io("write", path, source))
}

/// Writes the new folder `path` as a whole: `write` fills a folder beside it, which then gets the name. What a process that
/// was killed left beside it is removed.
///
/// # Errors
/// The errors of `write`, after which nothing is left; [`Error::Io`].
pub fn write_folder<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{UNFINISHED}{name}"));
    remove_all(&aside).map_err(|source| Error::io("remove", &aside, source))?;
    create_dir(&aside)?;
    write(&aside).inspect_err(|_| drop(remove_all(&aside)))?;
    // If the folder has appeared meanwhile, the error names the one with the result.
    Ok(fs::rename(&aside, path).map_err(|source| Error::io("rename", &aside, source))?)
}

/// Returns the names in `folder`, sorted, without names that are not Unicode.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be listed.
pub fn names_in(folder: &Path) -> Result<Vec<String>> {
    let fail = |source| Error::io("list", folder, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        names.extend(entry.map_err(fail)?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Returns the sorted paths of the regular files in `folder` that have one of the `extensions`, in any case.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be listed.
pub fn files_in(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::io("list", folder, source);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        if extensions.iter().any(|known| extension == *known) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns whether a relative name stays inside its directory.
pub(crate) fn stays_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('\0')
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_inclusive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_atomic(&path, &[7; 100]).unwrap();
        assert_eq!(read_limited(&path, 100).unwrap(), vec![7; 100]);
        let error = read_limited(&path, 99).unwrap_err().to_string();
        assert!(error.contains("100 bytes exceed the limit of 99"), "{error}");
    }

    #[test]
    fn a_mark_is_left_out_and_utf_16_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_atomic(&path, b"\xEF\xBB\xBF{}").unwrap();
        assert_eq!(read_utf8(&path, 9).unwrap(), b"{}");
        for wide in [&b"\xFF\xFE{\0"[..], b"\xFE\xFF\0{", b"{\0}\0", b"\0{\0}"] {
            write_atomic(&path, wide).unwrap();
            let error = read_utf8(&path, 9).unwrap_err().to_string();
            assert!(error.contains("it is in UTF-16; save it as UTF-8"), "{error}");
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read_limited(dir.path(), 1 << 20), Err(Error::Io { .. })));
        assert!(matches!(read_limited(&dir.path().join("absent"), 9), Err(Error::Io { .. })));
    }

    #[test]
    fn a_folder_is_there_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("deep/folder"), dir.path().join("deep/.tmp-folder"));
        write_atomic(&aside.join("left"), b"by a killed process").unwrap();
        let failed: Result<()> = write_folder(&path, |folder| {
            write_atomic(&folder.join("a"), b"1")?;
            Err(Error::Failure(folder.to_owned(), "no".to_owned()))
        });
        assert!(failed.is_err() && !path.exists() && !aside.exists());
        let written: Result<()> = write_folder(&path, |folder| write_atomic(&folder.join("a"), b"1"));
        written.unwrap();
        assert!(names_in(&path).unwrap() == ["a"] && !aside.exists());
        // Another folder is not replaced, and the result is kept.
        let written: Result<()> = write_folder(&path, |folder| write_atomic(&folder.join("a"), b"2"));
        assert!(written.unwrap_err().to_string().contains(".tmp-folder"));
        assert_eq!(
            ["folder/a", ".tmp-folder/a"].map(|name| fs::read(dir.path().join("deep").join(name)).unwrap()),
            [b"1", b"2"]
        );
    }

    #[test]
    fn a_write_replaces_and_leaves_nothing_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/file");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // A directory cannot be replaced by a file: the error is returned and the temporary file is gone.
        assert!(matches!(write_atomic(&dir.path().join("deep"), b"x"), Err(Error::Io { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
