//! Sampling of pairs of frames for the training of trackers.

use ebm_base::Key;
use rand::RngCore;

use super::Sequence;
use crate::draw::{below, unit};
use crate::error::{Error, Result};

/// A usable video has more than this number of frames with a visible target.
const MIN_VISIBLE: usize = 4;
/// Smallest number of frames of a usable video.
const MIN_FRAMES: usize = 20;
/// Number of frames by which the largest distance grows if it contains no frame.
const GAP_STEP: usize = 5;

/// Sequences for training, with their weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Videos, or images as sequences of one frame.
    pub sequences: Vec<Sequence>,
    /// Relative frequency of pairs from this source; not negative.
    pub weight: f64,
}

/// Settings of the sampling of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSampling {
    /// Number of pairs in an epoch.
    pub pairs_per_epoch: usize,
    /// Largest distance of the two frames, in frames, unless no frame is so close.
    pub max_gap: usize,
}

impl PairSampling {
    /// Settings of the paper's tracker, and of ATOM trained in the same way for comparison: 64 000 pairs, at most
    /// 200 frames apart.
    pub const PAPER: Self = Self { pairs_per_epoch: 64_000, max_gap: 200 };
}

/// Two frames of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index of the source.
    pub source: usize,
    /// Index in [`Source::sequences`].
    pub sequence: usize,
    /// Frame that shows the target.
    pub reference: usize,
    /// Frame in which the target is to be found; equal to `reference` in a sequence of one frame.
    pub test: usize,
}

/// Sampler of pairs of frames as in ATOM's training.
///
/// It draws the source in proportion to the weights, then a sequence of the source uniformly. The reference frame
/// is drawn uniformly from the frames with a visible target ([`Sequence::is_valid`]). The test frame is drawn
/// uniformly from the other such frames at most [`PairSampling::max_gap`] frames before or after; the distance
/// grows by 5 until there is one. In a sequence of one frame both frames are the same.
///
/// Videos with less than 20 frames, or with at most 4 frames with a visible target, are never drawn. Images with
/// an empty box are not drawn either.
#[derive(Debug)]
pub struct PairSampler {
    sources: Vec<Source>,
    /// Usable sequences of each source.
    usable: Vec<Vec<u32>>,
    pub(super) sampling: PairSampling,
}

impl PairSampler {
    /// Makes a sampler of `sources`.
    ///
    /// # Errors
    /// [`Error::Argument`] for a weight that is negative or not finite, weights that are all 0, a source of
    /// positive weight without a usable sequence, or no pair in an epoch.
    pub fn new(sources: Vec<Source>, sampling: PairSampling) -> Result<Self> {
        let fail = |name, detail| Err(Error::Argument { name, detail });
        if sampling.pairs_per_epoch == 0 {
            return fail("pairs_per_epoch", "must be at least 1".to_owned());
        }
        let total: f64 = sources.iter().map(|source| source.weight).sum();
        if sources.iter().any(|source| source.weight < 0.) || total <= 0. || !total.is_finite() {
            let detail = "weights must be finite and not negative, and one of them positive";
            return fail("weight", detail.to_owned());
        }
        let usable = |source: &Source| {
            let places = (0..).zip(&source.sequences).filter(|(_, sequence)| is_usable(sequence));
            places.map(|(place, _)| place).collect::<Vec<u32>>()
        };
        let usable: Vec<_> = sources.iter().map(usable).collect();
        let empty = |(source, usable): &(&Source, &Vec<u32>)| source.weight > 0. && usable.is_empty();
        if let Some(place) = sources.iter().zip(&usable).position(|pair| empty(&pair)) {
            let count = sources[place].sequences.len();
            let detail = format!(
                "none of the {count} sequences of source {place} has {MIN_FRAMES} frames of which more than \
                 {MIN_VISIBLE} show the target"
            );
            return fail("sources", detail);
        }
        Ok(Self { sources, usable, sampling })
    }

    /// Returns the sequence of a pair that this sampler drew.
    ///
    /// # Panics
    /// If the pair is from another sampler and the sequence does not exist.
    pub fn sequence(&self, pair: &Pair) -> &Sequence {
        &self.sources[pair.source].sequences[pair.sequence]
    }

