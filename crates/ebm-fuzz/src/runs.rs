//! What a run's directory holds: logs and the state beside a checkpoint's tensors.

use std::path::Path;

use ebm_train::{load_checkpoint, read_metrics};
use sha2::{Digest, Sha256};

use crate::{Refusal, Target, alone, folder};

pub const TARGETS: &[Target] = &[
    Target {
        name: "metrics",
        file: "metrics.jsonl",
        seeds: || {
            let line = r#"{"step":0,"loss":1.5,"grad_norm":0.1,"skipped":false,"lr":0.01}"#;
            vec![format!("{line}\n{line}\n").into()]
        },
        prepare: alone,
        read: |path| Ok(read_metrics(path).map(drop)?),
    },
    Target { name: "state", file: "state.json", seeds: states, prepare: beside_state, read: read_state },
];

/// Above, no sums are made.
const MAX_HASHED: u64 = 1 << 20;
const TENSORS: [&str; 2] = ["model.safetensors", "optimizer.safetensors"];

fn states() -> Vec<Vec<u8>> {
    let state = r#"{"schema_version":1,"step":3,"seed":7,"config_digest":"d","metrics":{"loss":0.5},"metrics_len":12,"guard_hits":[3]}"#;
    vec![state.into()]
}

fn beside_state(dir: &Path) -> std::io::Result<()> {
    let tensors = include_bytes!("../../ebm-nn/tests/golden/legacy.safetensors");
    TENSORS.iter().try_for_each(|name| std::fs::write(dir.join(name), tensors))
}

/// With sums that are right: damage that they give away never gets to the parser.
fn read_state(path: &Path) -> Result<(), Refusal> {
    let dir = folder(path);
    if path.metadata()?.len() > MAX_HASHED {
        return Ok(load_checkpoint(dir).map(drop)?);
    }
    let mut sums = String::new();
    for name in [TENSORS[0], TENSORS[1], "state.json"] {
        let hash = Sha256::digest(std::fs::read(dir.join(name))?);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push_str(&format!("{hash}  {name}\n"));
    }
    std::fs::write(dir.join("SHA256SUMS"), sums)?;
    Ok(load_checkpoint(dir).map(drop)?)
}
