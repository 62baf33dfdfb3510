//! Columns, numbers, errors and interrupts between Python and `ebm-tabular`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use ebm_base::files::ErrorKind;
use ebm_tabular::{Error, ReadOptions, Result, Style, Table};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// Time between two looks for a KeyboardInterrupt.
const LOOK: Duration = Duration::from_millis(50);

/// A table as Python gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Frame {
    /// Name in errors.
    name: String,
    columns: Vec<(String, Cells)>,
    /// Styles of columns for which the texts leave several open.
    read_as: Vec<String>,
    lenient: bool,
}

/// A column.
#[derive(FromPyObject)]
enum Cells {
    /// Numbers, f64 in the machine's order; NaN is a gap.
    Numbers(PyBackedBytes),
    /// Texts; an empty one is a gap.
    Texts(Vec<String>),
}

impl Frame {
    /// Makes the table that a CSV file with the same cells has.
    pub fn table(self) -> Result<Table> {
        let style = |name: &String| {
            let found: serde_json::Result<Style> = serde_json::from_value(name.as_str().into());
            found.map_err(|error| Error::config("read_as", error))
        };
        // A number in memory has a decimal point.
        let preferred = self.read_as.iter().map(style).chain([Ok(Style::Point)]).collect::<Result<_>>()?;
        let texts = |(name, cells)| match cells {
            Cells::Texts(texts) => (name, texts),
            Cells::Numbers(bytes) => (name, floats(&bytes).map(text).collect()),
        };
        let columns = self.columns.into_iter().map(texts).collect();
        let options = ReadOptions { comment: None, preferred, lenient: self.lenient };
        Table::from_columns(&self.name, columns, &options)
    }
}

/// Returns the shortest text that is read as the same number.
fn text(value: f64) -> String {
    match value.abs() {
        size if size.is_nan() => String::new(),
        size if size == 0.0 || (1e-5..1e16).contains(&size) => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// Reads numbers from bytes.
pub fn floats(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.as_chunks().0.iter().map(|number| f64::from_ne_bytes(*number))
}

/// Writes numbers as bytes.
pub fn bytes(py: Python<'_>, values: impl IntoIterator<Item = f64>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &values.into_iter().flat_map(f64::to_ne_bytes).collect::<Vec<u8>>())
}

/// Turns an error into Python's: ValueError if the caller can mend it.
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    // The remedies are those of `ebm fit`.
    let text = text
        .replace("--lenient", "lenient=True")
        .replace("--category", "categories")
        .replace("--read-as ", "read_as=");
    match error.kind() {
        ErrorKind::Usage | ErrorKind::Data => PyValueError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// Runs `work` in a thread without Python's global lock. A KeyboardInterrupt sets the flag that `work` gets, waits for
/// its end and is raised.
pub fn watched<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(Arc<AtomicBool>) -> Result<T> + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (interrupt, result) = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, ended) = channel();
            let flag = stop.clone();
            let worker = scope.spawn(move || {
                let result = work(flag);
                // Nobody listens after an interrupt.
                let _ = done.send(());
                result
            });
            let mut interrupt = None;
            while interrupt.is_none() && ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                interrupt = Python::attach(|py| py.check_signals()).err();
            }
            stop.store(interrupt.is_some(), Ordering::Relaxed);
            (interrupt, worker.join())
        })
    });
    match (interrupt, result) {
        (Some(interrupt), _) => Err(interrupt),
        (None, Ok(result)) => result.map_err(raised),
        (None, Err(_)) => Err(PyRuntimeError::new_err("the computation failed; standard error says where")),
    }
}