    /// Draws a pair. The result is a pure function of `key` and of the sampler's settings.
    pub fn draw(&self, key: Key) -> Pair {
        self.draw_view(key, 0)
    }

    /// Draws pair number `view` of the sequence that `key` selects; number 0 equals [`draw`](Self::draw).
    pub fn draw_view(&self, key: Key, view: usize) -> Pair {
        let mut rng = key.rng();
        let source = self.draw_source(&mut rng);
        let usable = &self.usable[source];
        let sequence = usable[below(usable.len(), &mut rng)] as usize;
        if view > 0 {
            rng = key.split("view").index(view as u64).rng();
        }
        let (reference, test) = self.draw_frames(&self.sources[source].sequences[sequence], &mut rng);
        Pair { source, sequence, reference, test }
    }

    fn draw_source(&self, rng: &mut dyn RngCore) -> usize {
        let total: f64 = self.sources.iter().map(|source| source.weight).sum();
        let mut left = unit(rng) * total;
        let mut last = 0;
        for (place, Source { weight, .. }) in self.sources.iter().enumerate() {
            if *weight > 0. {
                last = place;
                if left < *weight {
                    break;
                }
            }
            left -= weight;
        }
        last
    }

    fn draw_frames(&self, sequence: &Sequence, rng: &mut dyn RngCore) -> (usize, usize) {
        let count = sequence.frames.len();
        if count == 1 {
            return (0, 0);
        }
        let visible: Vec<usize> = (0..count).filter(|&i| sequence.is_valid(i)).collect();
        let place = below(visible.len(), rng);
        let reference = visible[place];
        // Each neighbour is at least as far away as its place among the visible frames, so the nearer of the two
        // neighbours decides.
        let nearest = [place.checked_sub(1), Some(place + 1)].into_iter().flatten();
        let nearest = nearest.filter_map(|place| visible.get(place)).map(|&i| i.abs_diff(reference)).min();
        let beyond = nearest.unwrap_or(0).saturating_sub(self.sampling.max_gap);
        let gap = self.sampling.max_gap.saturating_add(beyond.div_ceil(GAP_STEP) * GAP_STEP);
        let start = visible.partition_point(|&i| i.saturating_add(gap) < reference);
        let end = visible.partition_point(|&i| i <= reference.saturating_add(gap));
        // One of the visible frames in the range is the reference itself.
        let drawn = start + below(end - start - 1, rng);
        (reference, visible[if drawn < place { drawn } else { drawn + 1 }])
    }
}

