//! Identity of a dataset, independent of the place of its files.

use std::fmt::Debug;

use sha2::{Digest as _, Sha256};

use crate::fetch::hex;

/// Returns the SHA-256, in hexadecimal, of the debug output of `items`.
pub(crate) fn digest(items: impl IntoIterator<Item = impl Debug>) -> String {
    let mut hash = Sha256::new();
    for item in items {
        hash.update(format!("{item:?}\n"));
    }
    hex(hash.finalize())
}
