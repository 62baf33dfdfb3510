//! Texts of files: unpacked and decoded.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read};
use std::path::PathBuf;

use ebm_base::files::open_input;
use encoding_rs::{Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::bufread::MultiGzDecoder;

/// Bytes of a table, which are read several times.
pub enum Source {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A regular file; memory holds a part at a time.
    File(PathBuf),
}

impl Source {
    /// Opens the bytes, unpacked if they are gzip, and says whether they are.
    fn bytes(&self) -> io::Result<(bool, Box<dyn Read + '_>)> {
        let mut bytes: Box<dyn BufRead> = match self {
            Self::Bytes(bytes) => Box::new(&**bytes),
            Self::File(path) => Box::new(BufReader::new(open_input(path)?)),
        };
        let is_packed = bytes.fill_buf()?.starts_with(b"\x1f\x8b");
        Ok((is_packed, if is_packed { Box::new(MultiGzDecoder::new(bytes)) } else { bytes }))
    }

    /// Opens the text in this encoding, with line ends of one byte. More than `limit` bytes, unpacked, are an error.
    pub(super) fn text(&self, encoding: &'static Encoding, limit: u64) -> io::Result<Text<'_>> {
        let (raw, decoder) = (vec![0; CHUNK], encoding.new_decoder());
        let (bytes, text) = (self.bytes()?.1, Vec::new());
        let (is_after_return, is_done) = (false, false);
        Ok(Text { bytes, raw, decoder, text, at: 0, count: 0, lines: 0, limit, is_after_return, is_done })
    }

    /// Reads all, and finds the encoding: that of a byte order mark, UTF-16 where a zero is beside the first letter, UTF-8
    /// where the bytes are valid, else Windows-1252. More than `limit` bytes, unpacked, are an error.
    pub(super) fn encoding(&self, limit: u64) -> Result<&'static Encoding, String> {
        let (is_packed, bytes) = self.bytes().map_err(|error| error.to_string())?;
        // Errors of the text are of no kind.
        let fail = |error: Error| match error.kind() {
            ErrorKind::Other => error.to_string(),
            _ if is_packed => format!("its gzip is damaged: {error}"),
            _ => error.to_string(),
        };
        let mut head = Vec::new();
        bytes.take(4).read_to_end(&mut head).map_err(fail)?;
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PAR1") {
            return Err("it is a spreadsheet, a zip or a Parquet file; save it as CSV".to_owned());
        }
        let read = |encoding| {
            io::copy(&mut self.text(encoding, limit)?, &mut io::sink())?;
            Ok(encoding)
        };
        let found = match (Encoding::for_bom(&head), &*head) {
            (Some((encoding, _)), _) => read(encoding),
            (None, [_, 0, ..]) => read(UTF_16LE),
            (None, [0, _, ..]) => read(UTF_16BE),
            _ => read(UTF_8).or_else(|error| read(WINDOWS_1252).map_err(|_| error)),
        };
        found.map_err(fail)
    }
}

/// Number of bytes that are decoded together.
const CHUNK: usize = 1 << 16;

/// Decoded text as bytes of UTF-8.
pub(super) struct Text<'a> {
    bytes: Box<dyn Read + 'a>,
    raw: Vec<u8>,
    decoder: Decoder,
    text: Vec<u8>,
    /// Place in `text` of the next byte to read.
    at: usize,
    /// Number of bytes and of line feeds so far.
    count: u64,
    lines: usize,
    limit: u64,
    is_after_return: bool,
    is_done: bool,
}

impl Text<'_> {
    /// Makes more than `limit` further bytes an error.
    pub(super) fn limit(&mut self, limit: u64) {
        (self.count, self.limit) = (0, limit);
    }

    /// Decodes the next bytes.
    fn fill(&mut self) -> io::Result<()> {
        let count = self.bytes.read(&mut self.raw)?;
        (self.at, self.is_done) = (0, count == 0);
        self.count += count as u64;
        if self.count > self.limit {
            return Err(Error::other(format!("it has more than {} bytes", self.limit)));
        }
        let mut text = String::with_capacity(self.decoder.max_utf8_buffer_length(count).unwrap_or(8 * CHUNK));
        let (.., is_damaged) = self.decoder.decode_to_string(&self.raw[..count], &mut text, self.is_done);
        let feeds = |text: &str| text.matches('\n').count();
        if is_damaged || text.contains('\0') {
            let before = text.split(['\0', char::REPLACEMENT_CHARACTER]).next().unwrap_or_default();
            let (line, name) = (self.lines + feeds(before) + 1, self.decoder.encoding().name());
            let reason =
                format!("line {line} has a zero byte, or bytes that are no {name}; save it as UTF-8");
            return Err(Error::other(reason));
        }
        self.lines += feeds(&text);
        self.text = text.into_bytes();
        if self.is_after_return || self.text.contains(&b'\r') {
            // A line feed after a carriage return goes, and every carriage return becomes a line feed.
            let is_after = &mut self.is_after_return;
            self.text.retain(|&byte| !(std::mem::replace(is_after, byte == b'\r') && byte == b'\n'));
            self.text.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
        Ok(())
    }
}

impl Read for Text<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() && !self.is_done {
            self.fill()?;
        }
        let count = (&self.text[self.at..]).read(to)?;
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Returns the text and the name of its encoding. It is read in parts of a single byte, too.
    fn decode(bytes: Vec<u8>, limit: u64) -> Result<(String, &'static str), String> {
        let source = Source::Bytes(bytes);
        let encoding = source.encoding(limit)?;
        let mut text = String::new();
        source.text(encoding, limit).unwrap().read_to_string(&mut text).unwrap();
        let mut slow = source.text(encoding, limit).unwrap();
        slow.raw.truncate(1);
        let mut again = String::new();
        slow.read_to_string(&mut again).unwrap();
        assert_eq!(text, again);
        Ok((text, encoding.name()))
    }

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
        let (text, _) = decode(b"a\r\nb\rc\r\r\nd\n\ne\n\r".to_vec(), 99).unwrap();
        assert_eq!(text, "a\nb\nc\n\nd\n\ne\n\n");
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
