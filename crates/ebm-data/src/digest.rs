//! What a dataset is, wherever its files lie.

use std::fmt::Debug;

use sha2::{Digest as _, Sha256};

use crate::fetch::hex;

/// SHA-256, in hexadecimal, of what `items` print for debugging.
pub(crate) fn digest(items: impl IntoIterator<Item = impl Debug>) -> String {
    let mut hash = Sha256::new();
    for item in items {
        hash.update(format!("{item:?}\n"));
    }
    hex(hash.finalize())
}
