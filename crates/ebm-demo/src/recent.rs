//! What the page has sent or begun lately.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use ebm_server::{Refusal, StatusCode};

use crate::error::Result;

/// So many of a kind, each with its number; a further one takes the place of the oldest.
pub struct Recent<T> {
    most: usize,
    /// What one is called.
    kind: &'static str,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    /// The newest first.
    all: VecDeque<(u64, T)>,
    next: u64,
}

impl<T> Recent<T> {
    /// At most so many, of which one is called `kind`.
    pub fn new(most: usize, kind: &'static str) -> Self {
        Self { most, kind, kept: Mutex::new(Kept { all: VecDeque::new(), next: 0 }) }
    }

    /// Keeps one; its number.
    pub fn add(&self, one: T) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.next;
        kept.next += 1;
        kept.all.truncate(self.most - 1);
        kept.all.push_front((number, one));
        number
    }

    /// Asks the one of this number, while nobody else does.
    pub fn with<A>(&self, number: u64, ask: impl FnOnce(&mut T) -> Result<A>) -> Result<A> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.all.iter_mut().find(|(known, _)| *known == number);
        let (_, found) = found.ok_or_else(|| {
            let said = format!("this {} is no longer known; begin again", self.kind);
            Refusal::new(StatusCode::NOT_FOUND, said)
        })?;
        ask(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let recent = Recent::new(2, "letter");
        let numbers = ["a", "b", "c"].map(|one| recent.add(one));
        let read = |number| recent.with(number, |one| Ok(*one)).map_err(|error| error.to_string());
        assert_eq!(read(numbers[2]), Ok("c"));
        assert_eq!(read(numbers[1]), Ok("b"));
        assert!(read(numbers[0]).unwrap_err().contains("this letter is no longer known"));
    }
}