fn is_usable(sequence: &Sequence) -> bool {
    let count = sequence.frames.len();
    if count == 1 {
        return sequence.is_valid(0);
    }
    count >= MIN_FRAMES && (0..count).filter(|&i| sequence.is_valid(i)).nth(MIN_VISIBLE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::Frames;

    fn sequence(visible: &[bool]) -> Sequence {
        Sequence {
            name: String::new(),
            frames: Frames::Listed(vec![std::path::PathBuf::new(); visible.len()]),
            boxes: vec![[1., 2., 3., 4.]; visible.len()],
            visible: Some(visible.to_vec()),
        }
    }

    fn visible_at(count: usize, places: &[usize]) -> Sequence {
        sequence(&(0..count).map(|i| places.contains(&i)).collect::<Vec<_>>())
    }

    fn sampler(sequences: Vec<Sequence>, max_gap: usize) -> PairSampler {
        let source = Source { sequences, weight: 1. };
        PairSampler::new(vec![source], PairSampling { pairs_per_epoch: 1, max_gap }).unwrap()
    }

    fn draws(sampler: &PairSampler, count: u64) -> Vec<Pair> {
        (0..count).map(|i| sampler.draw(Key::new(5).index(i))).collect()
    }

    #[test]
    fn only_videos_long_and_visible_enough_are_drawn() {
        let all: Vec<usize> = (0..40).collect();
        let sequences = vec![
            visible_at(19, &all),
            visible_at(20, &[1, 5, 6, 19]),
            visible_at(20, &[1, 5, 6, 7, 19]),
            visible_at(1, &[]),
            visible_at(1, &[0]),
            visible_at(0, &[]),
            visible_at(30, &all),
        ];
        let sampler = sampler(sequences, 50);
        assert_eq!(sampler.usable[0].len(), 3);
        let drawn: std::collections::BTreeSet<usize> =
            draws(&sampler, 100).iter().map(|pair| pair.sequence).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [2, 4, 6]);
        assert!(draws(&sampler, 100).iter().all(|p| p.sequence != 4 || (p.reference, p.test) == (0, 0)));
    }

    #[test]
    fn frames_are_visible_and_as_close_as_asked() {
        let places: Vec<usize> = (0..300).filter(|i| i % 3 != 1).collect();
        let sampler = sampler(vec![visible_at(300, &places)], 10);
        let mut offsets = std::collections::BTreeMap::new();
        for Pair { reference, test, .. } in draws(&sampler, 20_000) {
            assert!(places.contains(&reference) && places.contains(&test) && reference != test);
            assert!(reference.abs_diff(test) <= 10);
            if (50..250).contains(&reference) && reference % 3 == 0 {
                *offsets.entry(test as i64 - reference as i64).or_insert(0) += 1;
            }
        }
        // From -10 to 10 without 0 and without the invisible frames, a third: 13, all equally likely.
        let expected: Vec<i64> = (-10..=10).filter(|&d: &i64| d.rem_euclid(3) != 1 && d != 0).collect();
        assert_eq!(offsets.keys().copied().collect::<Vec<_>>(), expected);
        let mean = offsets.values().sum::<i32>() as f64 / expected.len() as f64;
        assert!(
            offsets.values().all(|&count| (f64::from(count) - mean).abs() < 5. * mean.sqrt()),
            "{offsets:?}"
        );
    }

    #[test]
    fn the_distance_grows_until_a_frame_is_found() {
        // The first of the five is 52 frames before the next: the gaps 3, 8, … 53 reach it, but not the one at 54.
        let sampler = sampler(vec![visible_at(400, &[100, 152, 154, 300, 301])], 3);
        for pair in draws(&sampler, 300) {
            let expected: &[usize] = match pair.reference {
                100 => &[152],
                152 => &[154],
                154 => &[152],
                300 => &[301],
                _ => &[300],
            };
            assert!(expected.contains(&pair.test), "{pair:?}");
        }
    }

    #[test]
    fn sources_come_in_proportion_to_their_weights() {
        let all: Vec<usize> = (0..20).collect();
        let weights = [1., 0., 3., 0.];
        let source = |weight| Source { sequences: vec![visible_at(20, &all)], weight };
        let sampling = PairSampling { pairs_per_epoch: 1, max_gap: 5 };
        let sampler = PairSampler::new(weights.map(source).to_vec(), sampling).unwrap();
        let mut counts = [0; 4];
        draws(&sampler, 4000).iter().for_each(|pair| counts[pair.source] += 1);
        // Expected 1000 with a standard deviation of 27.
        assert!((counts[1], counts[3]) == (0, 0) && (890..1110).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn senseless_sources_are_refused() {
        let all: Vec<usize> = (0..20).collect();
        let refused = |weights: &[f64], count: usize, pairs_per_epoch| {
            let source = |&weight: &f64| Source { sequences: vec![visible_at(count, &all)], weight };
            let sampling = PairSampling { pairs_per_epoch, max_gap: 5 };
            let error = PairSampler::new(weights.iter().map(source).collect(), sampling).err()?;
            Some(error.to_string())
        };
        assert_eq!(refused(&[1.], 20, 1), None);
        assert!(refused(&[], 20, 1).is_some() && refused(&[0.], 20, 1).is_some());
        assert!(refused(&[1., -1.], 20, 1).is_some() && refused(&[1., f64::NAN], 20, 1).is_some());
        assert!(refused(&[1.], 20, 0).is_some_and(|text| text.starts_with("pairs_per_epoch")));
        assert!(refused(&[1.], 19, 1).is_some_and(|text| text.contains("source 0")));
    }
}
