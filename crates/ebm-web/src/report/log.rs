//! Logs with one JSON object per line, which may still grow.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde::de::DeserializeOwned;

/// Largest length of a line in bytes, thousands of times that of a training's.
const MAX_LINE: u64 = 1 << 20;

/// A log, and the number of bytes read so far.
pub(super) struct Log {
    pub path: PathBuf,
    read: u64,
}

impl Log {
    /// Creates the reader of the log at `path`, which need not exist, from its beginning.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// Returns whether the log is shorter than the part that was read.
    pub fn is_truncated(&self) -> io::Result<bool> {
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok(found.len() < self.read),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.read > 0),
            Err(error) => Err(error),
        }
    }

    /// Passes each new record to `take`, and returns a note about malformed lines. An incomplete last line is read again
    /// the next time. A line of more than 1 MiB is an error.
    pub fn read_new<T: DeserializeOwned>(&mut self, mut take: impl FnMut(T)) -> io::Result<Option<String>> {
        let mut file = match ebm_base::files::open_input(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut reader = BufReader::new(file);
        let (mut line, mut number, mut bad) = (Vec::new(), 0_usize, Vec::new());
        while reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? > 0 {
            number += 1;
            let is_whole = line.ends_with(b"\n");
            if !is_whole && line.len() as u64 == MAX_LINE {
                let reason = format!("line {number} has {MAX_LINE} bytes or more; remove it");
                return Err(io::Error::new(ErrorKind::InvalidData, reason));
            }
            match serde_json::from_slice(&line) {
                Ok(record) if is_whole => take(record),
                _ if line.trim_ascii().is_empty() => {}
                _ => bad.push(number),
            }
            self.read += if is_whole { line.len() as u64 } else { 0 };
            line.clear();
        }
        let first = bad.first().map(|first| (bad.len(), first));
        Ok(first.map(|(count, first)| {
            format!("{count} of its {number} lines are no records and left out, the first is line {first}")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let mut log = Log::new(path.clone());
        let mut gained = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut found: Vec<u32> = Vec::new();
            let said = log.read_new(|number| found.push(number)).unwrap();
            (found, said)
        };
        assert_eq!(gained("1\n\n2\n"), (vec![1, 2], None));
        let (found, said) = gained("1\n\n2\nNaN\n3\n4");
        assert_eq!(found, [3]);
        assert!(said.unwrap().starts_with("2 of its 3 lines are no records"));
        assert_eq!(gained("1\n\n2\nNaN\n3\n45\n"), (vec![45], None));
        assert!(!log.is_truncated().unwrap());
        std::fs::write(&path, "1\n").unwrap();
        assert!(log.is_truncated().unwrap());
        assert_eq!(Log::new("/no/such/file".into()).read_new(|_: u32| ()).unwrap(), None);
    }

    #[test]
    fn a_line_without_an_end_is_not_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        std::fs::write(&path, "1\n2\n").unwrap();
        // A sparse file, which no memory holds.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let mut found = Vec::new();
        let error = Log::new(path).read_new(|number: u32| found.push(number)).unwrap_err();
        assert!(error.to_string().contains("line 3 has"), "{error}");
        assert_eq!(found, [1, 2]);
    }
}
