//! `ebm predict tracking`: one target through a video.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_data::sequences::{Frames, Rect, Sequence, read_boxes};
use ebm_eval::tracking::{ResultFormat, write_result, write_times};
use ebm_track::box_module::BoxModule;
use ebm_track::tracker::{CornerDensity, Stages, TargetTracker, Tracked};
use ebm_track::{Error as TrackError, Tracker, TrackerOptions};
use ebm_train::Progress;
use serde_json::json;

use super::predict_inputs::{images_in, is_video};
use super::{create_dir, parse_box};
use crate::picture::{AFTER, Points, TRUTH, enlarge, heat, outline};
use crate::progress::Console;
use crate::schema::document;
use crate::video::{self, Video};

/// Points along a side of a heat map.
const GRID: usize = 96;
/// The least width of a picture, in pixels.
const WIDTH: usize = 640;
/// Frames a second of the video that is made.
const RATE: f64 = 25.0;

/// Arguments of `ebm predict tracking`.
#[derive(Args)]
pub struct TrackingArgs {
    /// The folder with the frames, images in the order of their names, or one that has them in a folder img;
    /// or a video, whose frames ffmpeg writes to OUT/frames.
    frames: PathBuf,
    /// The target in the first frame: x,y,width,height.
    #[arg(long = "box", value_parser = parse_box, required_unless_present = "annotations")]
    bbox: Option<Rect>,
    /// A list of boxes, of which the first is the target; the others are drawn too.
    #[arg(long, conflicts_with = "bbox")]
    annotations: Option<PathBuf>,
    /// A trained box module: a run of `ebm reproduce tracking`, such as runs/tracking-mini-1/ebm-0, or the
    /// model.safetensors in it.
    #[arg(long)]
    run: PathBuf,
    /// The backbone's weight file, where it is no longer where the run had it.
    #[arg(long)]
    backbone: Option<PathBuf>,
    /// Where the boxes, and with --pictures the frames go.
    #[arg(long)]
    out: PathBuf,
    /// Draw every so many frames.
    #[arg(long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "1")]
    pictures: Option<usize>,
    /// Draw the density of the top-right corner into the pictures.
    #[arg(long, requires = "pictures")]
    density: bool,
    /// Seed of the tracker's numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one JSON object for each frame.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TrackingArgs) -> Result<()> {
    ensure!(args.pictures != Some(0), "--pictures 0: give 1 to draw every frame, or leave it out");
    let options = TrackerOptions { backbone: args.backbone.clone(), seed: args.seed };
    let tracker = Tracker::open_with(&args.run, &options)?;
    let sequence = sequence(args)?;
    create_dir(&args.out)?;
    let folder = sequence.frames.path(0).and_then(|frame| frame.parent()?.canonicalize().ok());
    let is_among_frames = folder.is_some() && folder == args.out.canonicalize().ok();
    ensure!(!is_among_frames, "--out {} holds the frames; choose another folder", args.out.display());
    let mut progress = Console::new();
    let count = sequence.frames.len();
    progress.begin(&format!("tracking {}", sequence.name), count);
    let mut drawn = Vec::new();
    let mut watch = |i: usize, image: &Image, tracked: &Tracked, tracker: &TargetTracker<'_, BoxModule>| {
        progress.advance(i + 1, &format!("{:?}", tracked.state));
        if args.json {
            println!("{}", line(i, tracked));
        }
        if args.pictures.is_some_and(|every| i.is_multiple_of(every)) {
            let density = if args.density { tracker.corner_density(GRID)? } else { None };
            let truth = sequence.boxes.get(i).copied().filter(|_| args.annotations.is_some());
            let picture = picture(image, tracked.bbox, truth, density.as_ref());
            let path = args.out.join(format!("{i:06}.png"));
            write_png(&path, &picture)?;
            drawn.push(path);
        }
        Ok::<(), TrackError>(())
    };
    let found = tracker.track_sequence(&sequence, &mut watch)?;
    progress.end();

    let path = write_result(&args.out, &sequence.name, &found.boxes, ResultFormat::Full, 1)?;
    write_times(&args.out, &sequence.name, &[&found.seconds], ResultFormat::Full)?;
    eprintln!("{} boxes are in {}", found.boxes.len(), path.display());
    summarise(&found.frames);
    if drawn.len() > 1 {
        video::make(&args.out.join("video.mp4"), &drawn, RATE)?;
    }
    Ok(())
}

/// The frames in the folder, with the first box.
fn sequence(args: &TrackingArgs) -> Result<Sequence> {
    let paths = frames(args)?;
    if paths.len() < 2 {
        bail!("{} has {} images; a video has two or more", args.frames.display(), paths.len());
    }
    let boxes = match (&args.annotations, args.bbox) {
        (Some(path), _) => read_boxes(path)?,
        (None, Some(bbox)) => vec![bbox],
        (None, None) => bail!("give the target as --box x,y,width,height"),
    };
    ensure!(!boxes.is_empty(), "the annotations have no box");
    // `…/Girl/img` is the sequence Girl, and so is `Girl.mp4`.
    let folder = std::path::absolute(&args.frames)?;
    let named = if folder.ends_with("img") { folder.parent().unwrap_or(&folder) } else { &folder };
    let own = if is_video(named) { named.file_stem() } else { named.file_name() };
    let name = own.map_or_else(|| "video".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Sequence { name, frames: Frames::Listed(paths), boxes, visible: None })
}

/// The files of the frames; those of a video are made.
fn frames(args: &TrackingArgs) -> Result<Vec<PathBuf>> {
    if args.frames.is_file() && is_video(&args.frames) {
        let (mut video, mut paths) = (Video::open(&args.frames)?, Vec::new());
        while let Some(frame) = video.frame()? {
            let path = args.out.join(format!("frames/{:06}.png", paths.len()));
            write_png(&path, &frame)?;
            paths.push(path);
        }
        return Ok(paths);
    }
    let paths = images_in(&args.frames).context("give a folder with the frames")?;
    let inner = args.frames.join("img");
    if paths.is_empty() && inner.is_dir() { images_in(&inner) } else { Ok(paths) }
}

fn line(frame: usize, tracked: &Tracked) -> serde_json::Value {
    let body = json!({
        "frame": frame,
        "bbox": tracked.bbox,
        "score": tracked.score,
        "f": tracked.f,
        "state": tracked.state,
    });
    document("predict tracking", body)
}

fn picture(image: &Image, bbox: Rect, truth: Option<Rect>, density: Option<&CornerDensity>) -> Image {
    let factor = WIDTH.div_ceil(image.width).max(1);
    let mut picture = enlarge(image, factor);
    let scaled = |bbox: Rect| bbox.map(|number| number * factor as f64);
    if let Some(CornerDensity { first, step, size, p }) = density {
        let [first, step] = [first, step].map(|pair| pair.map(|number| number * factor as f64));
        heat(&mut picture, Points { first, step, size: *size }, p);
    }
    if let Some(truth) = truth.filter(|truth| truth.iter().all(|number| number.is_finite())) {
        outline(&mut picture, scaled(truth), TRUTH, 2);
    }
    outline(&mut picture, scaled(bbox), AFTER, 3);
    picture
}

/// What a frame takes, by stage.
fn summarise(frames: &[Tracked]) {
    let total = frames.iter().fold(Stages::default(), |sum, frame| sum + frame.stages);
    let (seconds, count) = (total.total().as_secs_f64(), frames.len() as f64);
    if seconds == 0.0 {
        return;
    }
    eprintln!("{:.1} frames/s without reading and drawing; milliseconds a frame:", count / seconds);
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
