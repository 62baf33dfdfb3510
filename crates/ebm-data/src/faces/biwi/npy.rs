//! The header of a `.npy` array: NumPy Enhancement Proposal 1, versions 1.0, 2.0 and 3.0.

use std::io::Read;

/// The longest header; NumPy's own limit, a hundred times what the arrays here need.
const MAX_HEADER_BYTES: usize = 10_000;
/// The most dimensions; NumPy's own limit.
const MAX_DIMENSIONS: usize = 64;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The type of an element, such as `<f8`.
    pub descr: String,
    /// Whether the first index runs fastest.
    pub fortran_order: bool,
    /// Elements along each dimension; empty for a scalar.
    pub shape: Vec<usize>,
}

impl Header {
    /// Reads a header and leaves `reader` at the first element; also the bytes read.
    pub fn read(reader: &mut impl Read) -> Result<(Self, usize), String> {
        let [version, _, len_bytes @ ..] = {
            let magic: [u8; 6] = read_array(reader)?;
            if magic != *b"\x93NUMPY" {
                return Err("it does not begin with NumPy's magic bytes".to_owned());
            }
            let [major, minor] = read_array(reader)?;
            if !(1..=3).contains(&major) || minor != 0 {
                return Err(format!("format version {major}.{minor} is none of 1.0, 2.0, 3.0"));
            }
            let [low, high] = read_array(reader)?;
            let [third, fourth] = if major == 1 { [0, 0] } else { read_array(reader)? };
            [major, minor, low, high, third, fourth]
        };
        let len = u32::from_le_bytes(len_bytes) as usize;
        if len > MAX_HEADER_BYTES {
            return Err(format!("a header of {len} bytes exceeds the limit of {MAX_HEADER_BYTES}"));
        }
        let mut text = vec![0; len];
        read_all(reader, &mut text)?;
        // Versions 1 and 2 are Latin-1, but no type read here has a name that is not ASCII.
        let text = std::str::from_utf8(&text).map_err(|error| format!("the header is no text: {error}"))?;
        let header = Parser { rest: text }.header().map_err(|detail| format!("header {text:?}: {detail}"))?;
        Ok((header, 6 + 2 + if version == 1 { 2 } else { 4 } + len))
    }

    /// The size of the elements, `item` bytes each; `None` above what an integer holds.
    pub fn data_bytes(&self, item: usize) -> Option<u64> {
        let shape = self.shape.iter().chain([&item]);
        shape.into_iter().try_fold(1u64, |product, &count| product.checked_mul(count as u64))
    }

    /// The header as NumPy writes it: version 1.0, elements aligned to 64 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let shape: String = self.shape.iter().map(|count| format!("{count}, ")).collect();
        let shape = if self.shape.len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
        let order = if self.fortran_order { "True" } else { "False" };
        let text = format!("{{'descr': '{}', 'fortran_order': {order}, 'shape': ({shape}), }}", self.descr);
        let total = (10 + text.len() + 1).next_multiple_of(64);
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(((total - 10) as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.resize(total - 1, b' ');
        bytes.push(b'\n');
        bytes
    }
}

/// Fills `buffer`; the error says that the data end, or why they cannot be read.
pub(super) fn read_all(reader: &mut impl Read, buffer: &mut [u8]) -> Result<(), String> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the data end too early".to_owned(),
        _ => format!("the data cannot be read: {error}"),
    })
}

pub(super) fn read_array<const N: usize>(reader: &mut impl Read) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    read_all(reader, &mut bytes)?;
    Ok(bytes)
}

