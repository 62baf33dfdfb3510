//! Kinds of cases whose inputs are damaged: files, settings, command lines.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::case::{Case, Fault};
use super::damage::{self, HOSTILE};
use super::program::{words, write};

/// What damaged data leave with, where they are not sound by chance.
const OF_DATA: [i32; 2] = [0, 3];
/// What a damaged setting leaves with: one may not fit the data, or lead to losses that are not finite.
const OF_SETTINGS: [i32; 4] = [0, 2, 3, 4];
/// What an absurd command line leaves with.
const OF_LINES: [i32; 4] = [0, 1, 2, 3];

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

impl Case<'_> {
    /// One of these files, damaged, under the extension that it had.
    fn damaged(&mut self, files: &[PathBuf]) -> Result<PathBuf> {
        let sound = self.random.pick(files).clone();
        let extension = sound.extension().unwrap_or_default().to_string_lossy().into_owned();
        let path = self.path(&format!("damaged.{extension}"));
        write(&path, &damage::bytes(&mut self.random, &read(&sound)?))?;
        Ok(path)
    }

    /// This JSON, damaged.
    fn damaged_json(&mut self, sound: &Value) -> Result<PathBuf> {
        let path = self.path("damaged.json");
        write(&path, &damage::json_text(&mut self.random, sound))?;
        Ok(path)
    }

    /// Notes what is in the case's folder beside these names, and what is outside of it.
    fn nothing_but(&mut self, names: &[&str]) -> Result<()> {
        let outer = self.dir.ancestors().nth(1).map(Path::to_owned);
        let outmost = self.dir.ancestors().nth(2).map(Path::to_owned);
        let allowed = [(Some(self.dir.clone()), names), (outer, &["b"]), (outmost, &["a"])];
        for (folder, names) in allowed {
            for entry in fs::read_dir(folder.unwrap_or_default()).context("the case's folder")? {
                let path = entry.context("the case's folder")?.path();
                if !names.iter().any(|name| path.file_name().is_some_and(|own| own == *name)) {
                    self.note(Fault::Lost, format!("{} was written", path.display()));
                }
            }
        }
        Ok(())
    }
}

/// An archive of somebody's: nothing lands outside of its folder, which is there whole or not at all.
pub fn archive(case: &mut Case<'_>) -> Result<()> {
    let archive = case.damaged(&case.base.archives)?;
    let mut program = case.ebm("data unpack {} t --max-files 500 --max-gib 1", &[&archive]);
    // Of an archive with several folders, `--top` is a matter of usage.
    let top = case.random.below(3) == 0;
    program.words.extend(top.then(|| "--top".into()));
    let outcome = case.run(&program, if top { &[0, 2, 3] } else { &OF_DATA })?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let allowed: &[&str] = if outcome.code == Some(0) { &["t", ".t.lock"] } else { &[".t.lock"] };
    case.nothing_but(&[&[name.as_str()], allowed].concat())
}

/// An image that is decoded, or looked for objects in.
pub fn image(case: &mut Case<'_>) -> Result<()> {
    let image = case.damaged(&case.base.images)?;
    let program = if case.number.is_multiple_of(3) {
        case.ebm("predict detection {} --detector {}", &[&image, &case.base.detector()])
    } else {
        case.ebm("data decode {} out.png", &[&image])
    };
    case.run(&program, &OF_DATA).map(drop)
}

/// Weights that are converted, or that something is predicted with.
pub fn weights(case: &mut Case<'_>) -> Result<()> {
    let images = case.base.scenes().join("images/000001.jpg");
    let detector = case.base.detector();
    let branch = case.base.dir.join("whole/ebm.safetensors");
    let program = match case.number % 5 {
        0 => {
            let damaged = case.damaged(&[detector])?;
            case.ebm("predict detection {} --detector {}", &[&images, &damaged])
        }
        1 => {
            let damaged = case.damaged(&[branch])?;
            case.ebm("predict detection {} --detector {} --head {}", &[&images, &detector, &damaged])
        }
        _ => {
            let damaged = case.damaged(&case.base.weights)?;
            case.ebm("weights convert {} out.safetensors", &[&damaged])
        }
    };
    case.run(&program, &OF_DATA).map(drop)
}

