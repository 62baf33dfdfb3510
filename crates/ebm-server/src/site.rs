//! What a server shows.

use crate::answer::{Answer, Refusal};

/// A page, and what it asks for.
pub trait Site: Send + Sync + 'static {
    /// The file of this name, which is at hand; the page itself has no name.
    fn file(&self, name: &str) -> Option<Answer>;

    /// The answer to any other request; none where there is nothing of that name. One is computed at a time.
    fn compute(&self, call: &Call) -> Option<Result<Answer, Refusal>>;
}

/// A request that may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whether the page posts something.
    pub is_post: bool,
    /// What follows the token in the address, without its slash.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
    /// What is posted.
    pub body: Vec<u8>,
}
