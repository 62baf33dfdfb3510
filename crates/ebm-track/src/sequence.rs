//! Tracking of a sequence, frame by frame.

use std::sync::Arc;

use ebm_base::Key;
use ebm_data::Image;
use ebm_data::decode::read_image;
use ebm_data::sequences::{Rect, Sequence};

use crate::box_module::BoxNetwork;
use crate::tracker::{Networks, TargetTracker, Tracked, TrackerConfig};
use crate::{Error, Result};

/// Boxes of a tracker in a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackedSequence {
    /// Name of the sequence.
    pub name: String,
    /// Box in each frame. In the first frame it is the given box.
    pub boxes: Vec<Rect>,
    /// Time of each frame in seconds, without reading the image. It is 0 for the first frame.
    pub seconds: Vec<f64>,
    /// Full result of each later frame; empty if the boxes were read from a file.
    pub frames: Vec<Tracked>,
}

/// A callback with a frame's number, its pixels, its result, and the tracker after this frame.
pub type FrameCallback<'w, B> = dyn FnMut(usize, &Image, &Tracked, &TargetTracker<B>) -> Result<()> + 'w;

/// Tracks the target of `sequence` from its first box on. `watch` is called after every later frame.
///
/// # Errors
/// [`Error::Input`] naming the frame that cannot be read or tracked.
pub fn track_sequence<B: BoxNetwork>(
    networks: &Arc<Networks<B>>,
    config: &TrackerConfig,
    sequence: &Sequence,
    key: Key,
    watch: &mut FrameCallback<'_, B>,
) -> Result<TrackedSequence> {
    let fail = |frame: usize, reason: &dyn std::fmt::Display| {
        let path = sequence.frames.path(frame).unwrap_or_default();
        Error::input(format!("sequence {}, frame {frame} ({})", sequence.name, path.display()), reason)
    };
    let read = |frame: usize| {
        let path = sequence.frames.path(frame).ok_or_else(|| fail(frame, &"there is no such frame"))?;
        read_image(&path).map_err(|error| fail(frame, &error))
    };
    let first = sequence.boxes.first().copied();
    let first = first.ok_or_else(|| fail(0, &"the first frame has no box to track"))?;
    let mut tracker =
        TargetTracker::start(networks, config, &read(0)?, first, key).map_err(|error| fail(0, &error))?;
    let (mut boxes, mut frames) = (vec![first], Vec::new());
    for i in 1..sequence.frames.len() {
        let image = read(i)?;
        let tracked = tracker.track(&image).map_err(|error| fail(i, &error))?;
        watch(i, &image, &tracked, &tracker)?;
        boxes.push(tracked.bbox);
        frames.push(tracked);
    }
    let later = frames.iter().map(|frame: &Tracked| frame.stages.total().as_secs_f64());
    let seconds = std::iter::once(0.0).chain(later).collect();
    Ok(TrackedSequence { name: sequence.name.clone(), boxes, seconds, frames })
}
