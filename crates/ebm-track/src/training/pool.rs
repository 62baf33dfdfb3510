//! Pool of crops with cached features, which are paired in many ways.

use std::cell::RefCell;
use std::rc::Rc;

use candle_core::{DType, Tensor};
use ebm_base::Key;
use rand::Rng;
use rand::seq::SliceRandom;

use super::stream::converted;
use super::{PairFeatures, PairSource};
use crate::backbone::BackboneFeatures;
use crate::{Error, Result};

/// Size of the pool of crops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Number of targets, a multiple of `batch_size`.
    pub objects: usize,
    /// Number of reference crops and of test crops of each target.
    pub views: usize,
    /// Number of pairs in a batch.
    pub batch_size: usize,
}

impl PoolSize {
    /// Returns the number of batches until every reference crop has been paired with every test crop of its target.
    pub fn steps(&self) -> usize {
        self.views * self.views * (self.objects / self.batch_size)
    }
}

/// Pairs of crops from a pool. The pool is refilled when each reference crop has been paired once with each test crop
/// of its target. A batch has each target at most once. Clones share the pool, so that several trainings can use it.
#[derive(Clone)]
pub struct PooledPairs {
    pool: Rc<RefCell<Pool>>,
    size: PoolSize,
    key: Key,
}

struct Pool {
    source: Box<dyn PairSource>,
    /// Number of the cached pool, and the batches of the source that it consists of, in half precision.
    held: Option<(usize, Vec<PairFeatures>)>,
}

/// A function that returns the reference or the test side of a batch of pairs.
type Side = fn(&PairFeatures) -> (&BackboneFeatures, &Tensor);

impl PooledPairs {
    /// Pairs the crops of `source`. Its batches have `size.batch_size` pairs, and `size.views` consecutive pairs have
    /// the same target. `key` determines the pairing.
    ///
    /// # Errors
    /// For sizes without a batch, and for objects that do not fill batches.
    pub fn new(source: Box<dyn PairSource>, size: PoolSize, key: Key) -> Result<Self> {
        let PoolSize { objects, views, batch_size } = size;
        if views == 0 || batch_size == 0 || objects == 0 || !objects.is_multiple_of(batch_size) {
            let reason = format!("{objects} objects of {views} views do not fill batches of {batch_size}");
            return Err(Error::config("of the pool of crops", reason));
        }
        Ok(Self { pool: Rc::new(RefCell::new(Pool { source, held: None })), size, key })
    }

    /// Returns the indices of the reference crops and of the test crops in batch `place` of the pool number `pool`.
    fn items(&self, pool: usize, place: usize) -> [Vec<usize>; 2] {
        let PoolSize { objects, views, batch_size } = self.size;
        let (key, batches) = (self.key.index(pool as u64), objects / batch_size);
        let (pass, batch) = (place / batches, place % batches);
        let mut order: Vec<usize> = (0..objects).collect();
        order.shuffle(&mut key.split("order").index(pass as u64).rng());
        let meeting = |&object: &usize| {
            let first = key.split("first").index(object as u64).rng().random_range(0..views * views);
            let meeting = (first + pass) % (views * views);
            [meeting / views, meeting % views].map(|view| object * views + view)
        };
        let batch: Vec<[usize; 2]> = order[batch * batch_size..][..batch_size].iter().map(meeting).collect();
        [0, 1].map(|side| batch.iter().map(|items| items[side]).collect())
    }
}

impl Pool {
    /// Returns the batches of the pool number `number`, and reads them from the source if they are not cached.
    fn filled(&mut self, number: usize, size: &PoolSize) -> Result<&[PairFeatures]> {
        let held = match self.held.take() {
            Some((held, batches)) if held == number => batches,
            _ => {
                let count = size.objects * size.views / size.batch_size;
                let batch = |step| converted(&self.source.batch(step)?, DType::F16);
                (number * count..(number + 1) * count).map(batch).collect::<Result<Vec<_>>>()?
            }
        };
        Ok(&self.held.insert((number, held)).1)
    }
}

impl PairSource for PooledPairs {
    fn batch(&mut self, step: usize) -> Result<PairFeatures> {
        let (number, place) = (step / self.size.steps(), step % self.size.steps());
        let [reference, test] = self.items(number, place);
        let mut pool = self.pool.borrow_mut();
        let batches = pool.filled(number, &self.size)?;
        let (reference, reference_boxes) =
            gathered(batches, &reference, |pairs| (&pairs.reference, &pairs.reference_boxes))?;
        let (test, test_boxes) = gathered(batches, &test, |pairs| (&pairs.test, &pairs.test_boxes))?;
        Ok(PairFeatures { reference, test, reference_boxes, test_boxes })
    }
}

