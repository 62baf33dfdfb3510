//! The kinds of cases: those that have found something.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::case::Case;
use super::damage::{self, HOSTILE};
use super::program::{words, write};

/// Exit codes for damaged data, which may be sound by chance.
const OF_DATA: [i32; 2] = [0, 3];
/// Exit codes for a damaged setting, which may not fit the data, or lead to losses that are not finite.
const OF_SETTINGS: [i32; 4] = [0, 2, 3, 4];
/// Exit codes of a process with too little memory, or just enough.
const OF_MEMORY: [i32; 2] = [0, 6];

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
}

/// Weights that are converted, or that something is predicted with.
pub fn weights(case: &mut Case<'_>) -> Result<()> {
    let (image, detector) = (case.base.scene(), case.base.detector());
    let branch = case.base.dir.join("whole/ebm.safetensors");
    let program = match case.number % 5 {
        0 => {
            let damaged = case.damaged(&[detector])?;
            case.ebm("predict detection {} --detector {}", &[&image, &damaged])
        }
        1 => {
            let damaged = case.damaged(&[branch])?;
            case.ebm("predict detection {} --detector {} --head {}", &[&image, &detector, &damaged])
        }
        _ => {
            let damaged = case.damaged(&case.base.weights)?;
            case.ebm("weights convert {} out.safetensors", &[&damaged])
        }
    };
    case.run(&program, &OF_DATA).map(drop)
}

/// A safetensors file whose header is JSON of the length that it states, and says something else.
pub fn headers(case: &mut Case<'_>) -> Result<()> {
    let branch = case.base.dir.join("whole/ebm.safetensors");
    let whole = if case.number.is_multiple_of(2) { case.base.detector() } else { branch };
    let bytes = read(&whole)?;
    let (length, rest) = bytes.split_first_chunk::<8>().context("a header's length")?;
    let (header, tensors) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut said: Value = serde_json::from_slice(header).context("a header")?;
    // Half of the time what the file says of itself, else what it says of its tensors.
    let header = if case.random.below(2) == 0 {
        let name =
            ["config", "classes", "task", "method", "seed", "format_version", "base_digest", "step_factor"];
        let entry = &mut said["__metadata__"][*case.random.pick(&name)];
        let text = entry.as_str().unwrap_or_default().to_owned();
        *entry = json!(String::from_utf8_lossy(&damage::text(&mut case.random, &text)));
        said.to_string().into_bytes()
    } else {
        damage::json_text(&mut case.random, &said)
    };
    let damaged = case.path("damaged.safetensors");
    write(&damaged, &[&(header.len() as u64).to_le_bytes()[..], &header, tensors].concat())?;
    let (image, detector) = (case.base.scene(), case.base.detector());
    let program = match case.number % 4 {
        0 => case.ebm("predict detection {} --detector {}", &[&image, &damaged]),
        2 => case.ebm("weights convert {} out.safetensors", &[&damaged]),
        _ => case.ebm("predict detection {} --detector {} --head {}", &[&image, &detector, &damaged]),
    };
    case.run(&program, &OF_DATA).map(drop)
}

/// The checksum of a PNG's chunk.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// A PNG whose chunks have their checksums, and are others, more, or fewer.
pub fn chunks(case: &mut Case<'_>) -> Result<()> {
    let picture: &PathBuf = case.random.pick(&case.base.pictures);
    let bytes = read(picture)?;
    let (magic, mut rest) = bytes.split_at_checked(8).context("a picture's beginning")?;
    let mut chunks = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let end = 4 + u32::from_be_bytes(*length) as usize;
        chunks.push(after[..end].to_vec());
        rest = &after[end + 4..];
    }
    let at = case.random.below(chunks.len());
    match case.random.below(6) {
        0 => drop(chunks.remove(at)),
        1 => chunks.insert(at, chunks[at].clone()),
        2 => chunks.swap(0, at),
        3 => {
            let own = [b"gAMA", b"tRNS", b"PLTE", b"acTL", b"iCCP", b"tEXt"][case.random.below(6)];
            chunks.insert(at, damage::bytes(&mut case.random, &[&own[..], &[0; 40]].concat()));
        }
        _ => {
            let content = damage::bytes(&mut case.random, &chunks[at][4..]);
            chunks[at].splice(4.., content);
        }
    }
    let whole = chunks.iter().filter(|chunk| chunk.len() >= 4).map(|chunk| {
        [&((chunk.len() - 4) as u32).to_be_bytes()[..], chunk, &crc(chunk).to_be_bytes()].concat()
    });
    write(&case.path("a.png"), &[magic.to_vec(), whole.collect::<Vec<_>>().concat()].concat())?;
    let program = case.ebm("data decode a.png out.png", &[]);
    case.run(&program, &OF_DATA).map(drop)
}

