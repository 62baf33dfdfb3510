//! What several of these tests use.

pub mod schema;
pub mod training;
