//! Aligned markdown tables: strings in, a string out.

use crate::error::{Error, Result};

/// A table that reads well as plain text and as markdown. The first column is aligned to the left, the
/// others, which hold numbers, to the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`Error::Lengths`] unless it has one cell per column.
    pub fn push<S: Into<String>>(&mut self, row: impl IntoIterator<Item = S>) -> Result<()> {
        let row: Vec<String> = row.into_iter().map(Into::into).collect();
        if row.len() != self.header.len() {
            let (found, expected) = (row.len(), self.header.len());
            return Err(Error::Lengths { what: "cells of a row", found, expected });
        }
        self.rows.push(row);
        Ok(())
    }

    /// The table as markdown, one line per row, ending in a newline. A `|` in a cell is escaped and a
    /// line break becomes a space, so that no cell can break the table.
    pub fn render(&self) -> String {
        let lines: Vec<Vec<String>> = std::iter::once(&self.header)
            .chain(&self.rows)
            .map(|row| row.iter().map(|cell| escape(cell)).collect())
            .collect();
        // A markdown rule needs at least three characters per column.
        let width =
            |column: usize| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut text = String::new();
        for (index, row) in lines.iter().enumerate() {
            push_line(
                &mut text,
                row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                }),
            );
            if index == 0 {
                push_line(
                    &mut text,
                    widths.iter().enumerate().map(|(column, &width)| {
                        if column == 0 { "-".repeat(width) } else { "-".repeat(width - 1) + ":" }
                    }),
                );
            }
        }
        text
    }
}

fn push_line(text: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        text.push_str("| ");
        text.push_str(&cell);
        text.push(' ');
    }
    text.push_str("|\n");
}

fn escape(cell: &str) -> String {
    cell.replace('|', "\\|").replace(['\n', '\r'], " ")
}
