//! Shows a running training: its report as a page, and its curves for TensorBoard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use ebm_web::report::{Follower, Run, page, waiting};
use ebm_web::server::{Answer, Call, Refusal, Server, Site, html, json};

/// Arguments for watching a training.
#[derive(Args, Clone)]
pub struct WatchArgs {
    /// Serve the report of the run while it trains, as `ebm report` makes it. The address is printed. PORT is a port of
    /// 127.0.0.1, by default any free one.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    watch: Option<u16>,
    /// Also write the curves for TensorBoard, into the run's folder tensorboard.
    #[arg(long)]
    tensorboard: bool,
}

/// Smallest number of seconds between two reloads of the page. A page that takes longer to make is reloaded less often.
const RELOAD: u32 = 5;
/// Largest fraction of the time for making the page.
const SHARE: f64 = 0.05;
/// Time between two reads of the logs for TensorBoard.
const FOLLOW: Duration = Duration::from_secs(2);
/// Largest delay until the end of the training is noticed.
const NOTICE: Duration = Duration::from_millis(100);

/// Threads that watch a training and end with it.
pub struct Watch {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl WatchArgs {
    /// Starts to watch the run in this folder, which need not exist yet.
    pub fn begin(&self, run: &Path) -> Result<Watch> {
        let mut watch = Watch { over: Arc::default(), threads: Vec::new() };
        if let Some(port) = self.watch {
            let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy().into_owned();
            let server = Server::bind(port, Report { run: run.to_owned(), name })?;
            eprintln!("the report while it trains: {}", server.address());
            let over = watch.over.clone();
            watch.threads.push(spawn(move || server.run(&|| over.load(Ordering::Relaxed))));
        }
        if self.tensorboard {
            let (over, follower) = (watch.over.clone(), Follower::new(run));
            watch.threads.push(spawn(move || follow(follower, &over)));
        }
        Ok(watch)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message already.
            let _ = thread.join();
        }
    }
}

/// Writes new entries of the logs for TensorBoard until the training is over, and once after that.
fn follow(mut follower: Follower, over: &AtomicBool) {
    loop {
        let was_over = over.load(Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = follower.advance(now.as_secs_f64()) {
            eprintln!("nothing more is written for TensorBoard: {error}");
            return;
        }
        if was_over {
            return;
        }
        let start = Instant::now();
        while start.elapsed() < FOLLOW && !over.load(Ordering::Relaxed) {
            sleep(NOTICE);
        }
    }
}

/// Site with the report of a run, which is made for each request.
struct Report {
    run: PathBuf,
    name: String,
}

impl Site for Report {
    fn answer(&self, call: &Call) -> Option<Result<Answer, Refusal>> {
        match call.path.as_str() {
            _ if call.is_post => None,
            // The page requests this before it reloads.
            "alive" => Some(json(&true)),
            "" => Some(Ok(html(self.page()))),
            _ => None,
        }
    }
}

impl Report {
    fn page(&self) -> String {
        let start = Instant::now();
        match Run::read(&self.run, &self.name) {
            // Most of the time goes into reading.
            Ok(run) => page(&[run], Some(RELOAD.max((start.elapsed().as_secs_f64() / SHARE) as u32))),
            Err(_) => waiting(&self.name, RELOAD),
        }
    }
}
