//! The file `SHA256SUMS`. One function writes its text, and verification compares the file byte for byte with
//! that text for the files found, so that every changed bit is detected.

use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

/// Returns the SHA-256 of bytes, in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Returns bytes in lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Returns the text of `SHA256SUMS` for files given by name and content.
pub(super) fn render(files: &[(&str, &[u8])]) -> String {
    files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect()
}

/// Checks files against the `SHA256SUMS` of their directory.
pub(super) fn verify(dir: &Path, sums: &[u8], files: &[(&str, &[u8])]) -> Result<()> {
    let actual = render(files);
    if actual.as_bytes() == sums {
        return Ok(());
    }
    let text = String::from_utf8_lossy(sums);
    let mut recorded = text.lines();
    for (line, (name, _)) in actual.lines().zip(files) {
        let recorded = recorded.next().unwrap_or("nothing");
        if line != recorded {
            let problem = format!("its hash is \"{line}\", {} says \"{recorded}\"", super::SUMS);
            return Err(Error::corrupt(dir.join(name), problem));
        }
    }
    Err(Error::corrupt(dir.join(super::SUMS), "extra or differently ended lines"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_sha256sum_prints() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(render(&[("a", b"abc")]), format!("{abc}  a\n"));
    }
}
