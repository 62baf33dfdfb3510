//! `ebm track`: follows one target through a video.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_core::Region;
use ebm_data::Image;
use ebm_data::decode::read_image;
use ebm_data::encode::write_png;
use ebm_data::sequences::{Rect, read_boxes};
use ebm_detect::BUNDLED_REFINER;
use ebm_eval::tracking::{ResultFormat, write_result, write_times};
use ebm_track::box_module::BoxModule;
use ebm_track::localize::State;
use ebm_track::tracker::{BoxDensity, Stages, TargetTracker, Tracked};
use ebm_track::{Tracker, TrackerOptions};
use ebm_train::Progress;
use serde_json::{Value, json};

use super::predict_detection::intervals;
use super::predict_inputs::{images_in, is_video};
use super::{create_dir, parse_box};
use crate::model_path::ModelPath;
use crate::picture::{AFTER, Canvas, REGION, TRUTH};
use crate::progress::Console;
use crate::schema::document;
use crate::video::{self, Video};

/// Number of points along a side of a heat map.
const GRID: usize = 96;
/// Smallest width of a picture, in pixels.
const WIDTH: usize = 640;
/// Frames per second of a video made from images.
const RATE: f64 = 25.0;

/// Arguments of `ebm track`.
#[derive(Args)]
pub struct TargetArgs {
    /// Folder with the frames as images in the order of their names, directly or in a subfolder img; or a video, which
    /// ffmpeg reads.
    frames: PathBuf,
    /// Box of the target in the first frame: x,y,width,height.
    #[arg(long = "box", value_parser = parse_box, required_unless_present = "annotations", allow_hyphen_values = true)]
    bbox: Option<Rect>,
    /// File with a box in each line. The first is the target, the others are drawn too.
    #[arg(long, conflicts_with = "bbox")]
    annotations: Option<PathBuf>,
    /// Trained box module: a run of `ebm reproduce tracking`, such as runs/tracking-mini-1/ebm-0, or its
    /// model.safetensors; or hub:OWNER/NAME. By default the one that comes with this program.
    #[arg(long)]
    run: Option<ModelPath>,
    /// Weights of the backbone, if they are no longer where the run had them.
    #[arg(long)]
    backbone: Option<ModelPath>,
    /// Folder for boxes and times, and with --pictures for frames and a video. By default one JSON object for each
    /// frame is printed.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Draw each frame whose number is a multiple of EVERY, and make a video of the pictures.
    #[arg(long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "1", requires = "out",
          value_parser = clap::value_parser!(u32).range(1..))]
    pictures: Option<u32>,
    /// Draw the density of the upper right corner into the pictures.
    #[arg(long, requires = "pictures")]
    density: bool,
    /// Samples of p(y|x) in each frame, for confidences and bands; 0 computes none.
    #[arg(long, default_value_t = 128)]
    samples: usize,
    /// Seed of the tracker's random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object for each frame even with --out.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TargetArgs) -> Result<()> {
    let backbone = args.backbone.as_ref().map(ModelPath::file).transpose()?;
    let options = TrackerOptions { backbone, seed: args.seed };
    let tracker = match &args.run {
        Some(run) => Tracker::open_with(run.local()?, &options)?,
        None => Tracker::bundled(BUNDLED_REFINER, &options)?,
    };
    let truth = args.annotations.as_deref().map(read_boxes).transpose()?;
    let given =
        args.bbox.or_else(|| truth.as_ref()?.first().copied()).context("the annotations have no box")?;
    let mut frames = Frames::open(&args.frames)?;
    if let Some(out) = &args.out {
        frames.refuse_output(out)?;
        create_dir(out)?;
    }
    let name = name_of(&args.frames)?;
    let first = (frames.next)()?.context("there is no frame")?;
    let (settings, key) = (&tracker.saved.tracker, tracker.key.split(&name));
    let target = TargetTracker::start(&tracker.networks, settings, &first, given, key)
        .with_context(|| format!("{}, its first frame", args.frames.display()))?;
    let (truth, progress) = (truth.unwrap_or_default(), Console::new());
    let (boxes, stages, drawn) = (vec![given], Vec::new(), Vec::new());
    let mut session = Session { args, name, truth, target, boxes, stages, drawn, progress };
    session.say(
        json!({ "frame": 0, "bbox": given, "score": null, "f": null, "state": "given", "confidence": 1.0 }),
    );
    session.progress.begin(&format!("tracking {}", session.name), frames.expected.unwrap_or_default());
    let end = session.follow(&mut frames);
    session.progress.end();
    // The boxes so far are written even if tracking ended with an error.
    session.keep(frames.rate)?;
    end.with_context(|| format!("{} ended after {} frames", args.frames.display(), session.boxes.len()))
}