/// Damages one file of a folder in the format of COCO, Pascal VOC or YOLO.
pub fn folder(case: &mut Case<'_>) -> Result<()> {
    let image = read(&case.base.scene())?;
    let voc = "<annotation>\n<filename>1.jpg</filename>\n<size><width>W</width><height>H</height></size>\n<object>\n\
               <name>disc</name>\n<bndbox><xmin>10</xmin><ymin>20</ymin><xmax>50</xmax><ymax>60</ymax></bndbox>\n\
               </object>\n</annotation>\n";
    let yaml = "path: .\ntrain: images\nnames:\n  0: disc\n  1: ring\n";
    let coco = r#"{"images": [{"id": 1, "file_name": "1.jpg", "width": W, "height": H}],
"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 40, 40], "area": 1600, "iscrowd": 0}],
"categories": [{"id": 1, "name": "disc"}]}"#;
    let boxes = "0 0.5 0.5 0.2 0.3\n1 0.25 0.25 0.1 0.1\n";
    let (texts, image_at): (&[(&str, &str)], &str) = match case.number % 3 {
        0 => (&[("Annotations/1.xml", voc)], "JPEGImages/1.jpg"),
        1 => (&[("data.yaml", yaml), ("labels/1.txt", boxes)], "images/1.jpg"),
        _ => (&[("annotations/train.json", coco)], "images/1.jpg"),
    };
    let annotations: Value = serde_json::from_slice(&read(&case.base.scenes().join("annotations.json"))?)?;
    let sides = ["width", "height"].map(|side| annotations["images"][0][side].to_string());
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

/// A file of settings, or one setting, for a training of one step.
pub fn settings(case: &mut Case<'_>) -> Result<()> {
    let mut train = words("train detector --steps 1 --batch-size 1 --run run", &[]);
    if case.number.is_multiple_of(2) {
        let mini = read(&case.base.root.join("crates/ebm-detect/configs/mini.toml"))?;
        let own = damage::text(&mut case.random, &String::from_utf8_lossy(&mini));
        write(&case.path("own.toml"), &own)?;
        train.extend(words("--config own.toml", &[]));
    } else {
        const KNOWN: [&str; 4] =
            ["detector.rpn.nms", "detector.roi.sample_size", "detector.input.mean", "training.steps"];
        let known = [&KNOWN[..], &["x", "", "a.b.c"]].concat();
        let set = format!("{}={}", case.random.pick(&known), case.random.pick(&HOSTILE));
        train.extend(words("--set {}", &[&set.replace('\0', "\u{1}")]));
    }
    let program = case.ebm_of([train, case.base.scenes_arguments()].concat());
    case.run(&program, &OF_SETTINGS).map(drop)
}

/// Less memory than is needed, or just enough; a training goes on to the bytes of one that had all.
pub fn memory(case: &mut Case<'_>) -> Result<()> {
    let (base, run) = (case.base, case.path("run"));
    let trains = case.number.is_multiple_of(2);
    let mut program = match trains {
        true => case.ebm_of(base.training(&run)),
        false => case.ebm("weights convert {} out.safetensors", &[&base.detector()]),
    };
    program.memory = (100 + case.random.below(500) as u64) << 20;
    case.run(&program, &OF_MEMORY)?;
    if trains {
        let mut program = case.ebm_of(base.training(&run));
        program.words.push("--resume".into());
        case.run(&program, &[0])?;
        case.must_hold(&run.join("ebm.safetensors"), &base.whole);
    }
    Ok(())
}