/// Collects one side of the pairs `items`, counted over all of `batches`, in single precision.
fn gathered(batches: &[PairFeatures], items: &[usize], side: Side) -> Result<(BackboneFeatures, Tensor)> {
    let size = batches.first().map_or(Ok(1), |pairs| pairs.test_boxes.dim(0))?;
    // The channels stay innermost, as the maps lie in memory.
    let map = |of: fn(&BackboneFeatures) -> &Tensor| -> Result<Tensor> {
        let row = |&item: &usize| {
            of(side(&batches[item / size]).0).permute((0, 2, 3, 1))?.narrow(0, item % size, 1)
        };
        let rows = items.iter().map(row).collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&rows, 0)?.to_dtype(DType::F32)?.permute((0, 3, 1, 2))?)
    };
    let row = |&item: &usize| side(&batches[item / size]).1.narrow(0, item % size, 1);
    let boxes = items.iter().map(row).collect::<candle_core::Result<Vec<_>>>()?;
    let features = BackboneFeatures { layer2: map(|maps| &maps.layer2)?, layer3: map(|maps| &maps.layer3)? };
    Ok((features, Tensor::cat(&boxes, 0)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use candle_core::Device;

    use super::*;

    const SIZE: PoolSize = PoolSize { objects: 4, views: 3, batch_size: 2 };

    /// A source whose reference crops hold their item's number everywhere, and whose test crops hold a hundred more.
    struct Numbered;

    impl PairSource for Numbered {
        fn batch(&mut self, step: usize) -> Result<PairFeatures> {
            let numbers = |shift: f32| -> Result<(BackboneFeatures, Tensor)> {
                let items = [0, 1].map(|row| (2 * step + row) as f32 + shift);
                let of = |channels, side| {
                    let items = Tensor::new(&items, &Device::Cpu)?.reshape((2, 1, 1, 1))?;
                    items.broadcast_as((2, channels, side, side))?.contiguous()
                };
                let maps = BackboneFeatures { layer2: of(3, 4)?, layer3: of(5, 2)? };
                Ok((maps, of(4, 1)?.reshape((2, 4))?))
            };
            let ((reference, reference_boxes), (test, test_boxes)) = (numbers(0.0)?, numbers(100.0)?);
            Ok(PairFeatures { reference, test, reference_boxes, test_boxes })
        }
    }

    /// Returns the items of the two crops of each pair of a batch, after a check that all its tensors agree.
    fn items(pairs: &PairFeatures) -> Vec<[usize; 2]> {
        let numbers = |maps: &BackboneFeatures, boxes: &Tensor| {
            let first = |x: &Tensor| {
                let rows = x.flatten_from(1).unwrap().to_vec2::<f32>().unwrap();
                assert!(rows.iter().all(|row| row.iter().all(|number| *number == row[0])));
                rows.iter().map(|row| row[0] as usize).collect::<Vec<_>>()
            };
            assert_eq!((maps.layer2.dims(), maps.layer3.dims()), (&[2, 3, 4, 4][..], &[2, 5, 2, 2][..]));
            assert_eq!((first(&maps.layer2), first(&maps.layer3)), (first(boxes), first(boxes)));
            first(boxes)
        };
        let reference = numbers(&pairs.reference, &pairs.reference_boxes);
        let test = numbers(&pairs.test, &pairs.test_boxes);
        reference.into_iter().zip(test).map(|(reference, test)| [reference, test - 100]).collect()
    }

    #[test]
    fn every_crop_of_a_target_meets_every_other_once() {
        let pairs = || PooledPairs::new(Box::new(Numbered), SIZE, Key::new(1)).unwrap();
        let mut whole = pairs();
        assert_eq!(SIZE.steps(), 18);
        for pool in 0..2 {
            let (mut met, first) = (BTreeSet::new(), pool * SIZE.steps());
            for step in first..first + SIZE.steps() {
                let found = items(&whole.batch(step).unwrap());
                // Two targets in a batch, and both crops of the same one.
                assert!(found[0][0] / 3 != found[1][0] / 3);
                assert!(found.iter().all(|[reference, test]| reference / 3 == test / 3), "{found:?}");
                assert!(found.iter().all(|pair| pair[0] / 12 == pool && met.insert(*pair)), "{found:?}");
                assert_eq!(items(&pairs().batch(step).unwrap()), found);
            }
            assert_eq!(met.len(), 4 * 9);
        }
    }

    #[test]
    fn objects_that_fill_no_batches_are_refused() {
        let size = PoolSize { objects: 5, ..SIZE };
        assert!(PooledPairs::new(Box::new(Numbered), size, Key::new(1)).is_err());
    }
}
