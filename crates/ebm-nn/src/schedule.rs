//! Learning rates as pure functions of the step, without a state to save or restore.

use serde::{Deserialize, Serialize};

/// Learning rate as a function of the step: `base · warm-up(step) · decay(step)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Learning rate between warm-up and decay.
    pub base: f64,
    /// Linear rise at the start, if any.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// Decay of the rate.
    #[serde(default)]
    pub decay: Decay,
}

/// Linear rise of the learning rate from `factor` to 1 over the first `steps` steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warmup {
    /// Number of steps below the full rate; the rate is `factor · base` at step 0.
    pub steps: u64,
    /// Fraction of the base rate at step 0.
    pub factor: f64,
}

/// Decay of the learning rate. Steps count from 0 and include the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decay {
    /// A constant rate.
    #[default]
    Constant,
    /// Multiplication by `gamma` at each of `milestones`, from that step on.
    MultiStep {
        /// Steps at which the rate falls, in any order.
        milestones: Vec<u64>,
        /// Factor of each fall.
        gamma: f64,
    },
    /// Multiplication by `gamma` every `every` steps.
    Step {
        /// Steps between two falls; 0 means never.
        every: u64,
        /// Factor of each fall.
        gamma: f64,
    },
    /// Half a cosine from 1 at step 0 to `floor` at `steps`, and `floor` afterwards.
    Cosine {
        /// Step at which the floor is reached.
        steps: u64,
        /// Final fraction of the base rate.
        #[serde(default)]
        floor: f64,
    },
}

impl Schedule {
    /// Returns a schedule with the rate `base` at every step.
    pub fn constant(base: f64) -> Self {
        Self { base, warmup: None, decay: Decay::Constant }
    }

    /// Returns the learning rate of the update numbered `step`, counted from 0.
    pub fn learning_rate(&self, step: u64) -> f64 {
        self.base * self.warmup.map_or(1., |w| w.scale(step)) * self.decay.scale(step)
    }
}

impl Warmup {
    fn scale(&self, step: u64) -> f64 {
        if step >= self.steps {
            return 1.;
        }
        let progress = step as f64 / self.steps as f64;
        self.factor * (1. - progress) + progress
    }
}

impl Decay {
    fn scale(&self, step: u64) -> f64 {
        match self {
            Self::Constant => 1.,
            Self::MultiStep { milestones, gamma } => {
                milestones.iter().filter(|m| **m <= step).fold(1., |scale, _| scale * gamma)
            }
            Self::Step { every, gamma } => gamma.powf(step.checked_div(*every).unwrap_or(0) as f64),
            Self::Cosine { steps, floor } => {
                if step >= *steps {
                    return *floor;
                }
                let progress = step as f64 / *steps as f64;
                floor + (1. - floor) * 0.5 * (1. + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.).abs() < 1e-5, "{found} is not {expected}");
    }

    #[test]
    fn the_detectors_schedule() {
        let schedule = Schedule {
            base: 1e-3,
            warmup: Some(Warmup { steps: 500, factor: 1. / 3. }),
            decay: Decay::MultiStep { milestones: vec![40_000, 50_000], gamma: 0.1 },
        };
        let expected = [
            (0, 3.3333e-4),
            (250, 6.6667e-4),
            (499, 9.98667e-4),
            (500, 1e-3),
            (39_999, 1e-3),
            (40_000, 1e-4),
            (50_000, 1e-5),
        ];
        for (step, rate) in expected {
            assert!((schedule.learning_rate(step) / rate - 1.).abs() < 2e-5, "step {step}");
        }
    }

    #[test]
    fn the_other_decays() {
        near(Schedule::constant(0.5).learning_rate(u64::MAX), 0.5);
        let step = Schedule { base: 1., warmup: None, decay: Decay::Step { every: 15, gamma: 0.2 } };
        for (at, rate) in [(0, 1.), (14, 1.), (15, 0.2), (30, 0.04)] {
            near(step.learning_rate(at), rate);
        }
        near(Schedule { decay: Decay::Step { every: 0, gamma: 0.2 }, ..step }.learning_rate(9), 1.);
        let cosine = Schedule { base: 2., warmup: None, decay: Decay::Cosine { steps: 100, floor: 0.1 } };
        for (at, rate) in [(0, 2.), (50, 1.1), (100, 0.2), (1000, 0.2)] {
            near(cosine.learning_rate(at), rate);
        }
    }

    #[test]
    fn warm_up_of_no_steps_is_none() {
        let schedule =
            Schedule { base: 1., warmup: Some(Warmup { steps: 0, factor: 0. }), decay: Decay::Constant };
        near(schedule.learning_rate(0), 1.);
    }
}
