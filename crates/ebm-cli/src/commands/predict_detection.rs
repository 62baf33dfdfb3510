//! `ebm predict detection`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ebm_core::Region;
use ebm_data::{
    Image,
    coco::{CocoDataset, LoadOptions, Purpose},
    decode::{read_image, read_upright},
    encode::write_png,
};
use ebm_detect::{Corner, DensityOptions, Detection, Detector};
use ebm_seed::Key;
use serde_json::json;

use super::create_dir;
use super::predict::{ModelArgs, image_files, picture_names};
use crate::box_panel::{Boxes, box_panel};
use crate::contact_sheet::{Mark, with_marks};
use crate::density_panel::LEVEL;
use crate::picture::{AFTER, BEFORE, TRUTH};
use crate::schema::document;

/// Arguments of `ebm predict detection`.
#[derive(Args)]
pub struct DetectionArgs {
    /// JPEG or PNG files, or folders of them; boxes are in the image as its orientation tag turns it, with --annotations as it is stored.
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// Where pictures go; without it none are drawn. Each box has its class and score; red is before
    /// refinement, green after, white annotated.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print and draw detections from this score on.
    #[arg(long, default_value_t = 0.5)]
    min_score: f32,
    /// COCO annotations of the images: draw the annotated boxes too.
    #[arg(long, requires = "out")]
    annotations: Option<PathBuf>,
    /// Of each detection drawn, a picture of p(y|x): where its edges lie with probability 0.9, and the
    /// density of a corner. The lines on standard output get `edges_90`: intervals of x for left and right,
    /// of y for top and bottom, in pixels from the image's left and top, where `bbox` has left, top, width
    /// and height.
    #[arg(long, requires = "head")]
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
    let images = image_files(&args.images)?;
    let detector = args.model.open()?;
    if args.density {
        detector.check_density().context("--density")?;
    }
    if let Some(out) = &args.out {
        create_dir(out)?;
    }
    for (path, name) in images.iter().zip(picture_names(&images)) {
        // Annotated boxes are those of the stored pixels.
        let image = if args.annotations.is_some() { read_image(path)? } else { read_upright(path)? };
        let truth =
            args.annotations.as_deref().map_or(Ok(vec![]), |file| annotated(file, path, &detector))?;
        let found = detect(args, &detector, path, &image)?;
        for found in &found {
            println!("{}", line(path, found)?);
        }
        if let Some(out) = &args.out {
            write_png(&out.join(format!("{name}.png")), &picture(&image, &truth, &found)?)?;
            for (index, found) in found.iter().enumerate() {
                let Some(panel) = panel(&image, &truth, found, args.corner.into())? else { continue };
                write_png(&out.join(format!("{name}-{index}.png")), &panel)?;
            }
        }
    }
    Ok(())
}

/// What scores enough; where nothing does, that is said.
fn detect(args: &DetectionArgs, detector: &Detector, path: &Path, image: &Image) -> Result<Vec<Detection>> {
    let min_score = args.min_score;
    let mut found = if args.density {
        // Its own samples for each image, whatever the other images are.
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let mut rng = Key::new(args.seed).split(&file).rng();
        let options = DensityOptions { min_score, samples: args.samples as usize };
        detector.detect_with_density(image, &options, &mut rng)?
    } else {
        detector.detect(image)?
    };
    let best = found
        .iter()
        .map(|found| found.score)
        .fold(None, |best: Option<f32>, score| Some(best.map_or(score, |best| best.max(score))));
    found.retain(|found| found.score >= min_score);
    if found.is_empty() {
        let best = best.map_or("nothing is found".to_owned(), |best| format!("the best score is {best:.2}"));
        eprintln!("{}: no detection of --min-score {min_score} or more; {best}", path.display());
    }
    Ok(found)
}

fn line(image: &Path, found: &Detection) -> Result<serde_json::Value> {
    let mut line = json!({
        "image": image, "label": found.label, "score": found.score,
        "bbox": found.bbox, "bbox_before": found.before,
    });
    if let Some(class) = &found.class {
        line["label_name"] = json!(class.name);
        line["category_id"] = json!(class.id);
    }
    if let (Some(density), Some(regions)) = (&found.density, found.edges(LEVEL)?) {
        line["edges_90"] = edges(regions);
        line["effective_sample_size"] = json!(density.effective_sample_size());
    }
    Ok(document("predict detection", line))
}

/// The intervals of each edge.
pub fn edges(regions: [Region; 4]) -> serde_json::Value {
    let [left, top, right, bottom] = regions.map(|region| region.intervals);
    json!({ "left": left, "top": top, "right": right, "bottom": bottom })
}

/// The image with its boxes, each refined one with its class and score. Small images are enlarged so that
/// moves of less than a pixel can be seen.
fn picture(image: &Image, truth: &[(usize, [f64; 4])], found: &[Detection]) -> Result<Image> {
    const ROOMY: usize = 640;
    const THICKNESS: usize = 2;
    let mark = |bbox, colour, text| Mark { bbox, colour, thickness: THICKNESS, text };
    let truth = truth.iter().map(|&(_, bbox)| mark(bbox, TRUTH, String::new()));
    let found = found.iter().flat_map(|found| {
        let text = format!("{} {:.2}", found.name(), found.score);
        [mark(found.before, BEFORE, String::new()), mark(found.bbox, AFTER, text)]
    });
    let factor = (ROOMY / image.width.max(image.height)).max(1);
    with_marks(image, factor, &truth.chain(found).collect::<Vec<_>>())
}

/// The densities of a detection as a picture; none where they were not computed.
fn panel(
    image: &Image,
    truth: &[(usize, [f64; 4])],
    found: &Detection,
    corner: Corner,
) -> Result<Option<Image>> {
    let (Some(density), Some(edges)) = (&found.density, found.edges(LEVEL)?) else { return Ok(None) };
    let overlap = |bbox: &[f64; 4]| ebm_eval::tracking::overlap(bbox, &found.bbox);
    let same = truth.iter().filter(|(label, _)| *label == found.label).map(|(_, bbox)| *bbox);
    let truth = same.max_by(|a, b| overlap(a).total_cmp(&overlap(b))).filter(|bbox| overlap(bbox) > 0.0);
    let boxes = Boxes { before: found.before, after: found.bbox, truth };
    Ok(Some(box_panel(image, &boxes, density, &edges, corner)?))
}

/// The detector's labels and boxes, `[x, y, width, height]`, that `annotations` has for the image.
fn annotated(annotations: &Path, image: &Path, detector: &Detector) -> Result<Vec<(usize, [f64; 4])>> {
    let labels = Some(detector.config().detector.labels());
    let options = LoadOptions { check_files: false, labels, ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(annotations, image.parent().unwrap_or(Path::new("")), &options)?;
    detector.check_classes(annotations, &dataset)?;
    let known = dataset.images.iter().find(|known| image.file_name() == Some(known.file_name.as_ref()));
    let known =
        known.with_context(|| format!("{} has no image {}", annotations.display(), image.display()))?;
    let corners = known.objects.iter().map(|object| (object.label, object.bbox.map(f64::from)));
    Ok(corners.map(|(label, [x0, y0, x1, y1])| (label, [x0, y0, x1 - x0, y1 - y0])).collect())
}
