//! Where entries go: a folder that no entry can leave, and a budget that none can exceed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;

use super::names::Names;
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
        // A name may be anything; quotes and escapes keep it to one line, and a long one says no more than its beginning.
        let entry = entry.chars().take(200).collect();
        Self::Archive { entry, fault, detail: detail.into() }
    }

    pub fn unreadable(error: std::io::Error) -> Self {
        Self::archive("", ArchiveFault::Damaged, format!("it cannot be read: {error}"))
    }
}

/// Entries on their way to a folder.
pub(super) struct Sink {
    folder: PathBuf,
    budget: Budget,
    names: Names,
    buffer: Vec<u8>,
    entries: usize,
    files: usize,
    bytes: u64,
}

impl Sink {
    /// Into `folder`, which exists and is empty.
    pub fn new(folder: &std::path::Path, budget: Budget) -> Self {
        let names = Names::with(MARKER);
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

    /// Counts an entry, whatever it is.
    pub fn count(&mut self, name: &str) -> Result<(), Fault> {
        self.entries += 1;
        let limit = self.budget.max_entries;
        if self.entries > limit {
            let detail = format!("there are more entries than the budget of {limit}");
            return Err(Fault::archive(name, ArchiveFault::TooManyEntries, detail));
        }
        Ok(())
    }

    /// Fails if a file that declares `size` bytes does not fit.
    pub fn check_size(&self, name: &str, size: u64) -> Result<(), Fault> {
        let limit = self.budget.max_entry_bytes;
        if size > limit {
            let detail = format!("{size} bytes exceed the budget of {limit} for one entry");
            return Err(Fault::archive(name, ArchiveFault::TooLarge, detail));
        }
        self.check_total(name, self.bytes.saturating_add(size))
    }

    /// Fails if files of `total` bytes would not fit.
    pub fn check_total(&self, name: &str, total: u64) -> Result<(), Fault> {
        let limit = self.budget.max_total_bytes;
        if total <= limit {
            return Ok(());
        }
        let detail = format!("{total} bytes up to it exceed the budget of {limit} for all entries");
        Err(Fault::archive(name, ArchiveFault::TooLarge, detail))
    }

    /// Makes a folder.
    pub fn folder(&mut self, raw_name: &[u8]) -> Result<(), Fault> {
        let name = String::from_utf8_lossy(raw_name);
        self.count(&name)?;
        let path =
            self.names.folder(raw_name).map_err(|(fault, detail)| Fault::archive(&name, fault, detail))?;
        let path = self.folder.join(path);
        fs::create_dir_all(&path).map_err(|error| Fault::Machine(Error::io("create", &path, error)))
    }

    /// Writes a file that declares `size` bytes and holds what `data` yields, which must be as many. No byte above the
    /// budget is written.
    pub fn file(&mut self, raw_name: &[u8], size: u64, data: &mut impl Read) -> Result<(), Fault> {
        let name = String::from_utf8_lossy(raw_name);
        self.count(&name)?;
        self.check_size(&name, size)?;
        let path =
            self.names.file(raw_name).map_err(|(fault, detail)| Fault::archive(&name, fault, detail))?;
        let path = self.folder.join(path);
        let machine = |error| Fault::Machine(Error::io("write", &path, error));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(machine)?;
        }
        let mut file = File::create_new(&path).map_err(machine)?;
        let damaged = |detail: String| Fault::archive(&name, ArchiveFault::Damaged, detail);
        let mut written = 0u64;
        loop {
            let len = match data.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(damaged(format!("its data are damaged: {error}"))),
            };
            if written + len as u64 > size {
                return Err(damaged(format!("it holds more than the {size} bytes that it declares")));
            }
            file.write_all(&self.buffer[..len]).map_err(machine)?;
            written += len as u64;
        }
        if written < size {
            return Err(damaged(format!("it ends after {written} of {size} bytes")));
        }
        self.bytes += written;
        self.files += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(budget: [u64; 3]) -> Budget {
        let [entries, max_entry_bytes, max_total_bytes] = budget;
        Budget { max_entries: entries as usize, max_entry_bytes, max_total_bytes }
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
        let mut sink = Sink::new(dir.path(), limits([10, 100_000, 150_000]));
        // It declares what fits and holds without end.
        let endless = sink.file(b"a", 100_000, &mut std::io::repeat(7));
        assert_eq!(fault(endless), ArchiveFault::Damaged);
        assert!(fs::metadata(dir.path().join("a")).unwrap().len() <= 100_000);
        assert_eq!(fault(sink.file(b"b", 100_001, &mut std::io::empty())), ArchiveFault::TooLarge);
        sink.file(b"c", 90_000, &mut std::io::repeat(7).take(90_000)).unwrap();
        assert_eq!(
            fault(sink.file(b"d", 60_001, &mut std::io::repeat(7).take(60_001))),
            ArchiveFault::TooLarge
        );
        assert!(!dir.path().join("b").exists() && !dir.path().join("d").exists());
        assert_eq!((sink.files(), sink.bytes()), (1, 90_000));
    }

    #[test]
    fn a_file_must_be_as_long_as_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = Sink::new(dir.path(), limits([4, 100, 100]));
        assert_eq!(fault(sink.file(b"a", 5, &mut &b"1234"[..])), ArchiveFault::Damaged);
        assert_eq!(fault(sink.file(b"b", 3, &mut &b"1234"[..])), ArchiveFault::Damaged);
        sink.file(b"x/c", 4, &mut &b"1234"[..]).unwrap();
        assert_eq!(fs::read(dir.path().join("x/c")).unwrap(), b"1234");
        sink.folder(b"x").unwrap();
        assert_eq!(fault(sink.folder(b"y")), ArchiveFault::TooManyEntries);
    }
}
