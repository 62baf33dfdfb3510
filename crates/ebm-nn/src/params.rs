//! Parameters of a network, by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Shape, Tensor, Var};
use candle_nn::Init;
pub use candle_nn::VarBuilder;
use candle_nn::var_builder::SimpleBackend;
use ebm_base::Key;

use crate::import::{self, LoadPolicy, LoadReport};
use crate::{Error, Result, init};

/// Store of the parameters and buffers of a network, by torch's names.
///
/// A layer requests a tensor through [`ParamStore::var_builder`]. The initial value is the tensor that
/// [`ParamStore::preload`] got under the same name, or else a draw from the layer's hint with the store's key
/// split by the **name**. Initial values therefore do not depend on the order in which layers are made. A clone
/// is another handle on the same parameters.
///
/// *Buffers* (`running_mean`, `running_var`, `num_batches_tracked`) are saved and loaded, but never trained.
#[derive(Clone)]
pub struct ParamStore {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// Key of the draws; `None` for a saved network.
    key: Option<Key>,
    entries: BTreeMap<String, Entry>,
    preloaded: BTreeMap<String, Tensor>,
    /// Requested parameters that a saved network lacks or has in another shape.
    absent: BTreeMap<String, Shape>,
    /// Predicates of names; a parameter that is requested later is frozen if any holds.
    rules: Vec<Predicate>,
}

type Predicate = Box<dyn Fn(&str) -> bool + Send>;

struct Entry {
    var: Var,
    frozen: bool,
    /// Whether the initial value was preloaded and not drawn.
    preloaded: bool,
}

impl ParamStore {
    /// Creates an empty store that draws initial values from `key`.
    pub fn new(key: Key) -> Self {
        Self::with(Some(key), BTreeMap::new())
    }

    /// Builds the frozen network of the saved parameters `tensors` and returns it with its store. A tensor that is missing or
    /// has another shape is never made, so that no file can ask for memory by its sizes.
    ///
    /// # Errors
    /// The reason if the network cannot be built, or if names and shapes are not exactly those of `tensors`.
    pub fn build<T, E: std::fmt::Display>(
        tensors: &BTreeMap<String, Tensor>,
        network: impl FnOnce(&Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Self), String> {
        let store = Self::with(None, tensors.clone());
        store.freeze(|_| true);
        let network = network(&store).map_err(|error| error.to_string())?;
        let report = {
            let inner = store.lock();
            let made = inner.entries.iter().map(|(name, entry)| (name.as_str(), entry.var.shape()));
            let absent = inner.absent.iter().map(|(name, shape)| (name.as_str(), shape));
            LoadReport::compare(made.chain(absent), tensors)
        };
        if report.is_exact() { Ok((network, store)) } else { Err(report.to_string()) }
    }

    fn with(key: Option<Key>, preloaded: BTreeMap<String, Tensor>) -> Self {
        let (entries, absent, rules) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let inner = Inner { key, entries, preloaded, absent, rules };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Returns a builder for layers that creates parameters in `dtype` on `device`.
    pub fn var_builder(&self, dtype: DType, device: &Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self.clone()), dtype, device.clone())
    }

    /// Returns the parameters that an optimiser may change, in name order, without frozen ones and buffers.
    pub fn trainable(&self) -> Vec<(String, Var)> {
        (self.lock().entries.iter())
            .filter(|(name, entry)| !entry.frozen && !is_buffer(name))
            .map(|(name, entry)| (name.clone(), entry.var.clone()))
            .collect()
    }

    /// Returns the names of all parameters and buffers, in order.
    pub fn names(&self) -> Vec<String> {
        self.lock().entries.keys().cloned().collect()
    }

    /// Returns the parameter or buffer `name`, if a layer has requested it.
    pub fn var(&self, name: &str) -> Option<Var> {
        self.lock().entries.get(name).map(|entry| entry.var.clone())
    }

