//! What one call of `ebm predict detection` does with images and videos, and has done.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use ebm_core::Region;
use ebm_data::{
    Image,
    coco::{CocoDataset, LoadOptions, Purpose},
};
use ebm_detect::{DensityOptions, Detector};
use ebm_seed::Key;
use ebm_train::Progress;
use serde_json::json;

use super::DetectionArgs;
use crate::commands::predict_inputs::PictureFolder;
use crate::detection_picture::{Found, panel, picture};
use crate::picture::grid;
use crate::progress::Console;
use crate::schema::document;
use crate::video::{self, Video};

/// An image, and where it is from.
pub struct Frame<'a> {
    pub path: &'a Path,
    pub image: &'a Image,
    /// Its number in the video and its time in seconds.
    pub at: Option<(usize, f64)>,
    /// What its picture is called.
    pub name: &'a str,
}

/// The detector, where its results go, and how many there were.
pub struct Session<'a> {
    args: &'a DetectionArgs,
    detector: &'a Detector,
    /// Those that are drawn beside it, with their names.
    others: &'a [(String, Detector)],
    pictures: Option<PictureFolder<'a>>,
    annotations: Option<CocoDataset>,
    progress: Console,
    start: Instant,
    /// Images before the stage that is shown.
    before: usize,
    images: usize,
    detections: usize,
    /// Frames of videos without a detection.
    without: usize,
    /// What images could not be read for.
    unreadable: Vec<ebm_data::Error>,
}

impl<'a> Session<'a> {
    pub fn new(
        args: &'a DetectionArgs,
        detector: &'a Detector,
        others: &'a [(String, Detector)],
        inputs: &[PathBuf],
    ) -> Result<Self> {
        let folder = |out| PictureFolder::new(out, inputs, args.format);
        let pictures = args.out.as_deref().map(folder).transpose()?;
        let annotations = args.annotations.as_deref().map(|path| annotated(path, detector)).transpose()?;
        Ok(Self {
            args,
            detector,
            others,
            pictures,
            annotations,
            progress: Console::new(),
            start: Instant::now(),
            before: 0,
            images: 0,
            detections: 0,
            without: 0,
            unreadable: Vec::new(),
        })
    }

    /// Shows how far it is in so many images. Where the lines are seen, they tell it themselves.
    pub fn begin(&mut self, name: &str, total: usize) {
        self.before = self.images;
        if total > 1 && !std::io::stdout().is_terminal() {
            self.progress.begin(name, total);
        }
    }

    /// The image, if it could be read; what else there is of it waits for the [end](Self::end).
    pub fn readable(&mut self, read: Result<Image, ebm_data::Error>) -> Option<Image> {
        read.map_err(|error| self.unreadable.push(error)).ok()
    }

    /// Prints what is found and draws it; the picture's place.
    pub fn look(&mut self, frame: &Frame<'_>) -> Result<Option<PathBuf>> {
        let truth = self.truth(frame.path)?;
        let found = self.found(frame)?;
        for found in &found {
            println!("{}", line(frame, found));
        }
        self.images += 1;
        self.detections += found.len();
        self.progress.advance(self.images - self.before, "");
        let Some(pictures) = &self.pictures else { return Ok(None) };
        let place = pictures.write(frame.name, &self.drawn(frame.image, &truth, &found)?)?;
        for (index, found) in found.iter().enumerate() {
            let Some(panel) = panel(frame.image, &truth, found, self.args.corner.into())? else { continue };
            pictures.write(&format!("{}-{index}", frame.name), &panel)?;
        }
        Ok(Some(place))
    }

    /// The picture of what was found, with those of the other detectors beside it.
    fn drawn(&self, image: &Image, truth: &[(usize, [f64; 4])], found: &[Found]) -> Result<Image> {
        if self.others.is_empty() {
            return picture(image, truth, found, "");
        }
        let mut pictures = vec![picture(image, truth, found, &self.args.model.name())?];
        for (name, detector) in self.others {
            let found = detector.detect(image)?.into_iter().filter(|one| one.score >= self.args.min_score);
            let found = found.map(Found::new).collect::<Result<Vec<_>>>()?;
            pictures.push(picture(image, truth, &found, name)?);
        }
        Ok(grid(&[pictures], [255; 3])?)
    }

