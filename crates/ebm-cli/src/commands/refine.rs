//! `ebm refine`: refines another detector's boxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_base::Key;
use ebm_data::Image;
use ebm_data::coco::{AnnotationFile, CategoryRecord};
use ebm_data::decode::{read_image, read_upright};
use ebm_detect::{BoxRefiner, LabelledBox, RefinedBox, RefinerOptions};
use ebm_eval::{BoxProblem, Error, ResultEntry, read_entries, write_entries};
use ebm_train::Progress;
use serde_json::json;

use super::check_out;
use super::predict_detection::intervals;
use super::predict_inputs::images_in;
use crate::device::DeviceArgs;
use crate::model_path::ModelPath;
use crate::progress::Console;

/// Arguments of `ebm refine`.
#[derive(Args)]
pub struct RefineArgs {
    /// A detector's boxes as a COCO result file: a list of objects with `image_id`, `category_id`, `bbox` (left, top,
    /// width, height in pixels) and `score`. Other keys are kept.
    #[arg(long)]
    results: PathBuf,
    /// Folder of the images.
    #[arg(long)]
    images: PathBuf,
    /// COCO annotations or an image-info file with the file name of each `image_id`. Boxes then refer to the image as
    /// it is stored. Without it the id is the number in the file's name, as 139 is 000000000139.jpg, and boxes refer to
    /// the image as its orientation tag turns it.
    #[arg(long)]
    annotations: Option<PathBuf>,
    /// Refiner file of `ebm train refiner`, or hub:OWNER/NAME.
    #[arg(long)]
    refiner: ModelPath,
    /// File for the refined results: the same list with `bbox` replaced, and with `bbox_before` and `f` added.
    #[arg(long)]
    out: PathBuf,
    /// Lowest score of boxes that are refined; the others stay as they are.
    #[arg(long)]
    min_score: Option<f64>,
    /// Let refined boxes extend beyond the image, for datasets whose annotations do.
    #[arg(long)]
    no_clip: bool,
    /// Refine boxes of all categories. By default boxes of categories that the refiner was not trained on stay as they are.
    #[arg(long)]
    any_class: bool,
    /// Keep boxes that cannot be refined as they are, report them and continue. By default nothing is written then.
    #[arg(long)]
    keep_unrefined: bool,
    /// Add `edges_90`, intervals that hold each edge with probability 0.9, `effective_sample_size`,
    /// `reliable` and `calibrated`.
    #[arg(long)]
    density: bool,
    /// Change scores by f as the refiner's calibration says, and keep the detector's as `score_before`.
    #[arg(long)]
    rescore: bool,
    /// Number of samples for each density.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=100_000), requires = "density")]
    samples: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = 0, requires = "density")]
    seed: u64,
    /// Factor of the configured step lengths, instead of the one chosen in the refiner's training.
    #[arg(long)]
    step_factor: Option<f64>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Image file, with its width and height if annotations tell them.
struct File {
    path: PathBuf,
    size: Option<[usize; 2]>,
}

/// Files of the images and names of the categories, by id. Only annotations have names.
struct Dataset {
    files: BTreeMap<u64, File>,
    names: BTreeMap<u64, String>,
}

/// Treatment of an entry: image id and box, or the category's id.
enum Treatment {
    Refine(u64, LabelledBox),
    BelowMinScore,
    OtherCategory(u64),
}

