//! Our networks beside PyTorch, alternating in one run. The command `ebm bench` shows what this finds;
//! `ebm bench-worker` is the process that [`measure`] starts, which calls [`serve`].
//!
//! | file | what |
//! |---|---|
//! | `work` | the rows of the table: tasks, sizes, goals, peers |
//! | `works/` | our side of each task |
//! | `worker`, `process` | one process of a work: the child's end of the protocol, and the parent's |
//! | `peer` | PyTorch's side, `docs/benchmarks/peer.py` |
//! | `pictures` | what both sides of a work read |
//! | `compare` | the rounds, minimum, median, ratio |
//! | `stages` | what the stages of a user's own detector take, without a peer |
//! | `cost`, `peak` | what a work takes at least, what the machine can do at best |
//! | `machine`, `memory` | what it was measured on |
//! | `report` | the page |

mod compare;
mod cost;
mod machine;
mod memory;
mod peak;
mod peer;
mod pictures;
mod process;
mod report;
mod stages;
mod work;
mod worker;
mod works;

pub use compare::{Plan, measure};
pub use cost::cost;
pub use machine::{Machine, instructions, today};
pub use memory::peak_mib;
pub use peak::peaks;
pub use peer::Python;
pub use report::{Report, Row, Software};
pub use stages::{Stages, Trained, stages};
pub use work::{Work, select, works};
pub use worker::serve;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