    /// The labels and boxes, `[x, y, width, height]`, that the annotations have for the image.
    fn truth(&self, image: &Path) -> Result<Vec<(usize, [f64; 4])>> {
        let Some(dataset) = &self.annotations else { return Ok(vec![]) };
        let known = dataset.images.iter().find(|known| image.file_name() == Some(known.file_name.as_ref()));
        let known = known.with_context(|| format!("the annotations have no image {}", image.display()))?;
        let corners = known.objects.iter().map(|object| (object.label, object.bbox.map(f64::from)));
        Ok(corners.map(|(label, [x0, y0, x1, y1])| (label, [x0, y0, x1 - x0, y1 - y0])).collect())
    }

    /// What scores enough; where nothing does, that is said, of videos at the end.
    fn found(&mut self, frame: &Frame<'_>) -> Result<Vec<Found>> {
        let Frame { path, image, at, .. } = *frame;
        let min_score = self.args.min_score;
        let mut found = if self.args.density {
            // Its own samples for each image, whatever the other images are.
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
            self.without += 1;
        } else if found.is_empty() {
            let best =
                best.map_or("nothing is found".to_owned(), |best| format!("the best score is {best:.2}"));
            let path = path.display();
            self.progress
                .message(&format!("{path}: no detection of --min-score {min_score} or more; {best}"));
        }
        found.into_iter().map(Found::new).collect()
    }

    /// Looks at every frame of a video; its pictures go into a folder `name`, and into a video beside it.
    pub fn video(&mut self, path: &Path, name: &str) -> Result<()> {
        let mut video = Video::open(path)?;
        let rate = video.rate();
        self.begin(&path.display().to_string(), video.expected().unwrap_or(0));
        let mut drawn = Vec::new();
        for number in 0.. {
            let Some(image) = video.frame()? else { break };
            let at = Some((number, number as f64 / rate));
            let name = format!("{name}/{number:06}");
            drawn.extend(self.look(&Frame { path, image: &image, at, name: &name })?);
        }
        self.make_video(&format!("{name}.mp4"), &drawn, rate)
    }

    /// Makes a video of the pictures that were drawn.
    pub fn make_video(&self, name: &str, drawn: &[PathBuf], rate: f64) -> Result<()> {
        match &self.pictures {
            Some(pictures) if drawn.len() > 1 => video::make(&pictures.place(name)?, drawn, rate),
            _ => Ok(()),
        }
    }

    /// Says what was done, and names the images that could not be read.
    ///
    /// # Errors
    /// That of the first of those images.
    pub fn end(mut self) -> Result<()> {
        let Self { images, detections, without, .. } = self;
        let left_out = self.unreadable.len();
        let mut unreadable = std::mem::take(&mut self.unreadable).into_iter();
        let first = unreadable.next();
        for error in unreadable {
            self.progress.message(&error.to_string());
        }
        let plural =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut said = format!(
            "{}, {} of --min-score {} or more, {:.1} s",
            plural(images, "image"),
            plural(detections, "detection"),
            self.args.min_score,
            self.start.elapsed().as_secs_f64()
        );
        if without > 0 {
            said.push_str(&format!("; nothing in {}", plural(without, "frame")));
        }
        if let Some(out) = &self.args.out {
            said.push_str(&format!("; pictures in {}", out.display()));
        }
        self.progress.end_with(&said);
        first.map_or(Ok(()), |error| {
            let all = images + left_out;
            Err(error).with_context(|| format!("{left_out} of {all} images cannot be read and were left out"))
        })
    }
}

fn line(frame: &Frame<'_>, Found { detection, edges }: &Found) -> serde_json::Value {
    let mut line = json!({
        "image": frame.path, "label": detection.label, "score": detection.score,
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

/// The intervals of each edge.
pub fn intervals(edges: &[Region; 4]) -> serde_json::Value {
    let [left, top, right, bottom] = edges.each_ref().map(|region| &region.intervals);
    json!({ "left": left, "top": top, "right": right, "bottom": bottom })
}

/// The annotations with the detector's labels.
fn annotated(annotations: &Path, detector: &Detector) -> Result<CocoDataset> {
    let labels = detector.labels();
    let options = LoadOptions { check_files: false, labels, ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(annotations, Path::new(""), &options)?;
    detector.check_classes(annotations, &dataset)?;
    Ok(dataset)
}