/// Poses and images in numpy's archives.
pub fn arrays(case: &mut Case<'_>) -> Result<()> {
    let damaged = case.damaged(&case.base.arrays)?;
    let program = case.ebm("data check biwi {}", &[&damaged]);
    case.run(&program, &OF_DATA).map(drop)
}

/// COCO annotations that are checked, scored against, or trained on.
pub fn annotations(case: &mut Case<'_>) -> Result<()> {
    let damaged = case.damaged_json(&case.base.annotations)?;
    let images = case.base.scenes().join("images");
    let results = case.base.dir.join("detections/direct.json");
    let program = match case.number % 3 {
        0 => case.ebm("data check coco {} --images {}", &[&damaged, &images]),
        1 => case.ebm("eval detection --annotations {} --results {} --errors", &[&damaged, &results]),
        _ => case.ebm(
            "train detector --steps 1 --batch-size 1 --annotations {} --images {} --max-bad-fraction 0.5 \
             --run run",
            &[&damaged, &images],
        ),
    };
    case.run(&program, &OF_DATA).map(drop)
}

/// A folder of one's own in the form of COCO, Pascal VOC or YOLO, one file of which is damaged.
pub fn folder(case: &mut Case<'_>) -> Result<()> {
    let image = read(&case.base.scenes().join("images/000001.jpg"))?;
    let voc = "<annotation>\n<filename>1.jpg</filename>\n<size><width>W</width><height>H</height></size>\n<object>\n\
               <name>disc</name>\n<bndbox><xmin>10</xmin><ymin>20</ymin><xmax>50</xmax><ymax>60</ymax></bndbox>\n\
               </object>\n</annotation>\n";
    let yaml = "path: .\ntrain: images\nnames:\n  0: disc\n  1: ring\n";
    let coco = r#"{"images": [{"id": 1, "file_name": "1.jpg", "width": W, "height": H}],
"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 40, 40], "area": 1600, "iscrowd": 0}],
"categories": [{"id": 1, "name": "disc"}]}"#;
    let (texts, image_at): (&[(&str, &str)], &str) = match case.number % 3 {
        0 => (&[("Annotations/1.xml", voc)], "JPEGImages/1.jpg"),
        1 => (
            &[("data.yaml", yaml), ("labels/1.txt", "0 0.5 0.5 0.2 0.3\n1 0.25 0.25 0.1 0.1\n")],
            "images/1.jpg",
        ),
        _ => (&[("annotations/train.json", coco)], "images/1.jpg"),
    };
    let sides = ["width", "height"].map(|side| case.base.annotations["images"][0][side].clone());
    let data = case.path("data");
    let spoilt = case.random.below(texts.len() + 1);
    for (i, (name, text)) in texts.iter().enumerate() {
        let text = text.replace("W<", &format!("{}<", sides[0])).replace("H<", &format!("{}<", sides[1]));
        let text = text.replace("W,", &format!("{},", sides[0])).replace("H}", &format!("{}}}", sides[1]));
        let bytes = if i == spoilt { damage::text(&mut case.random, &text) } else { text.into_bytes() };
        write(&data.join(name), &bytes)?;
    }
    let bytes = if spoilt == texts.len() { damage::bytes(&mut case.random, &image) } else { image };
    write(&data.join(image_at), &bytes)?;
    let program = case
        .ebm("train detector --data {} --steps 1 --batch-size 1 --max-bad-fraction 1 --run run", &[&data]);
    case.run(&program, &OF_DATA).map(drop)
}

/// Detections that are scored.
pub fn results(case: &mut Case<'_>) -> Result<()> {
    let damaged = case.damaged_json(&case.base.results)?;
    let annotations = case.base.scenes().join("annotations.json");
    let program =
        case.ebm("eval detection --annotations {} --results {} --per-class", &[&annotations, &damaged]);
    case.run(&program, &OF_DATA).map(drop)
}

