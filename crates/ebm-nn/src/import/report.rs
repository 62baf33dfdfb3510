//! How the tensors of a file compare with the parameters of a network.

use std::collections::BTreeMap;
use std::fmt;

use candle_core::{Shape, Tensor};

/// What of a file fitted a network and what did not, each list in name order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// The names that were found with the right shape.
    pub loaded: Vec<String>,
    /// The network's names that the file lacks.
    pub missing: Vec<String>,
    /// The file's names that the network lacks. torch's `num_batches_tracked` counters, which no layer
    /// here has, are left out.
    pub unexpected: Vec<String>,
    /// The names whose shapes differ, each with both shapes.
    pub mismatched: Vec<String>,
}

/// Which differences a load may have; a difference that is not allowed leaves the network untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPolicy {
    /// None: every parameter has its tensor and every tensor its parameter.
    Strict,
    /// Any: what fits is taken.
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

    /// Whether names and shapes agree exactly.
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.mismatched.is_empty()
    }
}

fn is_counter(name: &str) -> bool {
    name.rsplit('.').next() == Some("num_batches_tracked")
}

impl fmt::Display for LoadReport {
    /// The differences, each with the first few names.
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

/// The first few names, and how many more there are.
pub fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}
