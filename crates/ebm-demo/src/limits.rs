//! How much of anything a request may take.

use std::time::Duration;

use ebm_data::decode::DecodeLimits;

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
/// Requests with a body that are read or computed at once; others wait. One computes, the others are read.
pub const BODIES: usize = 8;
/// Images that stay at hand; a further one takes the place of the oldest.
pub const SCENES: usize = 4;
/// T at most.
pub const STEPS: usize = 500;
/// The factor on λ at most.
pub const FACTOR: f64 = 100.0;
/// Points along each side of a corner's density at most.
pub const MAP_SIZE: usize = 128;

/// What an upload may decode to: 40 million pixels.
pub fn decode() -> DecodeLimits {
    DecodeLimits { max_file_bytes: BODY_BYTES as u64, max_pixels: 40_000_000, ..DecodeLimits::default() }
}
