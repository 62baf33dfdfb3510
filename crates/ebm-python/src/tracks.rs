//! Trackers of one target.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ebm_detect::BUNDLED_REFINER;
use ebm_experiment::edges_of;
use ebm_track::box_module::BoxModule;
use ebm_track::localize::State;
use ebm_track::tracker::TargetTracker;
use ebm_track::{TrackerOptions, tracker};
use pyo3::prelude::*;

use crate::data::watched;
use crate::picture::{Picture, rect};

/// A tracker for any target.
#[pyclass(frozen)]
pub struct Tracker(ebm_track::Tracker);

/// A target that is followed. One thread at a time gives it a frame.
#[pyclass(frozen)]
pub struct Track(Mutex<TargetTracker<BoxModule>>);

/// The target in a frame.
#[derive(IntoPyObject)]
pub struct Tracked {
    r#box: [f64; 4],
    score: f64,
    state: &'static str,
    f: Option<f64>,
    /// Intervals of left, top, right and bottom that hold the edge with probability 0.9.
    edges: Option<[Vec<[f64; 2]>; 4]>,
    effective_sample_size: Option<f64>,
}

#[pymethods]
impl Tracker {
    /// Opens a tracker, by default the bundled one.
    #[new]
    fn new(py: Python<'_>, weights: Option<PathBuf>, backbone: Option<PathBuf>, seed: u64) -> PyResult<Self> {
        let options = TrackerOptions { backbone, seed };
        let own = || ebm_track::Tracker::bundled(BUNDLED_REFINER, &options);
        watched(py, |_| {
            Ok(Self(weights.map_or_else(own, |path| ebm_track::Tracker::open_with(path, &options))?))
        })
    }

    /// Starts with the target in a box. The random numbers are those of `ebm track` for frames of the name `video`.
    fn start(&self, py: Python<'_>, picture: Picture, bbox: [f64; 4]) -> PyResult<Track> {
        let ebm_track::Tracker { networks, saved, key } = &self.0;
        watched(py, |_| {
            let (image, key) = (picture.image()?, key.split("video"));
            let target = TargetTracker::start(networks, &saved.tracker, &image, rect(bbox), key)?;
            Ok(Track(Mutex::new(target)))
        })
    }
}

#[pymethods]
impl Track {
    /// Finds the target in the next frame. With a number of samples, its edges get intervals.
    fn update(&self, py: Python<'_>, picture: Picture, samples: Option<usize>) -> PyResult<Tracked> {
        watched(py, |_| {
            let image = picture.image()?;
            let mut target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let tracker::Tracked { bbox, score, f, state, .. } = target.track(&image)?;
            // If the target was not found, the density belongs to an earlier frame.
            let samples = samples.filter(|_| state != State::NotFound);
            let density = samples.map(|samples| target.density(samples)).transpose()?.flatten();
            let bands = density.as_ref().and_then(|density| density.bands().ok());
            Ok(Tracked {
                r#box: edges_of(bbox),
                score,
                state: match state {
                    State::Normal => "normal",
                    State::HardNegative => "hard_negative",
                    State::Uncertain => "uncertain",
                    State::NotFound => "not_found",
                },
                f,
                edges: bands.map(|bands| bands.map(|region| region.intervals)),
                effective_sample_size: density.map(|density| density.effective_sample_size()),
            })
        })
    }
}
