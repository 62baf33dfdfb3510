//! Values that layers compute from constant parameters once.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Tensor};

/// Value that a layer computes from its parameters for prediction on first use, and keeps: for instance weights in the order
/// in which the processor reads them. Clones share it.
///
/// Values that may change are not kept: a layer asks only if its parameters are [constant](are_constant).
#[derive(Debug)]
pub struct Prepared<T>(Arc<Mutex<Option<Arc<T>>>>);

impl<T> Prepared<T> {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Returns the kept value. The first call computes it with `make`.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            return Ok(known);
        }
        // Outside the lock: if the value is computed in parallel, the same thread may ask for it meanwhile.
        let made = Arc::new(make()?);
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(made).clone())
    }

    /// Forgets the value because its parameters have changed.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Prepared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Returns `true` if no tensor depends on a variable. Then no gradient is wanted in them, and as parameters they are frozen.
pub fn are_constant<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    tensors.into_iter().all(|tensor| !tensor.track_op())
}

/// Returns `true` if the packed products serve this tensor: f32 on the CPU.
pub fn is_packable(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == DType::F32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_again_when_forgotten() {
        let prepared = Prepared::new();
        let (clone, failed) = (prepared.clone(), prepared.get(|| Err::<i32, _>("no")));
        assert_eq!(failed, Err("no"));
        let make = |value: i32| move || Ok::<_, ()>(value);
        assert_eq!((prepared.get(make(1)), clone.get(make(2))), (Ok(Arc::new(1)), Ok(Arc::new(1))));
        clone.forget();
        assert_eq!(prepared.get(make(3)), Ok(Arc::new(3)));
    }
}
