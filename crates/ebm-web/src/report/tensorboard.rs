//! A training's curves as an event file for TensorBoard.
//!
//! An event file is a sequence of records: the length of the data, its checksum, the data, their checksum. The data are
//! a protocol buffers message `Event`. Only three of its fields are needed, so they are encoded here, without a compiler
//! for such messages.

use std::fs::File;
use std::io::{Result, Write as _};
use std::path::{Path, PathBuf};

use crc32c::crc32c;
use ebm_experiment::Validated;
use ebm_train::MetricsRecord;

use super::curves::VALIDATION;
use super::log::Log;
use crate::Error;

/// Wire types of protocol buffers.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const BYTES: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// Creates an event file at `path`, replacing an existing one, with the version that readers expect first.
/// `wall_time` is in seconds since 1970.
fn create(path: &Path, wall_time: f64) -> Result<File> {
    ebm_base::files::check_output(path)?;
    let mut file = File::create(path)?;
    file.write_all(&record(&[double(1, wall_time), bytes(3, b"brain.Event:2")].concat()))?;
    Ok(file)
}

/// Encodes the named values of one step as a record.
fn scalars<'a>(wall_time: f64, step: usize, values: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<u8> {
    let value = |(name, value): (&str, f64)| {
        let number = [key(2, FOUR_BYTES), (value as f32).to_le_bytes().to_vec()];
        bytes(1, &[bytes(1, name.as_bytes()), number.concat()].concat())
    };
    let summary: Vec<u8> = values.into_iter().flat_map(value).collect();
    // A field that is 0 is left out.
    let step = if step > 0 { [key(2, VARINT), varint(step as u64)].concat() } else { Vec::new() };
    record(&[double(1, wall_time), step, bytes(5, &summary)].concat())
}

fn key(field: u64, kind: u64) -> Vec<u8> {
    varint(field << 3 | kind)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while value >= 0x80 {
        written.push(value as u8 | 0x80);
        value >>= 7;
    }
    written.push(value as u8);
    written
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [key(field, BYTES), varint(content.len() as u64), content.to_vec()].concat()
}

fn double(field: u64, value: f64) -> Vec<u8> {
    [key(field, EIGHT_BYTES), value.to_le_bytes().to_vec()].concat()
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), data, &masked(data)].concat()
}

/// Returns the masked checksum: rotated and shifted, so that checksums of data with checksums stay meaningful.
fn masked(data: &[u8]) -> [u8; 4] {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// Writer of an event file that follows a training's growing logs.
pub struct Follower {
    run: PathBuf,
    metrics: Log,
    validations: Log,
    events: Option<File>,
}

impl Follower {
    /// Name of the events' folder in a run's folder.
    const FOLDER: &'static str = "tensorboard";
    /// Name of the event file in this folder.
    const FILE: &'static str = "events.out.tfevents.0.ebm";

    /// Creates a follower of the run in this folder, which need not exist yet.
    pub fn new(run: &Path) -> Self {
        let [metrics, validations] =
            ["metrics.jsonl", "validation.jsonl"].map(|file| Log::new(run.join(file)));
        Self { run: run.to_owned(), metrics, validations, events: None }
    }

    /// Writes the new records of the logs. If a log became shorter, because a run was resumed from a checkpoint, the event
    /// file starts over.
    ///
    /// # Errors
    /// [`Error::Events`].
    pub fn advance(&mut self, wall_time: f64) -> crate::Result<()> {
        let path = self.run.join(Self::FOLDER);
        self.write_new(&path, wall_time).map_err(|source| Error::Events { path, source })
    }

    fn write_new(&mut self, folder: &Path, wall_time: f64) -> Result<()> {
        if !self.metrics.path.exists() {
            return Ok(());
        }
        if self.metrics.is_truncated()? || self.validations.is_truncated()? {
            *self = Self::new(&self.run);
        }
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                std::fs::create_dir_all(folder)?;
                self.events.insert(create(&folder.join(Self::FILE), wall_time)?)
            }
        };
        let mut gained = Vec::new();
        self.metrics.read_new(|record: MetricsRecord| {
            let own = [("loss", record.loss), ("grad_norm", record.grad_norm)];
            let others = record.scalars.iter().map(|(name, value)| (name.as_str(), *value));
            let finite = own.into_iter().chain(others).filter_map(|(name, value)| Some((name, value?)));
            gained.extend(scalars(wall_time, record.step, finite));
        })?;
        self.validations.read_new(|Validated { step, value }| {
            gained.extend(scalars(wall_time, step, [(VALIDATION, value)]));
        })?;
        events.write_all(&gained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by TensorBoard itself: tests/golden/events.py.
    const GOLDEN: &[u8] = include_bytes!("../../tests/golden/events.out.tfevents.0.golden");

    #[test]
    fn a_file_is_that_of_tensorboard_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        drop(create(&path, 1_700_000_000.25).unwrap());
        let records = [
            scalars(1_700_000_001.5, 0, [("loss", 1.0 / 3.0), ("grad_norm", 0.0)]),
            scalars(1_700_000_002.0, 300, [("λ", -2.5e-7)]),
            scalars(1_700_000_003.0, 70_000_000_000, [("validation", f64::INFINITY)]),
        ];
        assert_eq!([std::fs::read(&path).unwrap(), records.concat()].concat(), GOLDEN);
    }

    #[test]
    fn a_log_that_grows_is_followed_and_one_that_is_cut_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        let [metrics, validation] = ["metrics.jsonl", "validation.jsonl"].map(|file| run.join(file));
        let line = |step: usize| {
            format!("{{\"step\":{step},\"loss\":0.5,\"grad_norm\":null,\"scalars\":{{\"lr\":0.1}}}}\n")
        };
        let mut follower = Follower::new(run);
        let file = run.join(Follower::FOLDER).join(Follower::FILE);
        follower.advance(1.0).unwrap();
        assert!(!file.exists());
        let expected = |steps: usize, validated: bool| {
            drop(create(&run.join("expected"), 1.0).unwrap());
            let mut events = std::fs::read(run.join("expected")).unwrap();
            for step in 0..steps {
                events.extend(scalars(1.0, step, [("loss", 0.5), ("lr", 0.1)]));
            }
            if validated {
                events.extend(scalars(1.0, 2, [("validation", 0.75)]));
            }
            events
        };
        std::fs::write(&metrics, line(0) + &line(1)[..9]).unwrap();
        follower.advance(1.0).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), expected(1, false));
        std::fs::write(&metrics, line(0) + &line(1)).unwrap();
        std::fs::write(&validation, "{\"step\":2,\"value\":0.75}\n").unwrap();
        follower.advance(1.0).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), expected(2, true));
        follower.advance(1.0).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), expected(2, true));
        std::fs::write(&metrics, line(0)).unwrap();
        std::fs::write(&validation, "").unwrap();
        follower.advance(1.0).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), expected(1, false));
    }
}
