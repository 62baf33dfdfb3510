//! How often an address is tried, and how long is waited in between.

use std::time::Duration;

use rand::Rng as _;

use super::download::FetchOptions;
use super::error::{Error, Result};
use super::{Event, Report};

/// Counts the attempts at an address.
pub(super) struct Patience<'a> {
    options: &'a FetchOptions,
    rng: ebm_seed::Rng,
    /// In a row, without progress.
    failures: u32,
}

impl<'a> Patience<'a> {
    /// All of it.
    pub fn new(url: &str, options: &'a FetchOptions) -> Self {
        Self { options, rng: options.key.split("backoff").split(url).rng(), failures: 0 }
    }

    /// There was progress: failures count from here.
    pub fn renew(&mut self) {
        self.failures = 0;
    }

    /// Waits after a failed attempt, or gives up.
    pub fn wait(&mut self, error: Error, asked: Option<Duration>, report: Report<'_>) -> Result<()> {
        let FetchOptions { attempts, backoff, longest_wait, .. } = *self.options;
        self.failures += 1;
        if self.failures >= attempts {
            return Err(Error::GaveUp { attempts: self.failures, last: Box::new(error) });
        }
        let doubled = backoff.saturating_mul(1 << (self.failures - 1).min(16));
        let jittered = doubled.min(longest_wait).mul_f64(self.rng.random_range(0.5..1.5));
        let wait = jittered.max(asked.unwrap_or_default()).min(longest_wait);
        report(Event::Retry { error: &error, wait });
        std::thread::sleep(wait);
        Ok(())
    }
}
