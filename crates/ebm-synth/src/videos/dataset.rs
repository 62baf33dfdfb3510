//! Videos on disk, laid out like OTB's: `video_0001/img/0001.jpg` …, `video_0001/groundtruth_rect.txt`;
//! `videos.json`.

use std::fs;
use std::path::Path;

use ebm_seed::Key;
use rayon::prelude::*;

use super::config::VideoConfig;
use super::video::Video;
use crate::generated_dir::{Kind, make};
use ebm_data::encode::write_jpeg;
use ebm_data::sequences::{Frames, Sequence, read_boxes, write_boxes};
use ebm_data::{Error, Result};

const IMAGES: &str = "img";
const BOXES: &str = "groundtruth_rect.txt";
const KIND: Kind = Kind { what: "videos", manifest: "videos.json", digest: "digest", version: 1 };
const MOST: usize = 9999;

/// Writes `count` videos into `dir`, or reuses them if `dir` holds the same ones already, and returns them
/// with their boxes.
///
/// Video `i` (from 0) is [`Video::new`]'s of `config` and `key.index(i)`, whatever `count` and the number of
/// threads are. Boxes are written, and returned, to 0.001 pixels. All is written beside `dir` and renamed at
/// the end, so `dir` never holds half of it.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid, `count` is not in 1..=9999, or `dir` holds anything
/// else than these videos; [`Error::Io`] or [`Error::Encode`] if a file cannot be written.
pub fn generate(dir: &Path, config: &VideoConfig, count: usize, key: Key) -> Result<Vec<Sequence>> {
    config.validate()?;
    if !(1..=MOST).contains(&count) {
        let detail = format!("{count} videos: give a number in 1..={MOST}");
        return Err(Error::Argument { name: "count", detail });
    }
    let files = |dir: &Path| {
        let of_video = |index| {
            let dir = dir.join(name(index));
            let frames = (0..config.frames).map(|frame| dir.join(IMAGES).join(file_name(frame)));
            frames.chain([dir.join(BOXES)]).collect::<Vec<_>>()
        };
        Ok((0..count).flat_map(of_video).collect())
    };
    let write = |dir: &Path| {
        let videos = (0..count).into_par_iter();
        videos.try_for_each(|index| write_video(&dir.join(name(index)), config, key.index(index as u64)))
    };
    make(dir, &KIND, config, count, key, files, write)?;
    (0..count).map(|index| sequence(dir, index, config.frames)).collect()
}

fn write_video(dir: &Path, config: &VideoConfig, key: Key) -> Result<()> {
    let images = dir.join(IMAGES);
    fs::create_dir_all(&images).map_err(|source| Error::io("create", &images, source))?;
    let video = Video::new(config, key)?;
    write_boxes(&dir.join(BOXES), &video.boxes(), ",", |number| format!("{number:.3}"))?;
    for frame in 0..config.frames {
        // Chroma is subsampled below quality 90.
        write_jpeg(&images.join(file_name(frame)), &video.frame(frame)?, config.jpeg_quality)?;
    }
    Ok(())
}

fn sequence(dir: &Path, index: usize, count: usize) -> Result<Sequence> {
    let name = name(index);
    let dir = dir.join(&name);
    let boxes = read_boxes(&dir.join(BOXES))?;
    let frames = Frames::Numbered {
        directory: dir.join(IMAGES),
        prefix: String::new(),
        first: 1,
        count,
        digits: 4,
        extension: "jpg".to_owned(),
    };
    Ok(Sequence { name, frames, boxes, visible: None })
}

fn name(index: usize) -> String {
    format!("video_{:04}", index + 1)
}

fn file_name(frame: usize) -> String {
    format!("{:04}.jpg", frame + 1)
}
