//! How much of anything the page may ask for; [`ebm_server::limits`] has what a request may take.

use std::time::Duration;

use ebm_data::decode::DecodeLimits;
use ebm_server::limits::BODY_BYTES;

/// Photographs of the first tab, of which the network's features stay at hand.
pub const IMAGES: usize = 4;
/// Photographs with faces, of which the pixels stay at hand.
pub const FACES: usize = 2;
/// T at most.
pub const STEPS: usize = 500;
/// The factor on λ at most.
pub const FACTOR: f64 = 100.0;
/// Points along each side of a corner's density at most.
pub const MAP_SIZE: usize = 128;
/// Trainings of the toy that stay at hand.
pub const TRAININGS: usize = 4;
/// Points that are added to a toy at most.
pub const ADDED: usize = 2000;
/// Epochs of a toy's training at most.
pub const EPOCHS: usize = 1000;
/// How long a request trains a toy at most, but for the step that it is in.
pub const SLICE: Duration = Duration::from_millis(250);

/// What an upload may decode to: 40 million pixels.
pub fn decode() -> DecodeLimits {
    DecodeLimits { max_file_bytes: BODY_BYTES as u64, max_pixels: 40_000_000, ..DecodeLimits::default() }
}
