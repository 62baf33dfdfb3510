//! Tables in blocks of rows, for files that memory does not hold.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::sync::Arc;

use csv::{ByteRecord, Position, ReaderBuilder, StringRecord};
use ebm_base::Key;
use encoding_rs::Encoding;
use rand::Rng;
use rayon::prelude::*;

use super::decode::{Source, Text};
use super::form::{Evidence, Seen};
use super::{ReadOptions, Table, names_of};
use crate::prediction::BATCH_ROWS;
use crate::{Error, Result};

/// A table that is read in blocks of rows, so that memory holds one block at a time.
///
/// ```no_run
/// use ebm_tabular::{Blocks, Error, ReadOptions, Source};
///
/// let blocks = Blocks::open("houses", Source::File("houses.csv".into()), &ReadOptions::default())?;
/// blocks.each(|block| {
///     println!("{} of {} rows, from line {}", block.rows(), blocks.rows(), block.line(0));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub struct Blocks {
    source: Source,
    encoding: &'static Encoding,
    /// Number of bytes of text before the line of names.
    begin: u64,
    rows: usize,
    /// The table without rows.
    pub(super) table: Table,
    /// Remedy that errors of the file end with.
    remedy: &'static str,
}

/// Largest number of rows of a block, a multiple of the rows that are predicted together.
const BLOCK: usize = 4096;
/// Largest number of cells of a block of more than [`BATCH_ROWS`] rows, and of bytes.
const BLOCK_CELLS: usize = 4 << 20;
const BLOCK_BYTES: u64 = 256 << 20;
/// Largest number of bytes of a cell.
const MAX_CELL: usize = 1 << 20;
/// First cell of a row that is read behind the last: a quote that never ends would take it in.
const END: &str = "\u{10ffff}end";
/// Number of bytes in which the line of names should end.
const HEAD: u64 = 16 << 20;
/// Possible separators of values.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

impl Blocks {
    /// Reads a table of any size once, and finds its encoding, its separator and the forms of its columns. `name` names it in
    /// errors.
    ///
    /// # Errors
    /// The errors of [`Table::read`], but for that of a large file.
    pub fn open(name: &str, source: Source, options: &ReadOptions) -> Result<Self> {
        Self::new(name, source, options, u64::MAX, &mut |_| {})
    }

