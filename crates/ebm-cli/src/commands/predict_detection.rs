//! `ebm predict detection`: finds objects in images and videos.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_base::Key;
use ebm_core::Region;
use ebm_data::Image;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::decode::{read_image, read_upright};
use ebm_detect::{DensityOptions, Detector};
use ebm_train::Progress;
use serde_json::json;

use super::predict::ModelArgs;
use super::predict_inputs::{PictureFolder, image_and_video_files, is_video, picture_names};
use crate::detection_picture::{DetectionWithEdges, panel, picture};
use crate::progress::Console;
use crate::schema::document;
use crate::video::{self, Video};

/// Description of the lines on standard output, for the long help.
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
    /// Videos are read by ffmpeg. Of a folder, only the images are taken.
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Folder for pictures; by default none are drawn. Each box has its class and score. Red boxes are before
    /// refinement, green ones after, white ones annotated. Frames of a video go into a subfolder of its name, and into
    /// a video beside it.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Lowest score of detections that are printed, drawn and given densities. The detector itself drops detections
    /// below its score_threshold.
    #[arg(long, default_value_t = 0.5)]
    min_score: f32,
    /// COCO annotations of the images, whose boxes are drawn too.
    #[arg(long, requires = "out")]
    annotations: Option<PathBuf>,
    /// Compute p(y|x) of each detection. The lines get the intervals that hold its edges with probability 0.9. The
    /// picture shows reliable ones as yellow bands. NAME-INDEX.png shows a detection with the density of its upper right
    /// corner.
    #[arg(long)]
    density: bool,
    /// Number of samples for each density.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..=100_000), requires = "density")]
    samples: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0, requires = "density")]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
}

pub fn run(args: &DetectionArgs) -> Result<()> {
    let inputs = image_and_video_files(&args.inputs)?;
    let named = inputs.iter().zip(picture_names(&inputs));
    let (videos, images): (Vec<_>, Vec<_>) = named.partition(|(path, _)| is_video(path));
    ensure!(videos.is_empty() || args.annotations.is_none(), "--annotations apply to images, not to videos");
    let detector = args.model.open(args.min_score)?;
    if args.density {
        detector.check_density().context("--density")?;
    }
    let mut session = Session {
        args,
        detector: &detector,
        pictures: args.out.as_deref().map(|out| PictureFolder::new(out, &inputs)).transpose()?,
        annotations: args.annotations.as_deref().map(|path| annotated(path, &detector)).transpose()?,
        progress: Console::new(),
        start: Instant::now(),
        images: 0,
        detections: 0,
        empty_frames: 0,
    };
    session.begin("looking for objects", images.len());
    let mut unreadable = Vec::new();
    for (number, (path, name)) in images.iter().enumerate() {
        // Annotated boxes refer to the stored image, before its orientation is applied.
        let read = if args.annotations.is_some() { read_image(path) } else { read_upright(path) };
        match read {
            Ok(image) => drop(session.process(&Frame { path, image: &image, at: None, name })?),
            Err(error) => unreadable.push(error),
        }
        session.progress.advance(number + 1, "");
    }
    for (path, name) in &videos {
        session.video(path, name)?;
    }
    session.end(unreadable)
}

/// Image with its origin.
struct Frame<'a> {
    path: &'a Path,
    image: &'a Image,
    /// Number in the video and time in seconds, for a frame of a video.
    at: Option<(usize, f64)>,
    /// Name of the picture, without its extension.
    name: &'a str,
}

/// State of a call: the detector, the folder of pictures, and counts of results.
struct Session<'a> {
    args: &'a DetectionArgs,
    detector: &'a Detector,
    pictures: Option<PictureFolder<'a>>,
    annotations: Option<CocoDataset>,
    progress: Console,
    start: Instant,
    images: usize,
    detections: usize,
    /// Number of videos' frames without a detection.
    empty_frames: usize,
}

