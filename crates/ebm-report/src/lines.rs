//! Logs of one JSON object a line, as far as they can be read.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::de::DeserializeOwned;

/// Gives each record of the file at `path` to `take`, and returns what is to be said of the others: a last line that
/// was cut off, lines that are no record, a file that cannot be read. Nothing where there is no file.
pub fn read<T: DeserializeOwned>(path: &Path, mut take: impl FnMut(T)) -> Option<String> {
    let file = match ebm_files::open_input(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    let mut reader = BufReader::new(file);
    let (mut line, mut number) = (Vec::new(), 0_usize);
    let (mut bad, mut first) = (0_usize, String::new());
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => number += 1,
            Err(error) => return Some(format!("it cannot be read beyond line {number}: {error}")),
        }
        let is_whole = line.ends_with(b"\n");
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(record) => take(record),
            Err(_) if !is_whole && bad == 0 => {
                return Some(format!("its last line, {number}, is cut off and left out"));
            }
            Err(error) => {
                if bad == 0 {
                    first = format!("line {number}: {error}");
                }
                bad += 1;
            }
        }
    }
    (bad > 0)
        .then(|| format!("{bad} of its {number} lines are no records and left out, the first is {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> (Vec<u32>, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut found = Vec::new();
        let said = read(&path, |number| found.push(number));
        (found, said)
    }

    #[test]
    fn what_can_be_read_is_read() {
        assert_eq!(said("1\n2\n\n3\n"), (vec![1, 2, 3], None));
        let (found, note) = said("1\n2\n{\"st");
        assert_eq!(found, [1, 2]);
        assert!(note.unwrap().contains("its last line, 3, is cut off"));
        let (found, note) = said("1\nNaN\n3\n\u{0}");
        assert_eq!(found, [1, 3]);
        let note = note.unwrap();
        assert!(note.contains("2 of its 4 lines") && note.contains("line 2: "), "{note}");
        assert_eq!(read(Path::new("/no/such/file"), |_: u32| ()), None);
    }
}