/// Source of frames.
struct Frames {
    next: Box<dyn FnMut() -> Result<Option<Image>>>,
    /// Number of frames, if it is known.
    expected: Option<usize>,
    /// Frames per second.
    rate: f64,
    /// Folder of the frames, if each is a file.
    folder: Option<PathBuf>,
}

impl Frames {
    fn open(path: &Path) -> Result<Self> {
        let place = path.display();
        if path.is_file() && is_video(path) {
            let mut video = Video::open(path)?;
            let (expected, rate) = (video.expected, video.rate);
            return Ok(Self { next: Box::new(move || video.frame()), expected, rate, folder: None });
        }
        ensure!(
            !path.is_file(),
            "{place} is one file and no video; give a folder with the frames, or a video"
        );
        let (mut folder, mut paths) =
            (path.to_owned(), images_in(path).context("give a folder with the frames")?);
        if paths.is_empty() && path.join("img").is_dir() {
            folder = path.join("img");
            paths = images_in(&folder)?;
        }
        ensure!(paths.len() > 1, "{place} has {} images; a video has two or more", paths.len());
        let (expected, mut paths) = (Some(paths.len()), paths.into_iter());
        let next = move || Ok(paths.next().map(|path| read_image(&path)).transpose()?);
        Ok(Self { next: Box::new(next), expected, rate: RATE, folder: Some(folder) })
    }

    /// Returns an error if `out` is the folder of the frames, since pictures there would be read as frames next time.
    fn refuse_output(&self, out: &Path) -> Result<()> {
        let folder = self.folder.as_ref().and_then(|folder| folder.canonicalize().ok());
        let among = folder.is_some() && folder == out.canonicalize().ok();
        ensure!(!among, "--out {} holds the frames; choose another folder", out.display());
        Ok(())
    }
}

/// Returns the name of a sequence: Girl for `…/Girl/img` and for `Girl.mp4`.
fn name_of(frames: &Path) -> Result<String> {
    let folder = std::path::absolute(frames)?;
    let named = if folder.ends_with("img") { folder.parent().unwrap_or(&folder) } else { &folder };
    let own = if is_video(named) { named.file_stem() } else { named.file_name() };
    Ok(own.map_or_else(|| "video".to_owned(), |name| name.to_string_lossy().into_owned()))
}

/// State of a target that is followed.
struct Session<'a> {
    args: &'a TargetArgs,
    name: String,
    /// Annotated boxes.
    truth: Vec<Rect>,
    target: TargetTracker<BoxModule>,
    /// The box of each frame.
    boxes: Vec<Rect>,
    /// Times of each frame's stages, from the second frame on.
    stages: Vec<Stages>,
    drawn: Vec<PathBuf>,
    progress: Console,
}

