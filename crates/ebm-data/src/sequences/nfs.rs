//! Need for Speed at 30 frames a second, as prepared for tracking toolkits.
//!
//! The official archive has another layout and corners instead of sides, and is not read. Of some videos the
//! folder and the annotation do not end at the same frame.

use std::path::Path;

use super::reader::{Collector, Extra, boxes, folders, numbered, text_files};
use super::{Sequence, SequenceOptions, Sequences};
use crate::error::Result;

const LAYOUT: &str = "sequences/NAME/00001.jpg and anno/nfs_NAME.txt";
const PREFIX: &str = "nfs_";

/// Reads all sequences of the folder `root`, by name: frames in `sequences/NAME/%05d.jpg` from 1, boxes in
/// `anno/nfs_NAME.txt`. Frames behind the last box are left out.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) for a folder that cannot be read, [`Error::Format`](crate::Error::Format)
/// for one without sequences, [`Error::TooManyDefects`](crate::Error::TooManyDefects) above the tolerated
/// fraction, [`Error::Argument`](crate::Error::Argument) for a fraction out of its domain.
pub fn load(root: &Path, options: &SequenceOptions) -> Result<Sequences> {
    let mut collector = Collector::new(options)?;
    let (frames, annotations) = (root.join("sequences"), root.join("anno"));
    let mut names = folders(&frames)?;
    names.extend(
        text_files(&annotations)?.iter().filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned),
    );
    for name in names {
        let attempt = boxes(&annotations.join(format!("{PREFIX}{name}.txt"))).map(|boxes| {
            let frames = numbered(frames.join(&name), 1, boxes.len(), 5);
            Sequence { name: name.clone(), frames, boxes, visible: None }
        });
        collector.push(&name, Extra::Allowed, attempt)?;
    }
    collector.finish(root, LAYOUT)
}
