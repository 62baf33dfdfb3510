//! A page on this machine on which one watches a box climb f, a curve learn, and an age become a density.
//!
//! [`Server::bind`] listens on 127.0.0.1 alone and [`Server::run`] answers until it is told to stop. What the page shows is
//! [`Models`]; `guard` says who is answered at all, `limits` how much of anything.
//!
//! The server is hyper's: of the small servers it is the one that is maintained, limits the time that a request's head may
//! take, and has a body read piece by piece, so that a limit holds before the memory is taken; `tiny_http` and `rouille`
//! have no such times, and `axum` adds a router to hyper for what is one `match` here.

mod answer;
mod boxes;
mod connections;
mod guard;
mod limits;
mod models;
mod page;
mod server;

pub use models::Models;
pub use server::{Server, ServerError};
