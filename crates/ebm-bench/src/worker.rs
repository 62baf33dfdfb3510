//! Our process of a work; the protocol is that of `docs/benchmarks/peer.py`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use candle_core::Device;

use super::work::Work;
use super::works;
use crate::memory;

/// Serves `work` on `device` until the input ends; `pictures` is the folder of those that it reads, if it does.
///
/// # Errors
/// When the work fails, or at a request that is neither `run` nor `peak`.
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
    memory::forget_peak();
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
            "peak" => say(&memory::peak_mib().map_or_else(|| "unknown".to_owned(), |mib| mib.to_string()))?,
            other => bail!("unknown request {other:?}; `ebm bench` starts this command"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::Pictures;
    use crate::work;

    /// Every work runs, at its tiny size.
    #[test]
    fn all_works_answer() {
        for work in [false, true].into_iter().flat_map(|gpu| work::works(true, gpu)) {
            let mut answers = Vec::new();
            let pictures = Pictures::of(work.task).unwrap().map(|pictures| (pictures.folder(), pictures));
            let folder = pictures.as_ref().map(|(folder, _)| folder.as_path());
            serve(&work, &Device::Cpu, folder, &b"run\npeak\nrun\n"[..], &mut answers).unwrap();
            let answers = String::from_utf8(answers).unwrap();
            let lines: Vec<&str> = answers.lines().collect();
            let &[ready, first, _, second] = &lines[..] else { panic!("{}: {answers}", work.name) };
            assert_eq!(ready, "ready");
            assert!(
                [first, second].iter().all(|s| s.parse::<f64>().unwrap() > 0.0),
                "{}: {answers}",
                work.name
            );
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
