//! `ebm weights card`: what the Hugging Face Hub shows of a model, with results that machines read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_data::files::{read_settings, read_utf8, write_atomic};
use ebm_train::{ModelMetadata, read_metrics};
use serde_json::{Map, Value, json};

use super::weights::size_and_sha256;
use crate::schema::SCHEMA;

/// The largest file of results that is read, in bytes.
const MAX_RESULTS: u64 = 256 << 20;

/// Arguments of `ebm weights card`.
#[derive(Args)]
pub struct CardArgs {
    /// A trained model's folder below a run of `ebm reproduce`, such as runs/detection-mini-1/ebm-0, or a run
    /// of `ebm train`.
    run: PathBuf,
    /// The results, where they are not beside or above the model: what a command printed with --json.
    #[arg(long)]
    results: Option<PathBuf>,
    /// The model's name; the folder's by default.
    #[arg(long)]
    name: Option<String>,
    /// The licence that the weights are under, as the Hub abbreviates it.
    #[arg(long, default_value = "other")]
    licence: String,
    /// Where to write the card; README.md in the run by default, which is what the Hub shows.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Replace a card that is there.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &CardArgs) -> Result<()> {
    let run = &args.run;
    let weights = weights(run)?;
    if weights.is_empty() {
        bail!("{}: no .safetensors file is there; give the folder of one trained model", run.display());
    }
    let out = args.out.clone().unwrap_or_else(|| run.join("README.md"));
    if out.exists() && !args.force {
        bail!("{} is there already; give another place with --out, or --force to replace it", out.display());
    }
    let directory = std::path::absolute(run)?;
    let folder = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let results = match &args.results {
        Some(path) => path.clone(),
        None => [run.join("results.json"), run.join("../results.json")]
            .into_iter()
            .find(|path| path.is_file())
            .with_context(|| {
                format!(
                    "{}: no results.json is there or one folder up; keep what `ebm eval … --json` prints and name it with \
                     --results",
                    run.display()
                )
            })?,
    };
    let results = Results::read(&results, &folder)?;
    let card =
        Card { name: args.name.clone().unwrap_or(folder), licence: &args.licence, run, weights, results };
    write_atomic(&out, card.render()?.as_bytes())?;
    println!("{}", out.display());
    Ok(())
}

/// The weight files of a run with size and hash.
fn weights(run: &Path) -> Result<BTreeMap<String, (u64, String)>> {
    let list = std::fs::read_dir(run).with_context(|| format!("cannot read {}", run.display()))?;
    let mut found = BTreeMap::new();
    for entry in list {
        let path = entry.with_context(|| format!("cannot read {}", run.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            // A card says what the file is: one that is none gets no card.
            ModelMetadata::read(&path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, size_and_sha256(&path)?);
        }
    }
    Ok(found)
}

/// What was measured: the model's own rows of a reproduction's table, or the one object of an evaluation.
struct Results {
    /// The study and its scale, or the dataset.
    about: Vec<String>,
    rows: Vec<Map<String, Value>>,
}

impl Results {
    fn read(path: &Path, folder: &str) -> Result<Self> {
        let bytes = read_utf8(path, MAX_RESULTS)?;
        let object: Value =
            serde_json::from_slice(&bytes).with_context(|| format!("{}: not JSON", path.display()))?;
        if object.get("schema").and_then(Value::as_str) != Some(SCHEMA) {
            let detail = format!("its schema is not {SCHEMA}; see docs/json.md");
            let expected = "a document that `ebm` prints with --json";
            return Err(ebm_data::Error::Format { path: path.to_owned(), expected, detail }.into());
        }
        let about = ["study", "scale", "dataset"]
            .iter()
            .filter_map(|key| Some(object.get(key)?.as_str()?.to_owned()));
        let about = about.collect();
        let rows = object.get("rows").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let rows: Vec<Map<String, Value>> =
            rows.iter().filter_map(Value::as_object).filter(|row| is_of(row, folder)).cloned().collect();
        if rows.is_empty() {
            bail!("{}: no row is of {folder}; name the results of this model with --results", path.display());
        }
        Ok(Self { about, rows })
    }
}

/// Whether a row is of the model that a reproduction keeps in the folder `<method>-<seed>`; a row without a
/// seed is of the one model that was evaluated.
fn is_of(row: &Map<String, Value>, folder: &str) -> bool {
    let method = row.get("method").and_then(Value::as_str).unwrap_or_default();
    let seed = row.get("seed").and_then(Value::as_u64);
    seed.is_none_or(|seed| folder == format!("{method}-{seed}"))
}

/// The numbers of a row, and what tells it from others.
fn metrics(row: &Map<String, Value>) -> (Vec<(&str, f64)>, Vec<String>) {
    let numbers = row.iter().filter(|(key, _)| *key != "seed");
    let numbers = numbers.filter_map(|(key, value)| Some((key.as_str(), value.as_f64()?))).collect();
    let marks = row.iter().filter_map(|(key, value)| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(format!("{key}: {flag}")),
        _ => None,
    });
    (numbers, marks.collect())
}