impl Session<'_> {
    /// Follows the target through the remaining frames.
    fn follow(&mut self, frames: &mut Frames) -> Result<()> {
        while let Some(image) = (frames.next)()? {
            let (args, frame) = (self.args, self.boxes.len());
            let tracked = self.target.track(&image)?;
            // If the target was not found, the density belongs to an earlier frame.
            let is_drawn = args.samples > 0 && tracked.state != State::NotFound;
            let density = if is_drawn { self.target.density(args.samples)? } else { None };
            let bands = density.as_ref().and_then(|density| density.bands().ok());
            self.say(line(frame, &tracked, density.as_ref(), bands.as_ref()));
            if args.pictures.is_some_and(|every| frame.is_multiple_of(every as usize)) {
                self.draw(&image, tracked.bbox, density.as_ref(), bands.as_ref())?;
            }
            self.progress.advance(frame + 1, &format!("{:?}", tracked.state));
            self.boxes.push(tracked.bbox);
            self.stages.push(tracked.stages);
        }
        Ok(())
    }

    fn say(&self, line: Value) {
        if self.args.json || self.args.out.is_none() {
            println!("{}", document("track", line));
        }
    }

    fn draw(
        &mut self,
        image: &Image,
        bbox: Rect,
        density: Option<&BoxDensity>,
        bands: Option<&[Region; 4]>,
    ) -> Result<()> {
        let Some(out) = &self.args.out else { return Ok(()) };
        let frame = self.boxes.len();
        let factor = WIDTH.div_ceil(image.width).max(1);
        let mut canvas = Canvas::whole(image.clone()).enlarged(factor);
        if let Some(density) = density.filter(|_| self.args.density) {
            canvas.heat(&density.corner(GRID)?);
        }
        if let Some(bands) = bands {
            canvas.bands(bands, bbox, REGION);
        }
        if let Some(truth) = self.truth.get(frame) {
            canvas.outline(*truth, TRUTH, 2);
        }
        canvas.outline(bbox, AFTER, 3);
        let path = out.join(format!("{frame:06}.png"));
        write_png(&path, &canvas.image)?;
        self.drawn.push(path);
        Ok(())
    }

    /// Writes boxes and times, and makes the video.
    fn keep(&self, rate: f64) -> Result<()> {
        if let Some(out) = &self.args.out {
            let later = self.stages.iter().map(|stages| stages.total().as_secs_f64());
            let seconds: Vec<f64> = std::iter::once(0.0).chain(later).collect();
            let path = write_result(out, &self.name, &self.boxes, ResultFormat::Full, 1)?;
            write_times(out, &self.name, &[&seconds], ResultFormat::Full)?;
            eprintln!("{} boxes are in {}", self.boxes.len(), path.display());
            if self.drawn.len() > 1 {
                video::make(&out.join("video.mp4"), &self.drawn, rate)?;
            }
        }
        summarise(&self.stages);
        Ok(())
    }
}

fn line(frame: usize, tracked: &Tracked, density: Option<&BoxDensity>, bands: Option<&[Region; 4]>) -> Value {
    let Tracked { bbox, score, f, state, .. } = tracked;
    let mut line = json!({ "frame": frame, "bbox": bbox, "score": score, "f": f, "state": state });
    if let Some(density) = density {
        line["confidence"] = json!(score.clamp(0.0, 1.0) * density.expected_overlap(*bbox));
        line["effective_sample_size"] = json!(density.effective_sample_size());
    }
    if let Some(bands) = bands {
        line["edges_90"] = intervals(bands);
    }
    line
}

/// Prints the mean time of a frame by stage.
fn summarise(frames: &[Stages]) {
    let total = frames.iter().fold(Stages::default(), |sum, stages| sum + *stages);
    let (seconds, count) = (total.total().as_secs_f64(), frames.len() as f64);
    if seconds == 0.0 {
        return;
    }
    eprintln!("{:.1} frames/s without reading, bands and drawing; milliseconds a frame:", count / seconds);
    for (name, stage) in [
        ("crop", total.crop),
        ("features", total.features),
        ("classifier", total.classifier),
        ("box features", total.box_features),
        ("refinement", total.refinement),
        ("learning", total.learning),
    ] {
        let own = stage.as_secs_f64();
        eprintln!("{name:<13} {:7.2}  {:4.1} %", 1e3 * own / count, 100.0 * own / seconds);
    }
}
