//! How much of anything a request may take.

use std::time::Duration;

/// Bytes of a request's body: a photograph's file.
pub const BODY_BYTES: usize = 16 << 20;
/// Bytes of a request's head.
pub const HEAD_BYTES: usize = 16 << 10;
/// Time for a request's head, and for the pause before it on a connection that is kept.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time for a request's body.
pub const BODY_TIME: Duration = Duration::from_secs(15);
/// Connections at once; one more ends the one that has waited longest.
pub const CONNECTIONS: usize = 128;
/// Requests that are read or computed at once; others wait. One computes, the others are read.
pub const BODIES: usize = 8;
