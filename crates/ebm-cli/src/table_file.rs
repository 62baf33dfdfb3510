//! The file of a table as an argument of a command.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebm_tabular::{Encoded, MAX_BYTES, Order, ReadOptions, Table, TabularRegressor};

/// A table's file and what the file leaves open.
#[derive(Args)]
pub struct TableFile {
    /// A CSV file whose first line has the columns' names, also packed by gzip; - is standard input. Separators, the
    /// encoding and the forms of numbers and dates are found from the file.
    pub data: PathBuf,
    /// Sign at the beginning of lines to leave out, such as '#'.
    #[arg(long, value_name = "SIGN", value_parser = parse_comment)]
    comment: Option<u8>,
    /// Order of dates such as 3/4/2024 in a column that does not tell it: dmy, mdy or ymd.
    #[arg(long, value_name = "ORDER", value_parser = parse_order)]
    dates: Option<Order>,
    /// Decimal sign of numbers such as 1.234 in a file that does not tell it: point or comma.
    #[arg(long, value_name = "SIGN", value_parser = parse_decimal)]
    decimal: Option<char>,
    /// Count cells that cannot be read, in a column of numbers or dates, as gaps.
    #[arg(long)]
    lenient: bool,
}

fn parse_comment(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [sign] if sign.is_ascii_graphic() => Ok(*sign),
        _ => Err(format!("{text:?} is no single sign; write, for instance, '#'")),
    }
}

fn parse_order(text: &str) -> Result<Order, String> {
    let found = [Order::Dmy, Order::Mdy, Order::Ymd].into_iter().find(|order| order.name() == text);
    found.ok_or_else(|| format!("{text:?} is no order; write dmy, mdy or ymd"))
}

fn parse_decimal(text: &str) -> Result<char, String> {
    let found = [("point", '.'), ("comma", ',')].into_iter().find(|(name, _)| *name == text);
    found.map(|(_, sign)| sign).ok_or_else(|| format!("{text:?} is no decimal sign; write point or comma"))
}

impl TableFile {
    /// Reads the table, and says on standard error what was found.
    pub fn read(&self) -> Result<Table> {
        let Self { comment, dates, decimal, lenient, .. } = *self;
        let options = ReadOptions { comment, dates, decimal, lenient };
        let table = if self.data.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let input = std::io::stdin().lock().take(MAX_BYTES + 1);
            { input }.read_to_end(&mut bytes).context("cannot read standard input")?;
            Table::from_bytes("standard input", bytes, &options)?
        } else {
            Table::read(&self.data, &options)?
        };
        let encoding = match table.encoding() {
            "UTF-8" => String::new(),
            other => format!(", in {other}"),
        };
        eprintln!("{} rows, separated by {:?}{encoding}", table.rows(), table.delimiter());
        Ok(table)
    }
}

/// Says which cells of `table` count as gaps or as no category.
pub fn say_lost(regressor: &TabularRegressor, table: &Table) -> Result<()> {
    let Encoded { unknown, unreadable, .. } = regressor.fitted().features.encode(table)?;
    for (column, count) in unknown {
        eprintln!("{count} rows have a {column:?} that the fit has not seen: it counts as no category");
    }
    for (column, count) in unreadable {
        eprintln!("{count} cells of {column:?} cannot be read and count as gaps");
    }
    Ok(())
}
