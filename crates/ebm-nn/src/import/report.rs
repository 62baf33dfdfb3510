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
    /// The names whose shapes differ.
    pub mismatched: Vec<Mismatch>,
}

/// A tensor whose shape is not the parameter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The parameter's name.
    pub name: String,
    /// The parameter's shape.
    pub expected: Vec<usize>,
    /// The file's shape.
    pub found: Vec<usize>,
}

/// Which differences a load may have; a difference that is not allowed leaves the network untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPolicy {
    /// Whether parameters may keep the values they have.
    pub allow_missing: bool,
    /// Whether tensors may go unused.
    pub allow_unexpected: bool,
    /// Whether a parameter whose shape differs may keep the value it has.
    pub allow_mismatched: bool,
}

impl LoadPolicy {
    /// Every parameter has its tensor and every tensor its parameter.
    pub const STRICT: Self = Self { allow_missing: false, allow_unexpected: false, allow_mismatched: false };
    /// Names may differ, shapes may not: a backbone out of a classifier's file.
    pub const PARTIAL: Self = Self { allow_missing: true, allow_unexpected: true, allow_mismatched: false };
    /// Whatever fits: a network whose last layer has another number of classes.
    pub const LENIENT: Self = Self { allow_missing: true, allow_unexpected: true, allow_mismatched: true };

    /// Whether `report` has only differences that this policy allows.
    pub fn accepts(&self, report: &LoadReport) -> bool {
        (self.allow_missing || report.missing.is_empty())
            && (self.allow_unexpected || report.unexpected.is_empty())
            && (self.allow_mismatched || report.mismatched.is_empty())
    }
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
                Some(tensor) => report.mismatched.push(Mismatch {
                    name: name.to_owned(),
                    expected: shape.dims().to_vec(),
                    found: tensor.dims().to_vec(),
                }),
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
        LoadPolicy::STRICT.accepts(self)
    }
}

fn is_counter(name: &str) -> bool {
    name.rsplit('.').next() == Some("num_batches_tracked")
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} loaded", self.loaded.len())?;
        write_names(f, "missing", &self.missing)?;
        write_names(f, "unexpected", &self.unexpected)?;
        let mismatched: Vec<_> = (self.mismatched.iter())
            .map(|m| format!("{} (expected {:?}, found {:?})", m.name, m.expected, m.found))
            .collect();
        write_names(f, "of another shape", &mismatched)
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, what: &str, names: &[String]) -> fmt::Result {
    const SHOWN: usize = 8;
    write!(f, "; {} {what}", names.len())?;
    if names.is_empty() {
        return Ok(());
    }
    write!(f, ": {}", names[..names.len().min(SHOWN)].join(", "))?;
    if names.len() > SHOWN { write!(f, ", and {} more", names.len() - SHOWN) } else { Ok(()) }
}