pub fn run(args: &RefineArgs) -> Result<()> {
    let (step_factor, clip) = (args.step_factor, !args.no_clip);
    let (device, precision) = (args.device.open_to_refine()?, args.device.precision());
    let options = RefinerOptions { step_factor, clip, device, precision };
    let refiner = BoxRefiner::open_with(args.refiner.file()?, &options)?;
    if args.density {
        refiner.check_density().context("--density")?;
    }
    if args.rescore && refiner.calibration().is_none() {
        bail!(
            "--rescore: {} has no calibration; `ebm calibrate refiner` makes one from a detector's boxes on annotated images",
            args.refiner.given().display()
        );
    }
    if args.any_class && !refiner.config().network.is_class_agnostic() {
        bail!("--any-class: {} has an f for each of its classes alone", args.refiner.given().display());
    }
    let mut entries = read_entries(&args.results)?;
    let (dataset, total) = (args.beside_out(args.dataset()?)?, entries.len());
    // `images` holds each image's boxes with their indices in the file, `problems` the boxes that cannot be refined.
    let (mut images, mut problems, mut below_min_score) = (BTreeMap::<_, Vec<_>>::new(), Vec::new(), 0);
    let mut others = BTreeMap::<u64, usize>::new();
    for (index, entry) in entries.iter().enumerate() {
        match args.treatment(entry, &dataset, &refiner) {
            Ok(Treatment::Refine(id, given)) => images.entry(id).or_default().push((index, given)),
            Ok(Treatment::BelowMinScore) => below_min_score += 1,
            Ok(Treatment::OtherCategory(id)) => *others.entry(id).or_default() += 1,
            Err(problem) => problems.push((index, problem)),
        }
    }
    args.settle(&problems, total)?;
    let mut progress = Console::new();
    progress.begin("images", images.len());
    let (mut refined, known) = (0, problems.len());
    for (done, (id, mut boxes)) in (1..).zip(images) {
        let image = args.image(dataset.files.get(&id)).map_err(|reason| BoxProblem::Unreadable(id, reason));
        boxes.retain(|(index, given)| {
            let read = image.as_ref().map_err(BoxProblem::clone);
            let inside = read.and_then(|image| check_inside(given.bbox, [image.width, image.height]));
            inside.map_err(|problem| problems.push((*index, problem))).is_ok()
        });
        args.settle(&problems[known..], total)?;
        if let Ok(image) = image {
            args.refine_image(&refiner, id, &image, &boxes, &mut entries)?;
            refined += boxes.len();
        }
        progress.advance(done, "");
    }
    progress.end();
    args.report(&problems);
    write_entries(&args.out, &entries)?;
    if !others.is_empty() {
        eprintln!("{}", dataset.kept(&others, &refiner));
    }
    let (kept, others) = (problems.len(), others.values().sum::<usize>());
    eprintln!(
        "{refined} of {total} boxes refined, {below_min_score} below --min-score, {others} of other categories, {kept} kept as they are: see above"
    );
    println!("{}", args.out.display());
    Ok(())
}

impl Dataset {
    /// Returns a line about the boxes of other categories; `others` has their numbers.
    fn kept(&self, others: &BTreeMap<u64, usize>, refiner: &BoxRefiner) -> String {
        let category = |id: &u64| self.names.get(id).map_or(format!("id {id}"), |name| format!("{name:?}"));
        let others: Vec<String> =
            others.iter().map(|(id, count)| format!("{count} {}", category(id))).collect();
        let classes: Vec<String> =
            refiner.classes().iter().map(|class| format!("{:?} (id {})", class.name, class.id)).collect();
        let remedy =
            if refiner.config().network.is_class_agnostic() { "; --any-class refines them too" } else { "" };
        let (others, classes) = (others.join(", "), classes.join(", "));
        format!(
            "boxes of other categories stay as they are: {others}; the refiner was trained on {classes}{remedy}"
        )
    }
}

impl RefineArgs {
    /// Returns the images and the categories.
    fn dataset(&self) -> Result<Dataset> {
        let mut files = BTreeMap::new();
        let Some(annotations) = &self.annotations else {
            for path in images_in(&self.images)? {
                let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
                let Some(id) = number else { continue };
                let file = File { path: path.clone(), size: None };
                if let Some(File { path: other, .. }) = files.insert(id, file) {
                    bail!(
                        "{} and {} have the same number; give --annotations",
                        other.display(),
                        path.display()
                    );
                }
            }
            return Ok(Dataset { files, names: BTreeMap::new() });
        };
        let annotations = AnnotationFile::read(annotations)?;
        let name = |category: CategoryRecord| Some((category.id, category.name?));
        let names = annotations.categories.into_iter().filter_map(name).collect();
        for record in annotations.images {
            // Images without a whole record are unknown.
            if let (Ok(id), Ok(name), Ok(width), Ok(height)) =
                (record.id, record.file_name, record.width, record.height)
            {
                files.insert(id, File { path: self.images.join(name), size: Some([width, height]) });
            }
        }
        Ok(Dataset { files, names })
    }

    /// Returns the dataset if the output replaces no input.
    fn beside_out(&self, dataset: Dataset) -> Result<Dataset> {
        let refiner = self.refiner.file()?;
        let given = [&self.results, &refiner].into_iter().chain(&self.annotations);
        let images = dataset.files.values().map(|file| &file.path);
        check_out(&self.out, given.chain(images).map(PathBuf::as_path))?;
        Ok(dataset)
    }

    /// Returns the treatment of an entry.
    fn treatment(
        &self,
        entry: &ResultEntry,
        dataset: &Dataset,
        refiner: &BoxRefiner,
    ) -> Result<Treatment, BoxProblem> {
        let found = entry.detection()?;
        let (id, bbox, category) = (found.image_id, found.bbox, found.category_id);
        let file = dataset.files.get(&id).ok_or_else(|| match &self.annotations {
            Some(_) => BoxProblem::UnknownImage(id),
            None => {
                let reason = format!("no image in {} has this number", self.images.display());
                BoxProblem::Unreadable(id, reason)
            }
        })?;
        if let Some(size) = file.size {
            check_inside(bbox, size)?;
        }
        let known = || refiner.label_of(category, dataset.names.get(&category).map(String::as_str));
        let label = if self.any_class { refiner.label(category) } else { known() };
        Ok(match label {
            None => Treatment::OtherCategory(category),
            Some(_) if self.min_score.is_some_and(|least| found.score < least) => Treatment::BelowMinScore,
            Some(label) => Treatment::Refine(id, LabelledBox { bbox, label }),
        })
    }