/// Lists of boxes that are scored, of which one is damaged.
pub fn tracks(case: &mut Case<'_>) -> Result<()> {
    let boxes = |shift: usize| -> String {
        (0..20).map(|i| format!("{},{},30,40\n", 5 + i + shift, 7 + i)).collect()
    };
    let spoilt = case.random.below(4);
    for (i, name) in ["truth/a.txt", "truth/b.txt", "found/a.txt", "found/b.txt"].into_iter().enumerate() {
        let text = boxes(i);
        let bytes = if i == spoilt { damage::text(&mut case.random, &text) } else { text.into_bytes() };
        write(&case.path(name), &bytes)?;
    }
    let dataset = ["other", "otb100", "got10k", "trackingnet"][case.number % 4];
    let program = case.ebm("eval tracking --dataset {} --annotations truth --results found", &[&dataset]);
    case.run(&program, &OF_DATA).map(drop)
}

/// A file of settings, or one setting, for a training of one step.
pub fn settings(case: &mut Case<'_>) -> Result<()> {
    let mini = case.base.root.join("crates/ebm-detect/configs/mini.toml");
    let sound = String::from_utf8_lossy(&read(&mini)?).into_owned();
    let mut train = words("train detector --steps 1 --batch-size 1 --run run", &[]);
    if case.number.is_multiple_of(2) {
        write(&case.path("own.toml"), &damage::text(&mut case.random, &sound))?;
        train.extend(words("--config own.toml", &[]));
    } else {
        let known = [
            "detector.rpn.nms",
            "detector.roi.sample_size",
            "detector.input.mean",
            "training.steps",
            "x",
            "",
            "a.b.c",
        ];
        let set = format!("{}={}", case.random.pick(&known), case.random.pick(&HOSTILE));
        train.extend(words("--set {}", &[&set.replace('\0', "\u{1}")]));
    }
    let program = case.ebm_of([train, case.base.scenes_arguments()].concat());
    case.run(&program, &OF_SETTINGS).map(drop)
}

/// One of eight command lines that work.
fn sound_line(case: &mut Case<'_>) -> Vec<OsString> {
    let (base, scenes) = (case.base, case.base.scenes_arguments());
    let image = base.scenes().join("images/000001.jpg");
    let branch = base.dir.join("whole/ebm.safetensors");
    match case.random.below(8) {
        0 => words("data scenes --count 1 --seed 1 --difficulty easy --out s", &[]),
        1 => words("data decode {} out.png", &[&image]),
        2 => words(
            "predict detection {} --detector {} --head {} --out o",
            &[&image, &base.detector(), &branch],
        ),
        3 => [words("eval detection --detector {} --limit 1", &[&base.detector()]), scenes].concat(),
        4 => base.training(Path::new("run"), 1),
        5 => words("weights convert {} out.safetensors --half --json", &[&base.detector()]),
        6 => words("reproduce detection --smoke --scale mini --seeds 1 --set a.b=1", &[]),
        _ => words("eval tracking --dataset other --annotations a --results b --json", &[]),
    }
}

/// A sound command line, one word of which is another, gone, or there twice.
pub fn line(case: &mut Case<'_>) -> Result<()> {
    let mut line = sound_line(case);
    let at = case.random.below(line.len());
    match case.random.below(8) {
        0 => drop(line.remove(at)),
        1 => line.insert(at, line[at].clone()),
        2 => line[at] = OsString::from_vec(vec![b'a', 0xFF, 0xFE, b'/']),
        3 => line[at] = "x".repeat(100_000).into(),
        4 => line.push(
            ["--json", "--force", "--resume", "--help", "-h", "--", "-", "--unknown=1"][case.random.below(8)]
                .into(),
        ),
        // Who asks for a billion steps gets them.
        _ => {
            let small: Vec<&str> =
                HOSTILE.into_iter().filter(|word| !word.contains('\0') && word.len() < 10).collect();
            line[at] = case.random.pick(&small).into();
        }
    }
    let program = case.ebm_of(line);
    case.run(&program, &OF_LINES).map(drop)
}
