//! Our process of a work, with the same protocol as `peer.py`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use candle_core::Device;

use super::work::Work;
use super::works;

/// Serves `work` on `device` until the input ends. `pictures` is the folder of pictures for a work that reads some.
///
/// # Errors
/// If the work fails, or a request is not `run`.
pub fn serve(
    work: &Work,
    device: &Device,
    pictures: Option<&Path>,
    requests: impl BufRead,
    mut answers: impl Write,
) -> Result<()> {
    let mut run = works::prepare(work.task, device, pictures)?;
    drop(run()?);
    device.synchronize()?;
    let mut say = |answer: &str| {
        writeln!(answers, "{answer}")?;
        answers.flush()
    };
    say("ready")?;
    for request in requests.lines() {
        match request?.as_str() {
            "run" => {
                let start = Instant::now();
                let result = run()?;
                device.synchronize()?;
                let elapsed = start.elapsed();
                drop(result);
                say(&elapsed.as_secs_f64().to_string())?;
            }
            other => bail!("unknown request {other:?}; `bench/compare.py` starts this command"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pictures, work};

    /// Every work runs, at its tiny size.
    #[test]
    fn all_works_answer() {
        let mut works = work::works(true, false);
        // In small a work of both lists is the same one.
        let on_gpu =
            work::works(true, true).into_iter().filter(|work| works.iter().all(|w| w.name != work.name));
        works.extend(on_gpu.collect::<Vec<_>>());
        for work in works {
            let mut answers = Vec::new();
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path().join("scenes");
            pictures::write(work.task, &folder).unwrap();
            serve(&work, &Device::Cpu, Some(&folder), &b"run\nrun\n"[..], &mut answers).unwrap();
            let answers = String::from_utf8(answers).unwrap();
            let lines: Vec<&str> = answers.lines().collect();
            assert_eq!((lines.len(), lines[0]), (3, "ready"), "{}: {answers}", work.name);
            assert!(lines[1..].iter().all(|s| s.parse::<f64>().unwrap() > 0.0), "{}: {answers}", work.name);
        }
    }

    #[test]
    fn an_unknown_request_is_refused() {
        let works = work::works(true, true);
        let work = works.iter().find(|work| work.name == "conv-forward").unwrap();
        assert!(
            serve(work, &Device::Cpu, None, &b"walk\n"[..], Vec::new())
                .unwrap_err()
                .to_string()
                .contains("\"walk\"")
        );
    }
}
