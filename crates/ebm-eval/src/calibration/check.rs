//! The checks that the metrics share.

use std::cmp::Ordering;

use crate::error::{Error, Result};

/// Requires at least one value, and `ok` of all of them; `expected` says what is allowed.
pub(super) fn values(
    what: &'static str,
    values: &[f64],
    expected: &'static str,
    ok: impl Fn(f64) -> bool,
) -> Result<()> {
    if values.is_empty() {
        return Err(Error::Empty(what));
    }
    match values.iter().position(|&value| !ok(value)) {
        Some(index) => Err(Error::Value { what, index, value: values[index], expected }),
        None => Ok(()),
    }
}

/// Requires a single value to be `ok`.
pub(super) fn value(what: &'static str, value: f64, expected: &'static str, ok: bool) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::Value { what, index: 0, value, expected }) }
}

/// Requires `found` things for `expected` others.
pub(super) fn lengths(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Lengths { what, found, expected }) }
}

/// Requires regions, each of disjoint intervals in ascending order; their ends may be infinite.
pub(super) fn regions<R: AsRef<[[f64; 2]]>>(regions: &[R]) -> Result<()> {
    if regions.is_empty() {
        return Err(Error::Empty("regions"));
    }
    for (index, region) in regions.iter().enumerate() {
        let ends = region.as_ref().as_flattened();
        let mut bad =
            ends.windows(2).filter(|pair| pair[0].partial_cmp(&pair[1]).is_none_or(Ordering::is_gt));
        // An infinite end is open: it has something on its inner side.
        let mut nowhere =
            region.as_ref().iter().filter(|[from, to]| *from == f64::INFINITY || *to == f64::NEG_INFINITY);
        let value = bad.next().map(|pair| pair[1]).or_else(|| nowhere.next().map(|interval| interval[0]));
        if let Some(value) = value {
            let expected = "an end of disjoint intervals [from, to] in ascending order";
            return Err(Error::Value { what: "regions", index, value, expected });
        }
    }
    Ok(())
}

/// Requires probability integral transforms.
pub(super) fn pit(pit: &[f64]) -> Result<()> {
    values("PIT values", pit, "in [0, 1]", |value| (0.0..=1.0).contains(&value))
}
