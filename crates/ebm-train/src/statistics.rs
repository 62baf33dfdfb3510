//! Running statistics of normalisations in training.

use crate::distributed::Group;
use candle_core::{Result, Tensor, Var};
use ebm_nn::params::ParamStore;

/// The running means and variances of a network. A forward pass in training moves them; only a step that is
/// applied may.
#[derive(Clone)]
pub struct RunningStatistics {
    buffers: Vec<Var>,
    group: Group,
}

impl RunningStatistics {
    /// Those of the network that was built from `store`.
    pub fn of(store: &ParamStore) -> Self {
        let is_buffer = |name: &&String| name.ends_with(".running_mean") || name.ends_with(".running_var");
        let names = store.names();
        let buffers = names.iter().filter(is_buffer).filter_map(|name| store.var(name)).collect();
        Self { buffers, group: Group::alone() }
    }

    /// The same, of which [`aside`](Self::aside) gives the means over the processes of `group`. Each process
    /// normalises by its own share of a batch.
    #[must_use]
    pub fn over(self, group: &Group) -> Self {
        Self { group: group.clone(), ..self }
    }

    /// Their present values.
    ///
    /// # Errors
    /// When a tensor can not be copied.
    pub fn get(&self) -> Result<Vec<Tensor>> {
        self.buffers.iter().map(|buffer| buffer.as_detached_tensor().copy()).collect()
    }

    /// Puts values of [`get`](Self::get) back.
    ///
    /// # Errors
    /// When one has another shape.
    pub fn set(&self, values: &[Tensor]) -> Result<()> {
        self.buffers.iter().zip(values).try_for_each(|(buffer, value)| buffer.set(value))
    }

    /// Runs `step` and puts the statistics back; returns its result and what they were after it.
    ///
    /// # Errors
    /// Those of `step`, and when a tensor can not be copied, or another process failed.
    pub fn aside<T, E: From<candle_core::Error> + From<crate::Error>>(
        &self,
        step: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Vec<Tensor>), E> {
        let before = self.get()?;
        let result = step();
        let mut after = self.get()?;
        self.set(&before)?;
        let result = result?;
        self.group.mean(&mut after).map_err(crate::Error::from)?;
        Ok((result, after))
    }
}
