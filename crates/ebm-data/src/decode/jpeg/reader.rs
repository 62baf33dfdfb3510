//! A stream of bytes that knows how far a decoder has read.

use std::cell::Cell;
use std::io::{BufRead, Read, Result, Seek, SeekFrom};

use zune_jpeg::zune_core::bytestream::ZCursor;

/// Bytes, and where those were last asked for that fill the decoder's bit buffer.
pub(super) struct Watched<'a> {
    bytes: ZCursor<&'a [u8]>,
    asked: &'a Cell<u64>,
}

impl<'a> Watched<'a> {
    /// `asked` becomes the place of the latest request.
    pub(super) fn new(bytes: &'a [u8], asked: &'a Cell<u64>) -> Self {
        Self { bytes: ZCursor::new(bytes), asked }
    }
}

impl Read for Watched<'_> {
    #[inline(always)]
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        // The decoder asks for four bytes when its bit buffer runs low, and never else while it decodes a
        // scan; what is behind the last block it skips one by one.
        if buffer.len() == 4 {
            self.asked.set(self.bytes.stream_position()?);
        }
        self.bytes.read(buffer)
    }
}

impl BufRead for Watched<'_> {
    #[inline(always)]
    fn fill_buf(&mut self) -> Result<&[u8]> {
        self.bytes.fill_buf()
    }

    #[inline(always)]
    fn consume(&mut self, amount: usize) {
        self.bytes.consume(amount);
    }
}

impl Seek for Watched<'_> {
    #[inline(always)]
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.bytes.seek(to)
    }
}
