//! Where entries go: a folder that no entry can leave, and a budget that none can exceed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::names::{Kind, Names, Place};
use super::{ArchiveFault, Budget, MARKER};
use crate::error::Error;

/// Why unpacking ends.
#[derive(Debug)]
pub(super) enum Fault {
    /// The archive is to blame.
    Archive { entry: String, fault: ArchiveFault, detail: String },
    /// The machine is.
    Machine(Error),
}

impl Fault {
    pub fn archive(entry: &str, fault: ArchiveFault, detail: impl Into<String>) -> Self {
        // A name may be anything; quotes and escapes keep it to one line, and a long one says no more than
        // its beginning.
        let entry = entry.chars().take(200).collect();
        Self::Archive { entry, fault, detail: detail.into() }
    }

    pub fn unreadable(error: std::io::Error) -> Self {
        Self::archive("", ArchiveFault::Damaged, format!("it cannot be read: {error}"))
    }
}

/// Entries on their way to a folder: each is admitted by name and size, and then made.
pub(super) struct Sink {
    folder: PathBuf,
    budget: Budget,
    names: Names,
    buffer: Vec<u8>,
    /// Of the archive, not of the folder: one that comes again counts again.
    entries: u64,
    files: usize,
    bytes: u64,
}

/// What may be made.
pub(super) struct Admitted {
    path: PathBuf,
    /// Whether a folder of the path is to be made first.
    folders: bool,
    size: u64,
}

impl Sink {
    /// Into `folder`, which exists and is empty, where a file [`MARKER`] belongs `depth` folders deep.
    pub fn new(folder: &Path, budget: Budget, depth: usize) -> Self {
        let names = Names::new(budget, MARKER, depth);
        let buffer = vec![0; 1 << 16];
        Self { folder: folder.to_owned(), budget, names, buffer, entries: 0, files: 0, bytes: 0 }
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Files so far.
    pub fn files(&self) -> usize {
        self.files
    }

    /// Bytes of the files so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fails for an entry that the budget does not allow, or whose name it may not have.
    pub fn admit(&mut self, name: &[u8], kind: Kind, size: u64) -> Result<Admitted, Fault> {
        let over = |(fault, detail)| Fault::archive(&String::from_utf8_lossy(name), fault, detail);
        self.entries += 1;
        self.budget.check_entries(self.entries).map_err(over)?;
        let total = self.bytes.saturating_add(size);
        self.budget.check_file(size, total).map_err(over)?;
        let Place { path, folders } = self.names.give(name, kind).map_err(over)?;
        self.bytes = total;
        self.files += usize::from(kind == Kind::File);
        Ok(Admitted { path, folders, size })
    }

    /// Makes a folder.
    pub fn make_folder(&self, folder: &Admitted) -> Result<(), Fault> {
        let path = self.folder.join(&folder.path);
        if !folder.folders {
            return Ok(());
        }
        fs::create_dir_all(&path).map_err(|error| Fault::Machine(Error::io("create", &path, error)))
    }

    /// Writes a file with what `data` yields, which must be as many bytes as it declared; no byte above that
    /// is written.
    pub fn write_file(&mut self, file: &Admitted, data: &mut impl Read) -> Result<(), Fault> {
        let (path, size) = (self.folder.join(&file.path), file.size);
        let machine = |error| Fault::Machine(Error::io("write", &path, error));
        if let Some(parent) = path.parent().filter(|_| file.folders) {
            fs::create_dir_all(parent).map_err(machine)?;
        }
        let mut written = File::create_new(&path).map_err(machine)?;
        let damaged = |detail| Fault::archive(&file.path.to_string_lossy(), ArchiveFault::Damaged, detail);
        let mut bytes = 0u64;
        loop {
            let len = match data.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(damaged(format!("its data are damaged: {error}"))),
            };
            if bytes + len as u64 > size {
                return Err(damaged(format!("it holds more than the {size} bytes that it declares")));
            }
            written.write_all(&self.buffer[..len]).map_err(machine)?;
            bytes += len as u64;
        }
        if bytes < size {
            return Err(damaged(format!("it ends after {bytes} of {size} bytes")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(folder: &Path, budget: [u64; 3]) -> Sink {
        let [entries, max_entry_bytes, max_total_bytes] = budget;
        Sink::new(folder, Budget { max_entries: entries as usize, max_entry_bytes, max_total_bytes }, 0)
    }

    fn file(sink: &mut Sink, name: &str, size: u64, mut data: impl Read) -> Result<(), Fault> {
        let file = sink.admit(name.as_bytes(), Kind::File, size)?;
        sink.write_file(&file, &mut data)
    }

    fn fault(result: Result<(), Fault>) -> ArchiveFault {
        match result {
            Err(Fault::Archive { fault, .. }) => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_above_the_budget_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut to = sink(dir.path(), [10, 100_000, 190_000]);
        // It declares what fits and holds without end.
        assert_eq!(fault(file(&mut to, "a", 100_000, std::io::repeat(7))), ArchiveFault::Damaged);
        assert!(fs::metadata(dir.path().join("a")).unwrap().len() <= 100_000);
        assert_eq!(fault(file(&mut to, "b", 100_001, std::io::empty())), ArchiveFault::TooLarge);
        file(&mut to, "c", 90_000, std::io::repeat(7).take(90_000)).unwrap();
        assert_eq!(fault(file(&mut to, "d", 1, std::io::empty())), ArchiveFault::TooLarge);
        assert!(!dir.path().join("b").exists() && !dir.path().join("d").exists());
        assert_eq!((to.files(), to.bytes()), (2, 190_000));
    }

    #[test]
    fn a_file_must_be_as_long_as_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let mut to = sink(dir.path(), [5, 100, 100]);
        assert_eq!(fault(file(&mut to, "a", 5, &b"1234"[..])), ArchiveFault::Damaged);
        assert_eq!(fault(file(&mut to, "b", 3, &b"1234"[..])), ArchiveFault::Damaged);
        file(&mut to, "x/c", 4, &b"1234"[..]).unwrap();
        assert_eq!(fs::read(dir.path().join("x/c")).unwrap(), b"1234");
        let mut folder =
            |name: &[u8]| to.admit(name, Kind::Folder, 0).and_then(|folder| to.make_folder(&folder));
        folder(b"x").unwrap();
        folder(b"x/y").unwrap();
        assert!(dir.path().join("x/y").is_dir());
        // It is there, but the archive names it once more.
        assert_eq!(fault(folder(b"x")), ArchiveFault::TooManyEntries);
    }
}
