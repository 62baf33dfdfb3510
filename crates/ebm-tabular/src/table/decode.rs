//! Texts of files: unpacked and decoded.

use std::io::Read;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::read::MultiGzDecoder;

/// Unpacks gzip and decodes the text. Returns the text, with line ends of one byte, and the name of its encoding: that of
/// a byte order mark, UTF-16 where a zero is beside the first letter, UTF-8 where the bytes are valid, else Windows-1252.
pub fn decode(mut bytes: Vec<u8>, limit: u64) -> Result<(String, &'static str), String> {
    if bytes.starts_with(b"\x1f\x8b") {
        let mut unpacked = Vec::new();
        let read = MultiGzDecoder::new(&*bytes).take(limit + 1).read_to_end(&mut unpacked);
        read.map_err(|error| format!("its gzip is damaged: {error}"))?;
        bytes = unpacked;
    }
    if bytes.len() as u64 > limit {
        return Err(format!("it has more than {limit} bytes"));
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PAR1") {
        return Err("it is a spreadsheet, a zip or a Parquet file; save it as CSV".to_owned());
    }
    let encoding = match (Encoding::for_bom(&bytes), &*bytes) {
        (Some((encoding, _)), _) => encoding,
        (None, [_, 0, ..]) => UTF_16LE,
        (None, [0, _, ..]) => UTF_16BE,
        _ if std::str::from_utf8(&bytes).is_ok() => UTF_8,
        _ => WINDOWS_1252,
    };
    let (text, _, is_damaged) = encoding.decode(&bytes);
    if is_damaged || text.contains('\0') {
        let line =
            text.split(['\0', char::REPLACEMENT_CHARACTER]).next().unwrap_or_default().matches('\n').count();
        let (line, name) = (line + 1, encoding.name());
        return Err(format!("line {line} has a zero byte, or bytes that are no {name}; save it as UTF-8"));
    }
    let text =
        if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.into_owned() };
    Ok((text, encoding.name()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn bytes_say_how_they_are_written() {
        let wide =
            |bytes: fn(u16) -> [u8; 2], text: &str| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        let cases = [
            ("é".as_bytes().to_vec(), "UTF-8"),
            ("\u{feff}é".as_bytes().to_vec(), "UTF-8"),
            (b"\xe9".to_vec(), "windows-1252"),
            (wide(u16::to_le_bytes, "\u{feff}é"), "UTF-16LE"),
            (wide(u16::to_be_bytes, "\u{feff}é"), "UTF-16BE"),
            (wide(u16::to_le_bytes, "é"), "UTF-16LE"),
            (wide(u16::to_be_bytes, "é"), "UTF-16BE"),
        ];
        for (bytes, name) in cases {
            assert_eq!(decode(bytes, 9).unwrap(), ("é".to_owned(), name));
        }
        for (bytes, reason) in [
            (&b"a,b\n1,\0\n"[..], "line 2 has a zero byte"),
            (b"\xff\xfea\0\n\0\x00\xd8x\0", "line 2 has"),
            (b"PK\x03\x04xl", "save it as CSV"),
            (b"\x1f\x8b\x08xl", "gzip is damaged"),
        ] {
            let said = decode(bytes.to_vec(), 99).unwrap_err();
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&[b'a'; 100_000]).unwrap();
        let packed = packer.finish().unwrap();
        assert!(packed.len() < 1000);
        assert_eq!(decode(packed.clone(), 100_000).unwrap().0.len(), 100_000);
        assert!(decode(packed, 99_999).unwrap_err().contains("more than 99999 bytes"));
    }
}
