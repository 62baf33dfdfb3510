//! MXNet's `.params`: a list of arrays, and their names, which begin with `arg:` or, of buffers, `aux:`.
//!
//! All little-endian: a magic number and a reserved one, the number of arrays (8 bytes each); each array as a magic
//! number, how it is stored, the rank (4 bytes each), the extents (8 bytes each), two numbers of a device, the type
//! (4 bytes each) and the elements; the number of names, and each as its length and the text. There are no
//! checksums.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};

const MAGIC: u64 = 0x112;
/// An array as every MXNet since 0.12 writes it.
const ARRAY: u32 = 0xF993_FAC9;
/// The greatest rank of an array.
const MAX_RANK: u32 = 32;

/// Whether `bytes` begin as this format does. Behind the same length of a safetensors file's header a brace stands.
pub(super) fn is_mxnet(bytes: &[u8]) -> bool {
    bytes.starts_with(&[MAGIC.to_le_bytes(), [0; 8]].concat())
}

/// The arrays by their names; the error tells the place.
pub(super) fn read(bytes: &[u8], device: &Device) -> Result<BTreeMap<String, Tensor>, String> {
    let mut reader = Reader { rest: bytes, length: bytes.len() };
    reader.skip(16)?;
    let count = reader.number::<8>().map(u64::from_le_bytes)?;
    let mut arrays = Vec::new();
    for number in 0..count {
        let at = reader.at();
        let array = array(&mut reader, device);
        arrays.push(array.map_err(|reason| format!("array {number} at byte {at}: {reason}"))?);
    }
    let names = reader.number::<8>().map(u64::from_le_bytes)?;
    if names != count {
        return Err(format!("{names} names for {count} arrays"));
    }
    let mut tensors = BTreeMap::new();
    for array in arrays {
        let at = reader.at();
        let length = reader.number::<8>().map(u64::from_le_bytes)?;
        let name = usize::try_from(length).map_err(|_| "cut off".to_owned()).and_then(|len| reader.skip(len));
        let name = name.and_then(|name| str::from_utf8(name).map_err(|error| error.to_string()));
        let name = name.map_err(|reason| format!("the name at byte {at}: {reason}"))?;
        if tensors.insert(name.to_owned(), array).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    match reader.rest.len() {
        0 => Ok(tensors),
        more => Err(format!("{more} bytes are left behind the last name")),
    }
}

fn array(reader: &mut Reader<'_>, device: &Device) -> Result<Tensor, String> {
    let [magic, storage, rank] = reader.words()?;
    if magic != ARRAY || storage != 0 {
        return Err(format!(
            "{magic:#x}, stored as {storage}: only dense arrays of MXNet 0.12 or later are read"
        ));
    }
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(format!("{rank} dimensions, not 1 to {MAX_RANK}"));
    }
    let mut shape = Vec::new();
    for _ in 0..rank {
        let extent = u64::from_le_bytes(reader.number()?);
        shape.push(usize::try_from(extent).map_err(|error| format!("an extent of {extent}: {error}"))?);
    }
    let [_, _, kind] = reader.words()?;
    let dtype = match kind {
        0 => DType::F32,
        1 => DType::F64,
        2 => DType::F16,
        3 => DType::U8,
        6 => DType::I64,
        other => return Err(format!("its type has the number {other}; only floats, u8 and i64 are read")),
    };
    let size = shape.iter().try_fold(dtype.size_in_bytes(), |size, extent| size.checked_mul(*extent));
    let data = reader.skip(size.ok_or_else(|| format!("{shape:?} is more than any memory holds"))?)?;
    Tensor::from_raw_buffer(data, dtype, &shape, device).map_err(|error| error.to_string())
}

/// What has not been read yet of `length` bytes.
struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
        self.length - self.rest.len()
    }

    fn skip(&mut self, count: usize) -> Result<&'a [u8], String> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else {
            let (at, length) = (self.at(), self.length);
            return Err(format!(
                "cut off: {count} bytes from byte {at} on, of {length}; download or save the file again"
            ));
        };
        self.rest = rest;
        Ok(head)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.skip(N)?.first_chunk().copied().unwrap_or([0; N]))
    }

    fn words(&mut self) -> Result<[u32; 3], String> {
        let mut words = [0; 3];
        for word in &mut words {
            *word = u32::from_le_bytes(self.number()?);
        }
        Ok(words)
    }
}