impl Session<'_> {
    /// Starts to show the progress over `total` images, unless the printed lines show it already.
    fn begin(&mut self, name: &str, total: usize) {
        if total > 1 && !std::io::stdout().is_terminal() {
            self.progress.begin(name, total);
        }
    }

    /// Detects objects in a frame, prints and draws them. Returns the picture's path, if there is one.
    fn process(&mut self, frame: &Frame<'_>) -> Result<Option<PathBuf>> {
        let truth = self.truth(frame.path)?;
        let found = self.detect(frame)?;
        for found in &found {
            println!("{}", line(frame, found));
        }
        self.images += 1;
        self.detections += found.len();
        let Some(pictures) = &self.pictures else { return Ok(None) };
        let place = pictures.write(frame.name, &picture(frame.image, &truth, &found)?)?;
        for (index, found) in found.iter().enumerate() {
            let Some(panel) = panel(frame.image, &truth, found)? else { continue };
            pictures.write(&format!("{}-{index}", frame.name), &panel)?;
        }
        Ok(Some(place))
    }

    /// Returns the labels and boxes `[x, y, width, height]` that the annotations have for the image.
    fn truth(&self, image: &Path) -> Result<Vec<(usize, [f64; 4])>> {
        let Some(dataset) = &self.annotations else { return Ok(vec![]) };
        let known = dataset.images.iter().find(|known| image.file_name() == Some(known.file_name.as_ref()));
        let known = known.with_context(|| format!("the annotations have no image {}", image.display()))?;
        let corners = known.objects.iter().map(|object| (object.label, object.bbox.map(f64::from)));
        Ok(corners.map(|(label, [x0, y0, x1, y1])| (label, [x0, y0, x1 - x0, y1 - y0])).collect())
    }

    /// Returns the detections with scores of at least `min_score`. Says if an image has none; frames of a video without
    /// any are counted.
    fn detect(&mut self, frame: &Frame<'_>) -> Result<Vec<DetectionWithEdges>> {
        let Frame { path, image, at, .. } = *frame;
        let min_score = self.args.min_score;
        let mut found = if self.args.density {
            // Each image has samples of its own, which do not depend on the other images.
            let key = Key::new(self.args.seed).split(&path.file_name().unwrap_or_default().to_string_lossy());
            let mut rng = at.map_or(key, |(number, _)| key.index(number as u64)).rng();
            let options = DensityOptions { min_score, samples: self.args.samples as usize };
            self.detector.detect_with_density(image, &options, &mut rng)?
        } else {
            self.detector.detect(image)?
        };
        let best = found.iter().map(|found| found.score).reduce(f32::max);
        found.retain(|found| found.score >= min_score);
        if found.is_empty() && at.is_some() {
            self.empty_frames += 1;
        } else if found.is_empty() {
            let best =
                best.map_or("nothing is found".to_owned(), |best| format!("the best score is {best:.2}"));
            let path = path.display();
            self.progress
                .message(&format!("{path}: no detection of --min-score {min_score} or more; {best}"));
        }
        found.into_iter().map(DetectionWithEdges::new).collect()
    }

    /// Detects objects in every frame of a video. Its pictures go into a folder `name` and into a video beside it.
    fn video(&mut self, path: &Path, name: &str) -> Result<()> {
        let mut video = Video::open(path)?;
        let rate = video.rate;
        self.begin(&path.display().to_string(), video.expected.unwrap_or(0));
        let mut drawn = Vec::new();
        for number in 0.. {
            let Some(image) = video.frame()? else { break };
            let at = Some((number, number as f64 / rate));
            let name = format!("{name}/{number:06}");
            drawn.extend(self.process(&Frame { path, image: &image, at, name: &name })?);
            self.progress.advance(number + 1, "");
        }
        match &self.pictures {
            Some(pictures) if drawn.len() > 1 => {
                video::make(&pictures.place(&format!("{name}.mp4"))?, &drawn, rate)
            }
            _ => Ok(()),
        }
    }

    /// Prints a summary, and the images that could not be read.
    ///
    /// # Errors
    /// If an image could not be read: the error of the first such image.
    fn end(mut self, unreadable: Vec<ebm_data::Error>) -> Result<()> {
        for error in unreadable.iter().skip(1) {
            self.progress.message(&error.to_string());
        }
        let plural =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut said = format!(
            "{}, {} of --min-score {} or more, {:.1} s",
            plural(self.images, "image"),
            plural(self.detections, "detection"),
            self.args.min_score,
            self.start.elapsed().as_secs_f64()
        );
        if self.empty_frames > 0 {
            said.push_str(&format!("; nothing in {}", plural(self.empty_frames, "frame")));
        }
        if let Some(out) = &self.args.out {
            said.push_str(&format!("; pictures in {}", out.display()));
        }
        self.progress.end_with(&said);
        let (left_out, all) = (unreadable.len(), self.images + unreadable.len());
        unreadable.into_iter().next().map_or(Ok(()), |error| {
            Err(error).with_context(|| format!("{left_out} of {all} images cannot be read and were left out"))
        })
    }
}

fn line(
    frame: &Frame<'_>,
    DetectionWithEdges { detection, edges }: &DetectionWithEdges,
) -> serde_json::Value {
    let mut line = json!({
        "image": frame.path.to_string_lossy(), "label": detection.label, "score": detection.score,
        "bbox": detection.bbox, "bbox_before": detection.before,
    });
    if let Some((number, time)) = frame.at {
        line["frame"] = json!(number);
        line["time"] = json!(time);
    }
    if let Some(class) = &detection.class {
        line["label_name"] = json!(class.name);
        line["category_id"] = json!(class.id);
    }
    if let Some(density) = &detection.density {
        line["effective_sample_size"] = json!(density.effective_sample_size());
        line["reliable"] = json!(density.is_reliable());
        line["calibrated"] = json!(density.is_calibrated());
    }
    if let Some(edges) = edges {
        line["edges_90"] = intervals(edges);
    }
    document("predict detection", line)
}

/// Returns the intervals of each edge as JSON.
pub fn intervals(edges: &[Region; 4]) -> serde_json::Value {
    let [left, top, right, bottom] = edges.each_ref().map(|region| &region.intervals);
    json!({ "left": left, "top": top, "right": right, "bottom": bottom })
}

/// Loads the annotations with the detector's labels.
fn annotated(annotations: &Path, detector: &Detector) -> Result<CocoDataset> {
    let labels = detector.labels();
    let options = LoadOptions { check_files: false, labels, ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(annotations, Path::new(""), &options)?;
    detector.check_classes(annotations, &dataset)?;
    Ok(dataset)
}