/// Reads the literal of a Python dictionary, as far as headers use it.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn header(&mut self) -> Result<Header, String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.take('}') {
            let key = self.string()?;
            self.expect(':')?;
            let repeated = match key {
                "descr" => descr.replace(self.string()?.to_owned()).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                other => return Err(format!("unknown key {other:?}")),
            };
            if repeated {
                return Err(format!("key {key:?} occurs twice"));
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err("text after the closing brace".to_owned());
        }
        let missing = |key: &str| format!("key {key:?} is missing");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(format!("{wanted:?} expected before {:?}", self.rest)) }
    }

    /// A string without escapes.
    fn string(&mut self) -> Result<&'a str, String> {
        let quote = if self.take('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect(quote)?;
        }
        let (text, rest) = self.rest.split_once(quote).ok_or("a string does not end")?;
        if text.contains('\\') {
            return Err(format!("string {text:?} has an escape"));
        }
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(format!("True or False expected before {:?}", self.rest))
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            if shape.len() == MAX_DIMENSIONS {
                return Err(format!("more than {MAX_DIMENSIONS} dimensions"));
            }
            shape.push(self.count()?);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn count(&mut self) -> Result<usize, String> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let count = digits.parse().map_err(|error| format!("shape entry {digits:?}: {error}"))?;
        // Python 2 writes its long integers as 12L.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header, String> {
        Parser { rest: text }.header()
    }

    fn header(descr: &str, fortran_order: bool, shape: &[usize]) -> Header {
        Header { descr: descr.to_owned(), fortran_order, shape: shape.to_vec() }
    }

    #[test]
    fn a_header_comes_back() {
        let shapes: [&[usize]; 4] = [&[], &[7], &[10_613, 3], &[10_613, 64, 64, 3]];
        for shape in shapes {
            for order in [false, true] {
                let wanted = header("<f8", order, shape);
                let bytes = wanted.to_bytes();
                assert_eq!(bytes.len() % 64, 0);
                assert_eq!(Header::read(&mut &bytes[..]).unwrap(), (wanted, bytes.len()));
            }
        }
    }

    #[test]
    fn versions_differ_in_the_width_of_the_length() {
        let text = b"{'shape': (), 'descr': \"|u1\", 'fortran_order': False}\n";
        for version in [1, 2, 3] {
            let mut bytes = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0, text.len() as u8, 0];
            if version > 1 {
                bytes.extend([0, 0]);
            }
            bytes.extend(text);
            assert_eq!(Header::read(&mut &bytes[..]).unwrap(), (header("|u1", false, &[]), bytes.len()));
            bytes[6] = 4;
            assert!(Header::read(&mut &bytes[..]).unwrap_err().contains("version 4.0"));
        }
    }

    #[test]
    fn an_absurd_length_allocates_nothing() {
        let bytes = b"\x93NUMPY\x02\x00\xff\xff\xff\xff";
        assert!(Header::read(&mut &bytes[..]).unwrap_err().contains("4294967295 bytes exceed"));
        let bytes = b"\x93NUMPY\x01\x00\x10\x00{'descr'";
        assert!(Header::read(&mut &bytes[..]).unwrap_err().contains("end too early"));
        assert!(Header::read(&mut &b"PK"[..]).unwrap_err().contains("end too early"));
        assert!(Header::read(&mut &b"NUMPY\x93\x01\x00\x00\x00"[..]).unwrap_err().contains("magic"));
    }

    #[test]
    fn what_is_no_header_is_said() {
        let good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3,), }";
        assert_eq!(parse(good).unwrap(), header("<f8", false, &[2, 3]));
        let cases = [
            ("", "'{' expected"),
            ("{}", "\"descr\" is missing"),
            (&good.replace("'<f8'", "[('a', '<f8')]"), "'\\'' expected"),
            (&good.replace("False", "0"), "True or False"),
            (&good.replace("3,", "-3"), "shape entry"),
            (&good.replace("3,", "99999999999999999999"), "too large"),
            (&good.replace("3,", &"1,".repeat(64)), "64 dimensions"),
            (&good.replace("'fortran_order': False", "'descr': '<f8'"), "occurs twice"),
            (&good.replace("descr", "type"), "unknown key"),
            (&good.replace("'<f8'", "'\\x3cf8'"), "escape"),
            (&good.replace(", }", "} + x"), "after the closing brace"),
        ];
        for (text, said) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_product_beyond_an_integer_is_none() {
        assert_eq!(header("<f8", false, &[1 << 40, 3]).data_bytes(8), Some(24 << 40));
        assert_eq!(header("<f8", false, &[1 << 61]).data_bytes(8), None);
        assert_eq!(header("|u1", false, &[usize::MAX, usize::MAX]).data_bytes(1), None);
        assert_eq!(header("<f8", false, &[]).data_bytes(8), Some(8));
    }
}