    /// Reads `count` rows of a table of any size at random, in their order; all rows if there are fewer. Returns the table
    /// of these, whose columns have the forms that all rows show, and the number of all rows.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn sample(
        name: &str,
        source: Source,
        options: &ReadOptions,
        count: usize,
        key: Key,
    ) -> Result<(Table, usize)> {
        let (mut rows, mut seen, mut rng) = (Vec::<StringRecord>::new(), 0, key.rng());
        // Algorithm R of Vitter (1985): every row seen so far is kept with the same probability.
        let keep = &mut |block: Table| {
            for row in block.rows {
                let place = if seen < count { seen } else { rng.random_range(0..=seen) };
                match rows.get_mut(place) {
                    Some(kept) => *kept = row,
                    None if place < count => rows.push(row),
                    None => {}
                }
                seen += 1;
            }
        };
        let table = Self::new(name, source, options, u64::MAX, keep)?.table;
        rows.sort_by_key(|row| row.position().map(Position::byte));
        Ok((Table { rows, ..table }, seen))
    }

    /// Reads at most `limit` bytes of text once. `keep` gets every block.
    pub(super) fn new(
        name: &str,
        source: Source,
        options: &ReadOptions,
        limit: u64,
        keep: &mut dyn FnMut(Table),
    ) -> Result<Self> {
        if let Source::File(path) = &source {
            // A file that cannot be opened has an error of its own kind.
            ebm_base::files::open_input(path).map_err(|error| ebm_data::Error::io("read", path, error))?;
        }
        let encoding = source.encoding(limit).map_err(|reason| Error::input(name, reason))?;
        let mut head = Vec::new();
        let text = source.text(encoding, limit).and_then(|text| text.take(HEAD).read_to_end(&mut head));
        text.map_err(|error| Error::input(name, error))?;
        let is_comment = head.starts_with(b"#") && options.comment.is_none();
        let remedy =
            if is_comment { "; give --comment '#' if lines that begin with '#' are comments" } else { "" };
        // Excel reads the separator from a first line such as "sep=;".
        let is_sign = |sign: &u8| head.starts_with(&[b's', b'e', b'p', b'=', *sign]);
        let sign = DELIMITERS.into_iter().find(is_sign);
        let line = head.iter().position(|byte| *byte == b'\n').unwrap_or(head.len());
        let begin = if sign.is_some() { line } else { 0 };
        let delimiter = sign.unwrap_or_else(|| delimiter(&mut builder(options), &head[begin..]));
        let table = Table {
            name: name.to_owned(),
            columns: vec![],
            rows: vec![],
            delimiter: char::from(delimiter),
            encoding: encoding.name(),
            has_index: false,
            seen: Arc::default(),
            options: options.clone(),
        };
        let mut blocks = Self { source, encoding, begin: begin as u64, rows: 0, table, remedy };
        let headers = blocks.reader()?.headers().map_err(|error| blocks.problem(&error))?.clone();
        blocks.table.columns = blocks.names(&headers)?;
        blocks.look(headers[0].trim().is_empty(), keep)?;
        Ok(blocks)
    }

    /// Looks at all rows: counts them, and finds the forms of the columns and an index.
    fn look(&mut self, has_index: bool, keep: &mut dyn FnMut(Table)) -> Result<()> {
        let mut seen = vec![Evidence::default(); self.table.columns.len()];
        let (mut rows, mut counts, mut first) = (0, [true; 2], None);
        self.each(|block| {
            for (row, place) in block.rows.iter().zip(rows..) {
                let number = row[0].trim().parse::<usize>().ok();
                counts.iter_mut().zip(place..).for_each(|(counts, place)| *counts &= number == Some(place));
            }
            rows += block.rows();
            seen.par_iter_mut().enumerate().for_each(|(column, seen)| {
                (0..block.rows()).filter_map(|row| block.text(row, column)).for_each(|text| seen.see(text));
            });
            first.get_or_insert_with(|| block.select(&[0]));
            keep(block);
            Ok::<(), Error>(())
        })?;
        let Some(mut first) = first else {
            return Err(self.fail("it has a line of names, but no rows below it; add rows".to_owned()));
        };
        self.rows = rows;
        self.table.has_index = has_index || counts.contains(&true);
        self.table.seen = Arc::new(Seen::new(seen.into_iter().map(Evidence::found).collect()));
        first.seen = self.table.seen.clone();
        first.check_names()
    }

    /// Returns the table without its rows: names, encoding, separator, and the forms that all rows show.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Reads the rows once more, and passes them to `take` in blocks.
    ///
    /// # Errors
    /// [`Error::Input`] for a file that has changed, and the errors of `take`.
    pub fn each<E: From<Error>>(
        &self,
        mut take: impl FnMut(Table) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut lines = self.lines()?;
        let mut records = self.reader()?.into_records();
        let batches = BLOCK_CELLS / self.table.columns.len() / BATCH_ROWS;
        let count = (batches * BATCH_ROWS).clamp(BATCH_ROWS, BLOCK);
        loop {
            records.reader_mut().get_mut().get_mut().0.get_mut().limit(BLOCK_BYTES);
            let rows = records.by_ref().take(count).collect::<csv::Result<Vec<StringRecord>>>();
            let mut rows = rows.map_err(|error| self.problem(&error))?;
            if let Some(row) = rows.pop_if(|row| row.iter().any(|cell| cell.contains(END)))
                && &row[0] != END
            {
                let line = row.position().map_or(0, |place| lines.line(place));
                let reason =
                    format!("line {line}: a quote begins in this row and never ends; remove or close it");
                return Err(self.fail(reason).into());
            }
            if rows.is_empty() {
                return Ok(());
            }
            for row in &mut rows {
                let place = row.position().cloned();
                row.set_position(place.map(|mut place| place.set_line(lines.line(&place)).clone()));
                if let Some(column) = row.iter().position(|cell| cell.len() > MAX_CELL) {
                    let line = row.position().map_or(0, Position::line);
                    let (name, bytes) = (&self.table.columns[column], row[column].len());
                    let reason = format!(
                        "line {line}, column {name:.40}: {bytes} bytes, and a cell may have {MAX_CELL}; shorten it, or close a quote that is open"
                    );
                    return Err(self.fail(reason).into());
                }
            }
            take(Table { rows, ..self.table.clone() })?;
        }
    }

    fn fail(&self, reason: String) -> Error {
        Error::input(&self.table.name, reason + self.remedy)
    }

    /// Opens the text from the line of names on.
    fn text(&self) -> Result<BufReader<Text<'_>>> {
        let open = || {
            let mut text = BufReader::new(self.source.text(self.encoding, u64::MAX)?);
            io::copy(&mut (&mut text).take(self.begin), &mut io::sink())?;
            Ok(text)
        };
        open().map_err(|error: io::Error| self.fail(error.to_string()))
    }

    fn reader(&self) -> Result<csv::Reader<Chain<BufReader<Text<'_>>, Cursor<String>>>> {
        let (mut builder, mut text) = (builder(&self.table.options), self.text()?);
        // A quote that does not end must not fill the memory.
        text.get_mut().limit(BLOCK_BYTES);
        let (delimiter, others) = (self.table.delimiter, self.table.columns.len().saturating_sub(1));
        let end = format!("\n{END}{}\n", delimiter.to_string().repeat(others));
        let builder = builder.has_headers(true).flexible(false).delimiter(delimiter as u8);
        Ok(builder.from_reader(text.chain(Cursor::new(end))))
    }

    fn lines(&self) -> Result<Lines<impl BufRead>> {
        Ok(Lines { text: self.text()?, byte: 0, comment: self.table.options.comment })
    }

    /// Returns the names of the columns.
    fn names(&self, headers: &StringRecord) -> Result<Vec<String>> {
        let columns = names_of(headers.iter()).map_err(|reason| self.fail(reason))?;
        if columns.len() < 2 {
            let reason = "it has a single column, but a target and a column to predict it from are needed; \
                          separate values by commas, semicolons, tabs or bars";
            return Err(self.fail(reason.to_owned()));
        }
        Ok(columns)
    }

    /// Returns the error of a malformed row.
    fn problem(&self, error: &csv::Error) -> Error {
        let line = |place| self.lines().map(|mut lines| lines.line(place));
        let place = match error.position().map(line).transpose() {
            Ok(line) => line.map_or_else(String::new, |line| format!("line {line}: ")),
            Err(error) => return error,
        };
        self.fail(match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => format!(
                "{place}{len} values where the names are {expected_len}, separated by {:?}; \
                 put quotes about a value that holds that sign",
                self.table.delimiter
            ),
            _ => format!("{place}{error}"),
        })
    }
}

