//! Code that several of these tests share.

pub mod schema;
pub mod training;
