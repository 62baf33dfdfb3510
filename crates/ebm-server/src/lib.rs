//! A server for pages on this machine: `ebm demo`, and the report of a training that goes on.
//!
//! [`Server::bind`] listens on 127.0.0.1 alone and [`Server::run`] answers until it is told to stop. What it shows is a
//! [`Site`]; `guard` says who is answered at all, [`limits`] how much of anything.
//!
//! The server is hyper's: of the small servers it is the one that is maintained, limits the time that a request's head may
//! take, and has a body read piece by piece, so that a limit holds before the memory is taken; `tiny_http` and `rouille`
//! have no such times, and `axum` adds a router to hyper for what is one `match` here.

mod answer;
mod connections;
mod guard;
pub mod limits;
mod server;
mod site;

pub use answer::{Answer, Refusal, bytes, document, json};
pub use hyper::StatusCode;
pub use server::{Server, ServerError};
pub use site::{Call, Site};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