    /// Returns an error if boxes have problems, unless `--keep-unrefined` keeps them as they are.
    fn settle(&self, problems: &[(usize, BoxProblem)], total: usize) -> Result<()> {
        let (Some((index, problem)), false) = (problems.first(), self.keep_unrefined) else { return Ok(()) };
        self.report(problems);
        let kind = std::mem::discriminant(problem);
        let count = problems.iter().filter(|(_, other)| std::mem::discriminant(other) == kind).count();
        let (origin, index, problem) = (self.results.display().to_string(), *index, problem.clone());
        Err(Error::Detection { origin, index, problem, count, total }.into())
    }

    /// Prints a line for each box with a problem.
    fn report(&self, problems: &[(usize, BoxProblem)]) {
        for (index, problem) in problems {
            eprintln!("{}, detection {index}: {problem}", self.results.display());
        }
    }

    /// Reads an image. The error is the reason as a text.
    fn image(&self, file: Option<&File>) -> Result<Image, String> {
        let file = file.ok_or("it has no file")?;
        let read = |path: &Path| if file.size.is_some() { read_image(path) } else { read_upright(path) };
        let image = read(&file.path).map_err(|error| error.to_string())?;
        match file.size {
            Some([width, height]) if [width, height] != [image.width, image.height] => Err(format!(
                "{} has {} x {} pixels, annotated {width} x {height}",
                file.path.display(),
                image.width,
                image.height
            )),
            _ => Ok(image),
        }
    }

    /// Refines the boxes of an image. Each box comes with its index in `entries`.
    fn refine_image(
        &self,
        refiner: &BoxRefiner,
        id: u64,
        image: &Image,
        boxes: &[(usize, LabelledBox)],
        entries: &mut [ResultEntry],
    ) -> Result<()> {
        let given: Vec<LabelledBox> = boxes.iter().map(|(_, given)| *given).collect();
        let refined = if self.density {
            let mut rng = Key::new(self.seed).split("density").index(id).rng();
            refiner.refine_with_density(image, &given, self.samples as usize, &mut rng)
        } else {
            refiner.refine(image, &given)
        };
        let refined = refined.with_context(|| format!("image id {id}"))?;
        for (&(index, _), refined) in boxes.iter().zip(&refined) {
            if let Some(calibration) = refiner.calibration().filter(|_| self.rescore) {
                let entry = &mut entries[index];
                let score = entry.detection().map(|found| found.score).unwrap_or_default();
                entry.set("score_before", json!(score));
                entry.set("score", json!(calibration.rescoring.score(score, refined.f.into())));
            }
            if let Err(error) = fill(&mut entries[index], refined) {
                let place = format!("{}, detection {index}", self.results.display());
                eprintln!("{place}: its edges have no intervals: {error}");
            }
        }
        Ok(())
    }
}

/// Returns an error if no part of the box lies in an image of this `[width, height]`, or one without extent in single
/// precision, in which boxes are refined.
fn check_inside(bbox: [f64; 4], size: [usize; 2]) -> Result<(), BoxProblem> {
    let [x, y, width, height] = bbox;
    let [columns, rows] = size.map(|side| side as f64);
    if x >= columns || y >= rows || x + width <= 0.0 || y + height <= 0.0 {
        return Err(BoxProblem::Outside(bbox, size));
    }
    // Single precision tells such a part's ends apart at any scale of the image.
    let is_wide = |start: f64, end: f64, side: f64| end.min(side) - start.max(0.0) > 1e-6 * side;
    if is_wide(x, x + width, columns) && is_wide(y, y + height, rows) {
        return Ok(());
    }
    Err(BoxProblem::Malformed("bbox", format!("{bbox:?}"), "wide and high enough for single precision"))
}

/// Writes the refined box into its entry, with the intervals of its edges if it has a density.
///
/// # Errors
/// If the density has no intervals.
fn fill(entry: &mut ResultEntry, refined: &RefinedBox) -> ebm_detect::Result<()> {
    entry.set("bbox", json!(refined.bbox));
    entry.set("bbox_before", json!(refined.before));
    entry.set("f", json!(refined.f));
    if let Some(density) = &refined.density {
        let regions = density.edge_intervals()?;
        entry.set("edges_90", intervals(&regions));
        entry.set("effective_sample_size", json!(density.effective_sample_size()));
        entry.set("reliable", json!(density.is_reliable()));
        entry.set("calibrated", json!(density.is_calibrated()));
    }
    Ok(())
}
