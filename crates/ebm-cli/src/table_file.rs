//! The file of a table as an argument of a command.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebm_tabular::{Encoded, MAX_BYTES, ReadOptions, Style, Table, TabularRegressor};

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
    /// Reads the table, and says on standard error what was found.
    pub fn read(&self) -> Result<Table> {
        let (comment, preferred, lenient) = (self.comment, self.preferred.clone(), self.lenient);
        let options = ReadOptions { comment, preferred, lenient };
        let table = if self.data.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().take(MAX_BYTES + 1).read_to_end(&mut bytes).context("standard input")?;
            Table::from_bytes("standard input", bytes, &options)?
        } else {
            Table::read(&self.data, &options)?
        };
        eprintln!("{} rows in {}, separated by {:?}", table.rows(), table.encoding(), table.delimiter());
        Ok(table)
    }

    /// Reads and encodes the table for a fit, and says on standard error what the fit cannot use.
    pub fn read_for(&self, regressor: &TabularRegressor) -> Result<(Table, Encoded)> {
        let table = self.read()?;
        let encoded = regressor.encode(&table)?;
        for (column, count) in &encoded.unknown {
            eprintln!("{count} rows have a {column:?} that is unknown or unreadable: it counts as none");
        }
        Ok((table, encoded))
    }
}