/// Lines of a text on which rows begin.
struct Lines<R> {
    text: R,
    /// Number of bytes that were read.
    byte: u64,
    comment: Option<char>,
}

impl<R: BufRead> Lines<R> {
    /// Returns the line of a row, for rows in the order of the text. csv begins a row before the blank lines and comments
    /// above it.
    fn line(&mut self, place: &Position) -> u64 {
        let ahead = place.byte().saturating_sub(self.byte);
        self.byte += io::copy(&mut (&mut self.text).take(ahead), &mut io::sink()).unwrap_or_default();
        let (mut line, mut text) = (place.line(), Vec::new());
        loop {
            text.clear();
            // The text was read before.
            self.byte += self.text.read_until(b'\n', &mut text).unwrap_or_default() as u64;
            let mut sign = [0; 4];
            let is_comment = self
                .comment
                .is_some_and(|comment| text.starts_with(comment.encode_utf8(&mut sign).as_bytes()));
            if text.is_empty() || text != b"\n" && !is_comment {
                return line;
            }
            line += 1;
        }
    }
}

fn builder(options: &ReadOptions) -> ReaderBuilder {
    let mut builder = ReaderBuilder::new();
    builder.comment(options.comment.and_then(|sign| u8::try_from(sign).ok()));
    builder
}

/// Returns the one of [`DELIMITERS`] that divides the first line into most parts.
fn delimiter(builder: &mut ReaderBuilder, bytes: &[u8]) -> u8 {
    let parts = |delimiter: &u8| {
        let mut reader = builder.has_headers(false).flexible(true).delimiter(*delimiter).from_reader(bytes);
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_or(0, |_| record.len())
    };
    // `max_by_key` takes the last of equals; reversing makes it the first.
    DELIMITERS.into_iter().rev().max_by_key(parts).unwrap_or(b',')
}
