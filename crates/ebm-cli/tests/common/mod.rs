//! Code that several of these tests share.

pub mod faces;
pub mod program;
pub mod schema;
pub mod training;