struct Card<'a> {
    name: String,
    licence: &'a str,
    run: &'a Path,
    weights: BTreeMap<String, (u64, String)>,
    results: Results,
}

impl Card<'_> {
    /// The Hub's metadata between two rules, and Markdown. JSON is YAML, so that no text needs escaping by
    /// hand.
    fn render(&self) -> Result<String> {
        let settings = read_settings(&self.run.join("config.toml"))?;
        let log = read_metrics(&self.run.join("metrics.jsonl"))?;
        let (task, title) =
            task(&settings.parse().with_context(|| format!("{}/config.toml", self.run.display()))?);
        let dataset = json!({ "name": self.results.about.join(", "), "type": "other" });
        let result = |row: &Map<String, Value>| {
            let (numbers, marks) = metrics(row);
            let named = |&(key, value): &(&str, f64)| json!({ "type": key, "value": value, "name": name_of(key, &marks) });
            let metrics: Vec<Value> = numbers.iter().map(named).collect();
            json!({ "task": { "type": task, "name": title }, "dataset": dataset, "metrics": metrics })
        };
        let results: Vec<Value> = self.results.rows.iter().map(result).collect();
        let index = json!([{ "name": self.name, "results": results }]);
        let tags = json!(["energy-based-model", "regression", "uncertainty", "candle"]);
        let mut card = String::new();
        writeln!(card, "---\nlicense: {}\nlibrary_name: candle", json!(self.licence))?;
        // The Hub knows no others.
        if task == "object-detection" {
            writeln!(card, "pipeline_tag: {task}")?;
        }
        writeln!(card, "tags: {tags}\nmodel-index: {index}\n---\n\n# {}\n", self.name)?;
        writeln!(
            card,
            "{title}: one of the methods compared in Gustafsson, Danelljan, Bhat, Schön, *Energy-Based Models for Deep"
        )?;
        writeln!(card, "Probabilistic Regression*, ECCV 2020.")?;
        let method = |row: &Map<String, Value>| Some(row.get("method")?.as_str()?.starts_with("ebm"));
        if self.results.rows.iter().filter_map(method).any(|is_ebm| is_ebm) {
            writeln!(
                card,
                "The network scores a pair f(x, y); p(y|x) = exp f(x, y) / Z(x), and a prediction climbs f in y."
            )?;
        }
        writeln!(card, "\n## Results\n")?;
        if !self.results.about.is_empty() {
            writeln!(card, "{}\n", self.results.about.join(", "))?;
        }
        writeln!(card, "| | | |\n|---|---|--:|")?;
        for row in &self.results.rows {
            let (numbers, marks) = metrics(row);
            for (key, value) in numbers {
                writeln!(card, "| {} | {key} | {value:.4} |", marks.join(", "))?;
            }
        }
        writeln!(card, "\n## Files\n\n| file | bytes | SHA-256 |\n|---|--:|---|")?;
        for (name, (bytes, sha256)) in &self.weights {
            writeln!(card, "| {name} | {bytes} | `{sha256}` |")?;
        }
        writeln!(card, "\n## Training\n")?;
        if let Some(last) = log.last() {
            let loss = last.loss.map_or("not finite".to_owned(), |loss| format!("{loss:.4}"));
            writeln!(card, "{} steps; the last loss is {loss}.\n", last.step + 1)?;
        }
        writeln!(card, "```toml\n{}\n```", settings.trim_end())?;
        Ok(card)
    }
}

fn name_of(key: &str, marks: &[String]) -> String {
    if marks.is_empty() { key.to_owned() } else { format!("{key} ({})", marks.join(", ")) }
}

/// The Hub's name of the task, and ours, by what the settings are about.
fn task(settings: &toml::Table) -> (&'static str, String) {
    let title = settings.get("experiment").and_then(|experiment| experiment.get("title")?.as_str());
    match title {
        Some(title) => ("image-regression", format!("Regression of {title} from images")),
        None if settings.contains_key("detector") => ("object-detection", "Object detection".into()),
        None => ("visual-tracking", "Visual tracking".into()),
    }
}