    /// Returns a copy of all parameters and buffers, which later steps do not change.
    ///
    /// # Errors
    /// If the device runs out of memory.
    pub fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let inner = self.lock();
        let copy =
            |(name, entry): (&String, &Entry)| Ok((name.clone(), entry.var.as_detached_tensor().copy()?));
        inner.entries.iter().map(copy).collect()
    }

    /// Freezes all present and future parameters whose names satisfy `predicate`.
    ///
    /// A layer built afterwards gets them as constants: plain tensors outside the graph. The layer may keep
    /// tensors that it [prepares](ebm_ops::nn::Prepared) from them, so set their values before its first use. A
    /// layer that was built before still computes their gradients; they only stop being
    /// [`trainable`](Self::trainable).
    pub fn freeze(&self, predicate: impl Fn(&str) -> bool + Send + 'static) {
        let mut inner = self.lock();
        for (name, entry) in &mut inner.entries {
            entry.frozen |= predicate(name);
        }
        inner.rules.push(Box::new(predicate));
    }

    /// Stores `tensors` as the initial values of parameters that layers will request. A name that was preloaded
    /// before is replaced. See [`preload_report`](Self::preload_report) after the network is built.
    pub fn preload(&self, tensors: BTreeMap<String, Tensor>) {
        self.lock().preloaded.extend(tensors);
    }

    /// Reports, after the network is built, which parameters took their [`preload`](Self::preload)ed tensors,
    /// which were drawn instead (missing), and which tensors were not requested (unexpected). A wrong shape
    /// already fails when the network is built.
    pub fn preload_report(&self) -> LoadReport {
        let inner = self.lock();
        let taken = |(_, entry): &(&String, &Entry)| entry.preloaded;
        let (loaded, missing): (Vec<_>, Vec<_>) = inner.entries.iter().partition(taken);
        let names = |entries: Vec<(&String, &Entry)>| entries.into_iter().map(|(n, _)| n.clone()).collect();
        LoadReport {
            loaded: names(loaded),
            missing: names(missing),
            ..LoadReport::compare(std::iter::empty(), &inner.preloaded)
        }
    }

    /// Sets the parameters and buffers to `tensors`, converted to their types and devices.
    ///
    /// # Errors
    /// If the differences in names and shapes are more than `policy` allows; no value is changed then.
    pub fn load(&self, tensors: &BTreeMap<String, Tensor>, policy: LoadPolicy) -> Result<LoadReport> {
        let inner = self.lock();
        let expected = inner.entries.iter().map(|(name, entry)| (name.as_str(), entry.var.shape()));
        let report = LoadReport::compare(expected, tensors);
        if policy == LoadPolicy::Strict && !report.is_exact() {
            let reason = format!("the tensors are not this network's: {report}");
            return Err(Error::Argument { op: "ParamStore::load", reason });
        }
        // Conversions may fail, so all of them come before the first change.
        let mut values = Vec::with_capacity(report.loaded.len());
        for name in &report.loaded {
            if let (Some(entry), Some(tensor)) = (inner.entries.get(name), tensors.get(name)) {
                let tensor = tensor.detach().to_dtype(entry.var.dtype())?.to_device(entry.var.device())?;
                // `Var::set` refuses a tensor that shares the variable's storage.
                values.push((&entry.var, tensor.copy()?));
            }
        }
        for (var, value) in values {
            var.set(&value)?;
        }
        Ok(report)
    }

    /// Returns a store with frozen copies of all present values. A network built from it is for prediction and is
    /// not changed by later training steps.
    ///
    /// # Errors
    /// If the device runs out of memory.
    pub fn constants(&self) -> Result<Self> {
        let tensors = self.tensors()?;
        let store = Self::with(self.lock().key, tensors);
        store.freeze(|_| true);
        Ok(store)
    }

    /// Writes all parameters and buffers to the safetensors file `path`, which is never half written. Equal
    /// stores give equal bytes.
    ///
    /// # Errors
    /// If the file cannot be written; the old file then stays.
    pub fn save(&self, path: &Path) -> Result<()> {
        import::save_safetensors(path, &self.tensors()?)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in this module leaves the maps consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn is_frozen(&self, name: &str) -> bool {
        self.rules.iter().any(|predicate| predicate(name))
    }

    /// Returns the initial value of a parameter, and whether it was preloaded; `None` if a saved network does not have it.
    fn first_value(
        &mut self,
        shape: &Shape,
        name: &str,
        init: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<(Tensor, bool)>> {
        let Some(tensor) = self.preloaded.get(name) else {
            let Some(key) = self.key else { return Ok(None) };
            let mut rng = key.split(name).rng();
            return Ok(Some((init::draw(&init, shape, dtype, device, &mut rng)?, false)));
        };
        if self.key.is_none() && tensor.shape() != shape {
            return Ok(None);
        }
        check_shape(name, shape, tensor.shape())?;
        let tensor = tensor.detach().to_dtype(dtype)?.to_device(device)?;
        self.preloaded.remove(name);
        Ok(Some((tensor, true)))
    }
}

impl SimpleBackend for ParamStore {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let mut inner = self.lock();
        if !inner.entries.contains_key(name) {
            let first = (inner.first_value(&shape, name, init, dtype, device))
                .map_err(|error| candle_core::Error::Msg(format!("parameter {name}: {error}")))?;
            let Some((tensor, preloaded)) = first else {
                inner.absent.insert(name.to_owned(), shape.clone());
                return Tensor::zeros((), dtype, device)?.broadcast_as(shape);
            };
            // `from_tensor` copies, because the tensor's owner may hold a variable that shares its storage.
            let var = Var::from_tensor(&tensor)?;
            let frozen = inner.is_frozen(name);
            inner.entries.insert(name.to_owned(), Entry { var, frozen, preloaded });
        }
        let Some(entry) = inner.entries.get(name) else {
            return Err(candle_core::Error::CannotFindTensor { path: name.to_owned() });
        };
        check_shape(name, &shape, entry.var.shape())
            .map_err(|error| candle_core::Error::Msg(error.to_string()))?;
        if entry.var.dtype() != dtype || !entry.var.device().same_device(device) {
            let made = format!("{:?} on {:?}", entry.var.dtype(), entry.var.device().location());
            let asked = format!("{dtype:?} on {:?}", device.location());
            candle_core::bail!("parameter {name} was made as {made} and is now requested as {asked}")
        }
        // A buffer is returned as the variable itself, because its layer updates it in place.
        let detached = entry.frozen && !is_buffer(name);
        Ok(if detached { entry.var.as_detached_tensor() } else { entry.var.as_tensor().clone() })
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        let shape = {
            let inner = self.lock();
            let known = inner.entries.get(name).map(|entry| entry.var.shape().clone());
            known.or_else(|| inner.preloaded.get(name).map(|tensor| tensor.shape().clone()))
        };
        let Some(shape) = shape else {
            return Err(candle_core::Error::CannotFindTensor { path: name.to_owned() });
        };
        SimpleBackend::get(self, shape, name, Init::default(), dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        let inner = self.lock();
        inner.entries.contains_key(name) || inner.preloaded.contains_key(name)
    }
}

fn is_buffer(name: &str) -> bool {
    matches!(name.rsplit('.').next(), Some("running_mean" | "running_var" | "num_batches_tracked"))
}

fn check_shape(name: &str, expected: &Shape, found: &Shape) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (expected.dims(), found.dims());
    let reason = format!("{name} has shape {found:?} where the layer needs {expected:?}");
    Err(Error::Argument { op: "ParamStore", reason })
}
