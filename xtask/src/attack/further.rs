//! Kinds of cases that were written after the others had been mended: inputs that are whole by every checksum
//! and length and wrong in what they say, folders of other datasets, and the environment.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::base::copy;
use super::case::Case;
use super::damage::{self, HOSTILE};
use super::program::write;

const OF_DATA: [i32; 2] = [0, 3];

/// A safetensors file whose header is JSON of the length that it states, and says something else.
pub fn headers(case: &mut Case<'_>) -> Result<()> {
    let branch = case.base.dir.join("whole/ebm.safetensors");
    let sound = if case.number.is_multiple_of(2) { case.base.detector() } else { branch };
    let bytes = fs::read(&sound).context("a model")?;
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
    let (image, detector) = (case.base.scenes().join("images/000001.jpg"), case.base.detector());
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
    let pngs: Vec<_> =
        case.base.images.iter().filter(|path| path.extension().is_some_and(|own| own == "png")).collect();
    let bytes = fs::read(case.random.pick(&pngs)).context("a picture")?;
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

/// Variables of the environment that say nothing of sense.
pub fn variables(case: &mut Case<'_>) -> Result<()> {
    const NAMES: [&str; 14] = [
        "RAYON_NUM_THREADS",
        "HOME",
        "TMPDIR",
        "HF_HOME",
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
        "LANG",
        "COLUMNS",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_PORT",
        "MPI_HOME",
    ];
    let base = case.base;
    let mut program = match case.number % 3 {
        0 => case.ebm_of(base.training(Path::new("run"), 1)),
        1 => case.ebm("doctor --json", &[]),
        _ => case.ebm("data get hub-resnet50 --offline --weights w --datasets d", &[]),
    };
    for _ in 0..=case.random.below(2) {
        let value = case.random.pick(&HOSTILE).replace('\0', "\n");
        program.variables.push((*case.random.pick::<&str>(&NAMES), Some(OsString::from(value))));
    }
    // Without the weights that are asked for, 3.
    case.run(&program, &[0, 1, 2, 3]).map(drop)
}

/// The card of a model with damaged results, settings or log.
pub fn cards(case: &mut Case<'_>) -> Result<()> {
    let run = case.path("run");
    copy(&case.base.dir.join("whole"), &run)?;
    let row = json!({"method": "ebm", "ap": 0.5, "refined": true});
    let results = json!({"schema": "ebm/1", "scale": "mini", "study": "Table 2", "rows": [row]});
    write(&run.join("results.json"), results.to_string().as_bytes())?;
    let name = *case.random.pick(&["results.json", "config.toml", "metrics.jsonl", "ebm.safetensors"]);
    let sound = fs::read(run.join(name)).context("a file of the run")?;
    let damaged = match name {
        "results.json" => damage::json_text(&mut case.random, &results),
        "ebm.safetensors" => damage::bytes(&mut case.random, &sound),
        _ => damage::text(&mut case.random, &String::from_utf8_lossy(&sound)),
    };
    write(&run.join(name), &damaged)?;
    let program = case.ebm("weights card {} --licence mit", &[&run]);
    case.run(&program, &OF_DATA).map(drop)
}

/// A folder of sequences, one file of which is damaged.
pub fn sequences(case: &mut Case<'_>) -> Result<()> {
    let frame = fs::read(case.base.scenes().join("images/000001.jpg")).context("a frame")?;
    let boxes: String = (0..5).map(|i| format!("{},{},30,40\n", 5 + i, 7 + i)).collect();
    let (dataset, truth, more) = match case.number % 3 {
        0 => ("otb", "groundtruth_rect.txt", "img/"),
        1 => ("got10k-val", "groundtruth.txt", ""),
        _ => ("lasot", "groundtruth.txt", "img/"),
    };
    let folder = case
        .path("data")
        .join(["Basketball", "val/GOT-10k_Val_000001", "airplane/airplane-1"][case.number % 3]);
    let spoilt = case.random.below(7);
    for i in 1..6 {
        let bytes = if i == spoilt { damage::bytes(&mut case.random, &frame) } else { frame.clone() };
        let name = if dataset == "otb" { format!("{i:04}.jpg") } else { format!("{i:08}.jpg") };
        write(&folder.join(more).join(name), &bytes)?;
    }
    let bytes = if spoilt >= 5 { damage::text(&mut case.random, &boxes) } else { boxes.into_bytes() };
    write(&folder.join(truth), &bytes)?;
    let program = case.ebm("data check sequences {} data", &[&dataset]);
    case.run(&program, &OF_DATA).map(drop)
}

/// Faces whose names tell ages, or do not.
pub fn faces(case: &mut Case<'_>) -> Result<()> {
    let image = fs::read(case.base.scenes().join("images/000001.jpg")).context("a face")?;
    for i in 0..3 {
        let sound = format!("{}_0_2_2017010{i}.jpg.chip.jpg", 20 + i);
        let word = case.random.pick(&HOSTILE).replace(['\0', '/'], "");
        let name = match case.random.below(3) {
            0 => sound.replacen('_', &format!("_{word}_"), 1),
            1 => format!("{word}{sound}"),
            _ => sound,
        };
        let bytes = if i == 0 { damage::bytes(&mut case.random, &image) } else { image.clone() };
        write(&case.path("faces").join(name), &bytes)?;
    }
    let program = case.ebm("data check utkface faces", &[]);
    case.run(&program, &OF_DATA).map(drop)
}

/// Points of a user's own that a curve is fitted to.
pub fn points(case: &mut Case<'_>) -> Result<()> {
    let points: String = (0..60)
        .map(|i| format!("{:.2},{:.2}\n", f64::from(i) / 20.0 - 1.5, f64::from(i % 7) / 4.0))
        .collect();
    write(&case.path("p.csv"), &damage::text(&mut case.random, &format!("x,y\n{points}")))?;
    let program =
        case.ebm("reproduce toy --smoke --data p.csv --methods ML-IS --seeds 1 --threads 1 --out runs", &[]);
    case.run(&program, &OF_DATA).map(drop)
}
