//! Ordinal regression: one binary question per rank.

use candle_core::Tensor;
use ebm_base::settings::Setting;
use serde::{Deserialize, Serialize};

use super::Bins;
use super::{OUTPUTS, Parametric, batch, count, targets};
use crate::loss::binary_cross_entropy_with_logits;
use crate::math::log_sigmoid;
use crate::{Error, Result, check, host};

/// Form of the network's answers to the K − 1 questions "is y above rank k?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrdinalHead {
    /// Two logits per question, "no" and then "yes", P = 2 (K − 1) (Niu et al., 2016). The answers may be
    /// inconsistent, so they define no density.
    Niu,
    /// One logit per question, P = K − 1 (CORAL; Cao et al., 2019). Each logit is the sum of a common score and a
    /// bias ([`coral_logits`]). If the biases descend, as they do at the optimum, the answers are consistent, and
    /// the differences of their probabilities are a density.
    Coral,
}

impl Setting for OrdinalHead {}

/// Ordinal regression of a single coordinate over the ranks `r_0 < … < r_{K−1}` (Niu et al. and Cao et al., Table
/// 4).
///
/// The target belongs to the nearest rank. The loss is the sum of the binary cross-entropies of the K − 1
/// questions, all with the weight 1. The prediction is the rank `r_n`, where n is the number of "yes" answers
/// with a probability above ½. The mean is `r_0 + Σ_k s_k (r_{k+1} − r_k)` with the probabilities `s_k` of "yes".
#[derive(Clone, Debug, PartialEq)]
pub struct Ordinal {
    pub(super) ranks: Bins,
    head: OrdinalHead,
}

impl Ordinal {
    /// Creates an ordinal regression over the centres of `ranks`.
    pub fn new(ranks: Bins, head: OrdinalHead) -> Self {
        Self { ranks, head }
    }

    /// Returns the form of the answers.
    pub fn head(&self) -> OrdinalHead {
        self.head
    }

    /// Returns the logit of each question's frequency of "yes" among `targets`, with half an answer added to both
    /// counts. These are the best answers without knowledge of x.
    pub fn log_odds(&self, targets: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let mut above = vec![0usize; self.num_questions()];
        let mut count = 0;
        for y in targets {
            count += 1;
            above[..self.ranks.nearest(y)].iter_mut().for_each(|above| *above += 1);
        }
        above.into_iter().map(|above| ((above as f64 + 0.5) / ((count - above) as f64 + 0.5)).ln()).collect()
    }

    /// Returns K − 1.
    fn num_questions(&self) -> usize {
        self.ranks.len() - 1
    }

    /// Returns the logit of "yes" against "no" for each question, `(B, K − 1)`.
    fn logits(&self, outputs: &Tensor) -> Result<Tensor> {
        let batch = batch(self, outputs)?;
        match self.head {
            OrdinalHead::Coral => Ok(outputs.clone()),
            OrdinalHead::Niu => {
                let pairs = outputs.reshape((batch, self.num_questions(), 2))?;
                Ok((pairs.narrow(2, 1, 1)? - pairs.narrow(2, 0, 1)?)?.squeeze(2)?)
            }
        }
    }

    /// Returns the log-probabilities of the ranks, `(B, 1, K)`.
    fn log_probabilities(&self, outputs: &Tensor) -> Result<Tensor> {
        let logits = self.logits(outputs)?;
        let questions = self.num_questions();
        for (row, values) in host::values(&logits)?.chunks_exact(questions).enumerate() {
            let ascent = values.windows(2).position(|pair| pair[1] > pair[0]);
            if let Some(at) = ascent {
                let (lower, upper) = (values[at], values[at + 1]);
                return Err(Error::InconsistentRanks(row, at + 1, lower, upper));
            }
        }
        let (yes, no) = (log_sigmoid(&logits)?, log_sigmoid(&logits.neg()?)?);
        let mut parts = vec![no.narrow(1, 0, 1)?];
        if questions > 1 {
            // s(a) − s(b) = s(a) s(−b) (1 − exp(b − a)), and 1 − exp(−d) = 2 t / (1 + t) with t = tanh(d/2),
            // which loses no digits where d is small.
            let d = (logits.narrow(1, 0, questions - 1)? - logits.narrow(1, 1, questions - 1)?)?;
            let t = (d * 0.5)?.tanh()?;
            let log_share = ((t.log()? - (t + 1.0)?.log()?)? + std::f64::consts::LN_2)?;
            parts.push(((yes.narrow(1, 0, questions - 1)? + no.narrow(1, 1, questions - 1)?)? + log_share)?);
        }
        parts.push(yes.narrow(1, questions - 1, 1)?);
        Ok(Tensor::cat(&parts, 1)?.unsqueeze(1)?)
    }
}

impl Parametric for Ordinal {
    fn dim(&self) -> usize {
        1
    }

    fn num_outputs(&self) -> usize {
        match self.head {
            OrdinalHead::Niu => 2 * self.num_questions(),
            OrdinalHead::Coral => self.num_questions(),
        }
    }

    fn loss(&self, outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y = host::values(&targets(self, outputs, y)?)?;
        let logits = self.logits(outputs)?;
        let questions = self.num_questions();
        let answers = y.iter().flat_map(|&y| {
            let rank = self.ranks.nearest(y);
            (0..questions).map(move |k| f64::from(u8::from(rank > k)))
        });
        let answers = host::tensor(answers.collect(), logits.dims(), &logits)?;
        Ok((binary_cross_entropy_with_logits(&logits, &answers)? * questions as f64)?)
    }

    fn mean(&self, outputs: &Tensor) -> Result<Tensor> {
        let probabilities = log_sigmoid(&self.logits(outputs)?)?.exp()?;
        let ranks = self.ranks.centers();
        let gaps = ranks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let gaps = host::tensor(gaps, self.num_questions(), &probabilities)?;
        Ok((probabilities.broadcast_mul(&gaps)?.sum_keepdim(1)? + ranks[0])?)
    }

    fn predict(&self, outputs: &Tensor) -> Result<Tensor> {
        let logits = self.logits(outputs)?;
        check::finite(OUTPUTS, outputs)?;
        let ranks = self.ranks.centers();
        let predictions: Vec<f64> = host::values(&logits)?
            .chunks_exact(self.num_questions())
            .map(|row| ranks[row.iter().filter(|logit| **logit > 0.0).count()])
            .collect();
        let batch = predictions.len();
        host::tensor(predictions, (batch, 1), outputs)
    }

    fn log_prob(&self, outputs: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        count(self, outputs, y)?;
        match self.head {
            OrdinalHead::Niu => Ok(None),
            OrdinalHead::Coral => Ok(Some(self.ranks.log_density(&self.log_probabilities(outputs)?, y)?)),
        }
    }
}

/// Returns the logits `g(x) + b_k`, `(B, K − 1)`, of CORAL's last layer. All questions share the scores `g`,
/// `(B, 1)`, and have the `biases`, `(K − 1,)`. Cao et al. initialise the biases with 0.
///
/// # Errors
/// [`Error::Empty`] and [`Error::Shape`].
pub fn coral_logits(scores: &Tensor, biases: &Tensor) -> Result<Tensor> {
    let (batch, _) = check::dims2("the scores", scores)?;
    check::dims("the scores", scores, "(B, 1)", &[batch, 1])?;
    if biases.rank() != 1 {
        return Err(check::shape("the biases", biases, "one dimension (K − 1,)".to_owned()));
    }
    Ok(scores.broadcast_add(biases)?)
}
