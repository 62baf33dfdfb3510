//! Comparison of the tensors of a file with the parameters of a network.

use std::collections::BTreeMap;
use std::fmt;

use candle_core::{Shape, Tensor};

/// Report of the tensors of a file that fitted a network and those that did not; each list is in name order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names that were found with the right shape.
    pub loaded: Vec<String>,
    /// Names of the network that the file lacks.
    pub missing: Vec<String>,
    /// Names of the file that the network lacks, without torch's `num_batches_tracked` counters, which no layer
    /// here has.
    pub unexpected: Vec<String>,
    /// Names whose shapes differ, each with both shapes.
    pub mismatched: Vec<String>,
}

/// Differences that a load allows. A difference that is not allowed leaves the network unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPolicy {
    /// No difference: every parameter has its tensor and every tensor its parameter.
    Strict,
    /// Any difference: the tensors that fit are loaded.
    Lenient,
}

impl LoadReport {
    /// Compares the shapes that a network expects with the tensors that were found.
    pub fn compare<'a>(
        expected: impl IntoIterator<Item = (&'a str, &'a Shape)>,
        found: &BTreeMap<String, Tensor>,
    ) -> Self {
        let expected: BTreeMap<_, _> = expected.into_iter().collect();
        let mut report = Self::default();
        for (&name, &shape) in &expected {
            match found.get(name) {
                None => report.missing.push(name.to_owned()),
                Some(tensor) if tensor.shape() == shape => report.loaded.push(name.to_owned()),
                Some(tensor) => report.mismatched.push(format!(
                    "{name} (expected {:?}, found {:?})",
                    shape.dims(),
                    tensor.dims()
                )),
            }
        }
        report.unexpected = (found.keys())
            .filter(|name| !expected.contains_key(name.as_str()) && !is_counter(name))
            .cloned()
            .collect();
        report
    }

    /// Returns whether names and shapes agree exactly.
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.mismatched.is_empty()
    }
}

fn is_counter(name: &str) -> bool {
    name.rsplit('.').next() == Some("num_batches_tracked")
}

impl fmt::Display for LoadReport {
    /// Writes the differences, each with the first few names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fit", self.loaded.len())?;
        for (what, names) in [
            ("missing", &self.missing),
            ("unexpected", &self.unexpected),
            ("of another shape", &self.mismatched),
        ] {
            if !names.is_empty() {
                write!(f, "; {} {what}: {}", names.len(), first_of(names))?;
            }
        }
        Ok(())
    }
}

/// Returns the first few names, and the number of the others.
pub fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}
