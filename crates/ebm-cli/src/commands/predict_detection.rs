//! `ebm predict detection`.

pub mod session;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use ebm_data::decode::{read_image, read_upright};
use ebm_detect::Corner;

use self::session::{Frame, Session};
use super::predict::ModelArgs;
use super::predict_inputs::{Format, image_and_video_files, image_files, is_video, picture_names};

/// What the lines on standard output say, for the long help.
pub const LINES: &str = "\
Output:
  One JSON object a line for each detection, best first; docs/json.md has every key.
    image                the file; of a video also frame, from 0, and time, in seconds
    label, label_name, category_id, score
    bbox, bbox_before    [left, top, width, height], after and before refinement
    edges_90             with --density: left, top, right, bottom, each a list of intervals [from, to] that
                         hold the edge with probability 0.9
    effective_sample_size, reliable
                         how many draws the density is worth; whether they are enough to believe edges_90

  All of them are in pixels, with fractions. The origin is the upper left corner of the image, not the middle of
  its first pixel; x goes to the right, y down. So a box of the whole image is [0, 0, its width, its height], and
  right and bottom in edges_90 are left + width and top + height. The image is meant as viewers show it, turned
  as its orientation tag (EXIF) says; with --annotations as it is stored, which is what annotations refer to.";

/// Arguments of `ebm predict detection`.
#[derive(Args)]
pub struct DetectionArgs {
    /// JPEG, PNG, BMP or WebP files, folders of them, patterns such as 'photos/*.jpg', and videos.
    ///
    /// Videos are read by ffmpeg. Of a folder, images alone are taken.
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Where pictures go; without it none are drawn. Each box has its class and score; red is before
    /// refinement, green after, white annotated. Frames of a video go into a folder of its name, and into a
    /// video beside it.
    #[arg(long)]
    out: Option<PathBuf>,
    /// What the pictures are.
    #[arg(long, value_enum, default_value = "png", requires = "out")]
    format: Format,
    /// Draw what another detector finds beside it, at the same size: its weights and, after a comma, those of its branch. The
    /// lines are of the first detector alone. Can be given several times.
    #[arg(long, value_name = "DETECTOR[,HEAD]", requires = "out")]
    beside: Vec<String>,
    /// Detections from this score on are printed, drawn, and given densities. The detector itself drops those
    /// below its score_threshold.
    #[arg(long, default_value_t = 0.5)]
    min_score: f32,
    /// The images are the frames of a video, in this order, so many a second: each line says its frame and
    /// time, and the pictures become a video.
    #[arg(long, conflicts_with = "annotations", value_parser = parse_rate)]
    fps: Option<f64>,
    /// COCO annotations of the images: draw the annotated boxes too.
    #[arg(long, requires = "out")]
    annotations: Option<PathBuf>,
    /// p(y|x) of each detection: the lines say where its edges lie with probability 0.9, the picture shows
    /// these bands in yellow, in grey where the samples are too few, and NAME-INDEX.png is a picture of the
    /// detection's own, with the density of a corner.
    #[arg(long)]
    density: bool,
    /// Which corner.
    #[arg(long, value_enum, default_value = "top_right", requires = "density")]
    corner: CornerName,
    /// Samples for each density.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..), requires = "density")]
    samples: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0, requires = "density")]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| format!("{text:?} is no number of frames a second; write a positive number"))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum CornerName {
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
}

impl From<CornerName> for Corner {
    fn from(name: CornerName) -> Self {
        match name {
            CornerName::TopLeft => Self::TopLeft,
            CornerName::TopRight => Self::TopRight,
            CornerName::BottomLeft => Self::BottomLeft,
            CornerName::BottomRight => Self::BottomRight,
        }
    }
}

/// Runs the command.
pub fn run(args: &DetectionArgs) -> Result<()> {
    let inputs = match args.fps {
        Some(_) => image_files(&args.inputs)?,
        None => image_and_video_files(&args.inputs)?,
    };
    let named = inputs.iter().zip(picture_names(&inputs));
    let (videos, images): (Vec<_>, Vec<_>) = named.partition(|(path, _)| is_video(path));
    ensure!(videos.is_empty() || args.fps.is_none(), "--fps is for images; a video knows its own rate");
    ensure!(videos.is_empty() || args.annotations.is_none(), "--annotations are of images, not of videos");
    let detector = args.model.open(args.min_score)?;
    if args.density {
        detector.check_density().context("--density")?;
    }
    let others = args.beside.iter().map(|files| args.model.other(files, args.min_score));
    let others = others.collect::<Result<Vec<_>>>()?;
    let mut session = Session::new(args, &detector, &others, &inputs)?;
    session.begin("looking for objects", images.len());
    let mut drawn = Vec::new();
    for (number, (path, name)) in images.iter().enumerate() {
        // Annotated boxes are those of the stored pixels.
        let read = if args.annotations.is_some() { read_image(path) } else { read_upright(path) };
        let Some(image) = session.readable(read) else { continue };
        let at = args.fps.map(|rate| (number, number as f64 / rate));
        drawn.extend(session.look(&Frame { path, image: &image, at, name })?);
    }
    if let Some(rate) = args.fps {
        session.make_video("video.mp4", &drawn, rate)?;
    }
    for (path, name) in &videos {
        session.video(path, name)?;
    }
    session.end()
}
