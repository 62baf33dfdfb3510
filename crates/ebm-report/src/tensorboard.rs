//! A training's curves as TensorBoard reads them.
//!
//! A file of events is a sequence of records: the length of the data, its checksum, the data, their checksum. The data are
//! a message `Event` of protocol buffers, of which three fields are needed here; so they are written as they are, without
//! a compiler of such messages.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crc32c::crc32c;
use ebm_experiment::Validated;
use ebm_train::MetricsRecord;
use serde::de::DeserializeOwned;

use crate::curves::VALIDATION;
use crate::{Error, Result};

/// The types of protocol buffers' fields.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const BYTES: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// An open file of events.
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// A new file, in the place of one that may be there, with the version that a reader looks for first. `wall_time` are
    /// seconds since 1970.
    ///
    /// # Errors
    /// [`Error::Events`].
    pub fn create(path: &Path, wall_time: f64) -> Result<Self> {
        let create = || {
            ebm_files::check_output(path)?;
            File::create(path)
        };
        let file = create().map_err(|source| Error::Events { path: path.to_owned(), source })?;
        let mut events = Self { path: path.to_owned(), file };
        let mut event = double(1, wall_time);
        event.extend(bytes(3, b"brain.Event:2"));
        events.append(&record(&event))?;
        Ok(events)
    }

    /// Adds values of one step by their names.
    ///
    /// # Errors
    /// [`Error::Events`].
    pub fn scalars<'a>(
        &mut self,
        wall_time: f64,
        step: usize,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<()> {
        let value = |(name, value): (&str, f64)| {
            let mut message = bytes(1, name.as_bytes());
            message.extend(key(2, FOUR_BYTES));
            message.extend((value as f32).to_le_bytes());
            bytes(1, &message)
        };
        let summary: Vec<u8> = values.into_iter().flat_map(value).collect();
        let mut event = double(1, wall_time);
        // A field that is 0 is left out.
        if step > 0 {
            event.extend(key(2, VARINT));
            event.extend(varint(step as u64));
        }
        event.extend(bytes(5, &summary));
        self.append(&record(&event))
    }

    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.file.write_all(record).map_err(|source| Error::Events { path: self.path.clone(), source })
    }
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

/// The checksum, rotated and moved, as it is where checksums are themselves part of what is summed.
fn masked(data: &[u8]) -> [u8; 4] {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// Keeps a file of events beside a training's logs while they grow.
pub struct Follower {
    run: PathBuf,
    metrics: Tail,
    validations: Tail,
    events: Option<EventFile>,
}

/// A log, as far as it was read.
struct Tail {
    path: PathBuf,
    read: u64,
}

impl Follower {
    /// The folder of the events in that of a run.
    pub const FOLDER: &'static str = "tensorboard";
    /// The file of events in it.
    pub const FILE: &'static str = "events.out.tfevents.0.ebm";

    /// Of the run in this folder, which need not be there yet.
    pub fn new(run: &Path) -> Self {
        let [metrics, validations] =
            ["metrics.jsonl", "validation.jsonl"].map(|file| Tail { path: run.join(file), read: 0 });
        Self { run: run.to_owned(), metrics, validations, events: None }
    }

    /// Writes what the logs have gained. Where one became shorter, as a run that is resumed from a checkpoint lets it, the
    /// file begins anew.
    ///
    /// # Errors
    /// [`Error::Events`].
    pub fn advance(&mut self, wall_time: f64) -> Result<()> {
        if !self.metrics.path.exists() {
            return Ok(());
        }
        if self.metrics.is_cut()? || self.validations.is_cut()? {
            *self = Self::new(&self.run);
        }
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                let folder = self.run.join(Self::FOLDER);
                std::fs::create_dir_all(&folder)
                    .map_err(|source| Error::Events { path: folder.clone(), source })?;
                self.events.insert(EventFile::create(&folder.join(Self::FILE), wall_time)?)
            }
        };
        for record in self.metrics.gained::<MetricsRecord>()? {
            let own = [("loss", record.loss), ("grad_norm", record.grad_norm)];
            let others = record.scalars.iter().map(|(name, value)| (name.as_str(), *value));
            let finite = own.into_iter().chain(others).filter_map(|(name, value)| Some((name, value?)));
            events.scalars(wall_time, record.step, finite)?;
        }
        for Validated { step, value } in self.validations.gained()? {
            events.scalars(wall_time, step, [(VALIDATION, value)])?;
        }
        Ok(())
    }
}

impl Tail {
    fn failed(&self) -> impl Fn(io::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::Events { path: path.clone(), source }
    }

    /// Whether there is less than was read.
    fn is_cut(&self) -> Result<bool> {
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok(found.len() < self.read),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.read > 0),
            Err(error) => Err(self.failed()(error)),
        }
    }

    /// The records that were added; a line that is none, or not whole yet, is passed over or waited for.
    fn gained<T: DeserializeOwned>(&mut self) -> Result<Vec<T>> {
        let mut text = Vec::new();
        let mut read = || {
            let mut file = ebm_files::open_input(&self.path)?;
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut text)
        };
        match read() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed()(error)),
        }
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.read += whole as u64;
        let lines = text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by TensorBoard itself: tests/golden/events.py.
    const GOLDEN: &[u8] = include_bytes!("../tests/golden/events.out.tfevents.0.golden");

    #[test]
    fn a_file_is_that_of_tensorboard_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let mut events = EventFile::create(&path, 1_700_000_000.25).unwrap();
        events.scalars(1_700_000_001.5, 0, [("loss", 1.0 / 3.0), ("grad_norm", 0.0)]).unwrap();
        events.scalars(1_700_000_002.0, 300, [("λ", -2.5e-7)]).unwrap();
        events.scalars(1_700_000_003.0, 70_000_000_000, [("validation", f64::INFINITY)]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), GOLDEN);
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
            let mut events = EventFile::create(&run.join("expected"), 1.0).unwrap();
            for step in 0..steps {
                events.scalars(1.0, step, [("loss", 0.5), ("lr", 0.1)]).unwrap();
            }
            if validated {
                events.scalars(1.0, 2, [("validation", 0.75)]).unwrap();
            }
            std::fs::read(run.join("expected")).unwrap()
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
