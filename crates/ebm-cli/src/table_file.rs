//! The file of a table as an argument of a command.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebm_base::Key;
use ebm_tabular::{Blocks, ReadOptions, Source, Style, Table};

/// Largest size of standard input, which memory holds whole: 512 MiB.
const MAX_STDIN: u64 = 512 << 20;

/// A table's file and what the file leaves open.
#[derive(Args)]
pub struct TableFile {
    /// A CSV file whose first line has the columns' names, also packed by gzip; - is standard input. Separators, the
    /// encoding and the forms of numbers and dates are found from the file.
    pub data: PathBuf,
    /// Sign at the beginning of lines to leave out, such as '#'.
    #[arg(long, value_name = "SIGN")]
    comment: Option<char>,
    /// Reading of numbers such as 1.234 (point or comma) or of dates such as 3/4/2024 (dmy, mdy or ymd) that the file
    /// leaves open. May be given several times.
    #[arg(long = "read-as", value_name = "STYLE", value_parser = |text: &str| serde_json::from_value::<Style>(text.into()))]
    preferred: Vec<Style>,
    /// Count cells that cannot be read, in a column of numbers or dates, as gaps.
    #[arg(long)]
    lenient: bool,
}

impl TableFile {
    /// Returns the name of the file in messages, and its bytes. Memory holds those of standard input.
    fn source(&self) -> Result<(String, Source)> {
        if self.data.as_os_str() != "-" {
            return Ok((self.data.display().to_string(), Source::File(self.data.clone())));
        }
        let mut bytes = Vec::new();
        std::io::stdin().take(MAX_STDIN + 1).read_to_end(&mut bytes).context("standard input")?;
        if bytes.len() as u64 > MAX_STDIN {
            let reason = format!("it has more than {MAX_STDIN} bytes; give the table as a file");
            return Err(ebm_data::Error::TooLarge("standard input".into(), reason).into());
        }
        Ok(("standard input".to_owned(), Source::Bytes(bytes)))
    }

    fn options(&self) -> ReadOptions {
        let (comment, preferred, lenient) = (self.comment, self.preferred.clone(), self.lenient);
        ReadOptions { comment, preferred, lenient }
    }

    /// Reads the table, and says on standard error what was found.
    pub fn read(&self) -> Result<Table> {
        let table = match self.source()? {
            (name, Source::Bytes(bytes)) => Table::from_bytes(&name, bytes, &self.options())?,
            (_, Source::File(path)) => Table::read(&path, &self.options())?,
        };
        say(table.rows(), &table);
        Ok(table)
    }

    /// Reads `count` rows of the table at random, and says on standard error what was found.
    pub fn sample(&self, count: usize, key: Key) -> Result<Table> {
        let (name, source) = self.source()?;
        let (table, rows) = Blocks::sample(&name, source, &self.options(), count, key)?;
        say(rows, &table);
        if rows > count {
            eprintln!("{count} rows are taken at random");
        }
        Ok(table)
    }

    /// Reads the table in blocks, and says on standard error what was found.
    pub fn open(&self) -> Result<Blocks> {
        let (name, source) = self.source()?;
        let blocks = Blocks::open(&name, source, &self.options())?;
        say(blocks.rows(), blocks.table());
        Ok(blocks)
    }
}

fn say(rows: usize, table: &Table) {
    eprintln!("{rows} rows in {}, separated by {:?}", table.encoding(), table.delimiter());
}

/// Says on standard error in how many rows a text of a column counts as none.
pub fn say_unknown(unknown: &BTreeMap<String, usize>) {
    for (column, count) in unknown {
        eprintln!("{count} rows have a {column:?} that is unknown or unreadable: it counts as none");
    }
}
