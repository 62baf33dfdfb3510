//! `ebm predict detection`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ebm_data::{
    Image,
    coco::{CocoDataset, LoadOptions, Purpose},
    decode::{read_image, read_upright},
    encode::write_png,
};
use ebm_detect::{
    BoxDensity, Candidate, Corner,
    input::{original_pixel, to_original},
};
use ebm_nn::boxes::BBox;
use ebm_seed::Key;
use serde_json::json;

use super::create_dir;
use super::predict::{Detected, Model, ModelArgs, picture_names};
use crate::box_panel::{Boxes, box_panel, edge_regions};
use crate::picture::{AFTER, BEFORE, TRUTH, enlarge, outline};
use crate::schema::document;

/// Arguments of `ebm predict detection`.
#[derive(Args)]
pub struct DetectionArgs {
    /// JPEG or PNG files; boxes are in the image as its orientation tag turns it, with --annotations as it is stored.
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// Where pictures go; without it none are drawn.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Draw detections from this score on.
    #[arg(long, default_value_t = 0.5)]
    min_score: f32,
    /// COCO annotations of the images: draw the annotated boxes too.
    #[arg(long, requires = "out")]
    annotations: Option<PathBuf>,
    /// Of each detection drawn, a picture of p(y|x): where its edges lie with probability 0.9, and the density of a corner.
    /// The lines on standard output get the edges' intervals.
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
    let device = args.model.device()?;
    let model = Model::load(&args.model, &device)?;
    if let Some(out) = &args.out {
        create_dir(out)?;
    }
    for (path, name) in args.images.iter().zip(picture_names(&args.images)) {
        // Annotated boxes are those of the stored pixels.
        let image = if args.annotations.is_some() { read_image(path)? } else { read_upright(path)? };
        let detected = model.detect(&image, &device)?;
        let truth = args.annotations.as_deref().map_or(Ok(vec![]), |file| annotated(file, path, &model))?;
        let Detected { refinement, sample, .. } = &detected;
        let convention = model.config.detector.convention.into();
        let corners = |c: &Candidate| to_original(&c.bbox, sample, convention);
        let mut found: Vec<Found> = (refinement.before.iter().zip(&refinement.after))
            .map(|(before, after)| Found {
                label: after.label,
                score: after.score,
                before: corners(before),
                after: corners(after),
                density: None,
            })
            .collect();
        if args.density {
            // Its own samples for each image, whatever the other images are.
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            densities(args, &model, &detected, Key::new(args.seed).split(&file), &mut found)?;
        }
        for found in &found {
            println!("{}", found.line(path)?);
        }
        if let Some(out) = &args.out {
            let drawn: Vec<&Found> = found.iter().filter(|found| found.score >= args.min_score).collect();
            let boxes = drawn.iter().flat_map(|found| [(found.before, BEFORE), (found.after, AFTER)]);
            let boxes = truth.iter().map(|&(_, bbox)| (bbox, TRUTH)).chain(boxes);
            draw(&image, boxes, &out.join(format!("{name}.png")))?;
            for (index, found) in drawn.iter().enumerate() {
                let Some(panel) = found.panel(&image, &truth, args.corner.into())? else { continue };
                write_png(&out.join(format!("{name}-{index}.png")), &panel)?;
            }
        }
    }
    Ok(())
}

/// A detection in the image's own pixels, `[x, y, width, height]`.
struct Found {
    label: usize,
    score: f32,
    before: [f64; 4],
    after: [f64; 4],
    density: Option<BoxDensity>,
}

impl Found {
    fn line(&self, image: &Path) -> Result<serde_json::Value> {
        let mut line = json!({
            "image": image, "label": self.label, "score": self.score,
            "bbox": self.after, "bbox_before": self.before,
        });
        if let Some(density) = &self.density {
            let [left, top, right, bottom] = edge_regions(density)?.map(|region| region.intervals);
            line["edges_90"] = json!({ "left": left, "top": top, "right": right, "bottom": bottom });
            line["effective_sample_size"] = json!(density.effective_sample_size());
        }
        Ok(document("predict detection", line))
    }

    /// None without a density.
    fn panel(&self, image: &Image, truth: &[(usize, [f64; 4])], corner: Corner) -> Result<Option<Image>> {
        let Some(density) = &self.density else { return Ok(None) };
        let overlap = |bbox: &[f64; 4]| ebm_eval::tracking::overlap(bbox, &self.after);
        let same = truth.iter().filter(|(label, _)| *label == self.label).map(|(_, bbox)| *bbox);
        let truth = same.max_by(|a, b| overlap(a).total_cmp(&overlap(b))).filter(|bbox| overlap(bbox) > 0.0);
        let boxes = Boxes { before: self.before, after: self.after, truth };
        Ok(Some(box_panel(image, &boxes, density, &edge_regions(density)?, corner)?))
    }
}

/// Adds the densities of the detections that are drawn.
fn densities(
    args: &DetectionArgs,
    model: &Model,
    detected: &Detected,
    key: Key,
    found: &mut [Found],
) -> Result<()> {
    let (head, proposal) = model.energy()?;
    let drawn = detected.refinement.after.iter().filter(|c| c.score >= args.min_score);
    let (labels, boxes): (Vec<u32>, Vec<BBox>) = drawn.map(|c| (c.label as u32, c.bbox)).unzip();
    let convention = model.config.detector.convention.into();
    let densities = BoxDensity::about(
        &head,
        &detected.pyramid,
        (&vec![0; boxes.len()], &labels, &boxes),
        convention,
        (proposal, args.samples as usize),
        &mut key.rng(),
    )?;
    let factors = original_pixel(&detected.sample);
    let drawn = found.iter_mut().filter(|found| found.score >= args.min_score);
    for (found, density) in drawn.zip(densities) {
        found.density = Some(density.scaled(factors, convention));
    }
    Ok(())
}

/// The model's labels and boxes, `[x, y, width, height]`, that `annotations` has for the image.
fn annotated(annotations: &Path, image: &Path, model: &Model) -> Result<Vec<(usize, [f64; 4])>> {
    let labels = Some(model.config.detector.labels());
    let options = LoadOptions { check_files: false, labels, ..LoadOptions::new(Purpose::Eval) };
    let dataset = CocoDataset::load(annotations, image.parent().unwrap_or(Path::new("")), &options)?;
    model.check_classes(annotations, &dataset)?;
    let known = dataset.images.iter().find(|known| image.file_name() == Some(known.file_name.as_ref()));
    let known =
        known.with_context(|| format!("{} has no image {}", annotations.display(), image.display()))?;
    let corners = known.objects.iter().map(|object| (object.label, object.bbox.map(f64::from)));
    Ok(corners.map(|(label, [x0, y0, x1, y1])| (label, [x0, y0, x1 - x0, y1 - y0])).collect())
}

/// Small images are enlarged so that moves of less than a pixel can be seen.
fn draw(image: &Image, boxes: impl Iterator<Item = ([f64; 4], [u8; 3])>, path: &Path) -> Result<()> {
    const ROOMY: usize = 640;
    let factor = (ROOMY / image.width.max(image.height)).max(1);
    let mut canvas = enlarge(image, factor);
    for (bbox, colour) in boxes {
        outline(&mut canvas, bbox.map(|value| value * factor as f64), colour, 2);
    }
    write_png(path, &canvas)?;
    Ok(())
}
