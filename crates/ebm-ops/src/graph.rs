//! Kernels as operations of candle's graph.
//!
//! This file can go when candle's store of gradients no longer adds the first gradient to fresh zeros (candle's pull requests
//! #3822 and #3578). Then an operation of candle with a backward function does as well.
//!
//! candle's backward pass adds every gradient to zeros that it has just written, on threads of its own that wait in a loop.
//! In a training step this takes as long as the products on the CPU, and a quarter of the step on a GPU. So the gradients of
//! kernels go past candle. In candle's graph a kernel is an operation on *tokens*. A token is a single number, and its
//! gradient is the number of gradients that have been handed over. The gradients themselves go from one kernel's [`Inbox`] to
//! the next. The result that callers get is an operation on the kernel's token. A gradient that candle's own operations give
//! to this result goes to the inbox as well. So candle's order holds for both: the gradient of a result is complete before it
//! is handed on.
//!
//! Variables have no inbox, because their gradients are the result of the pass: [`backward`] collects the gradients that
//! kernels give to variables.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::backprop::GradStore;
use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Storage, Tensor, TensorId, bail,
};

use super::float::Float;
use super::kernel::Kernel;
use super::storage::zip_map;

/// A kernel that can be a part of the graph.
pub(crate) trait Apply<const N: usize>: Kernel<N> {
    /// Returns the result, which is differentiable by [`Kernel::gradients`].
    fn apply(self, arguments: [&Tensor; N]) -> Result<Tensor>;
}

/// Returns the gradients of `loss` in all variables. Unlike candle's `backward`, this function writes no zeros for the
/// gradients of variables that come from this crate's operations.
///
/// After a pass that failed, the next pass is right. For candle's own `backward` this holds on the CPU, and on a GPU if the
/// failed operation is one of this crate's. If another operation ended the pass on a GPU, the gradients that are left there
/// are added to the next pass.
///
/// # Errors
/// Returns an error if an operation has no gradient.
pub fn backward(loss: &Tensor) -> Result<GradStore> {
    // On a thread of the pool, which need not be woken for each operation.
    rayon::scope(|_| backward_here(loss))
}

fn backward_here(loss: &Tensor) -> Result<GradStore> {
    let pass = Pass::begin(loss.sorted_nodes().into_iter().map(Tensor::id).collect());
    let mut gradients = loss.backward()?;
    for (variable, gradient) in pass.into_gradients() {
        let gradient = match gradients.remove(&variable) {
            Some(other) => sum(&other, &gradient)?,
            None => gradient,
        };
        gradients.insert(&variable, gradient);
    }
    Ok(gradients)
}

thread_local! {
    /// Number of this thread's pass. Gradients that were handed over under another number are ignored.
    static PASS: Cell<u64> = const { Cell::new(0) };
}

/// Gradients of variables that a [`backward`] collects.
struct Collected {
    /// Nodes of the graph of this pass. While this thread waits for others, it may be given another backward pass.
    nodes: HashSet<TensorId>,
    /// The variables with their gradients.
    gradients: Vec<(Tensor, Tensor)>,
}

thread_local! {
    /// Collected gradients of each [`backward`] that runs on this thread, the latest last.
    static COLLECTED: RefCell<Vec<Collected>> = const { RefCell::new(Vec::new()) };
}

/// A backward pass with a number of its own, which collects gradients of variables. When the pass ends, the thread goes on
/// with the pass around it.
struct Pass {
    outer: u64,
}

impl Pass {
    fn begin(nodes: HashSet<TensorId>) -> Self {
        COLLECTED.with_borrow_mut(|all| all.push(Collected { nodes, gradients: Vec::new() }));
        Self { outer: PASS.replace(Self::number()) }
    }

    /// Returns a number that no other pass has.
    fn number() -> u64 {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        NUMBERS.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the variables and their gradients that were collected.
    fn into_gradients(self) -> Vec<(Tensor, Tensor)> {
        COLLECTED.with_borrow_mut(|all| {
            all.last_mut().map(|pass| std::mem::take(&mut pass.gradients)).unwrap_or_default()
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        PASS.set(self.outer);
        COLLECTED.with_borrow_mut(Vec::pop);
    }
}

/// Collects a gradient that comes from this node. Returns the gradient if no [`backward`] of this thread has the node.
fn collect(node: &Tensor, variable: &Tensor, gradient: Tensor) -> Option<Tensor> {
    COLLECTED.with_borrow_mut(|all| match all.last_mut().filter(|pass| pass.nodes.contains(&node.id())) {
        Some(pass) => {
            pass.gradients.push((variable.clone(), gradient));
            None
        }
        None => Some(gradient),
    })
}

thread_local! {
    /// The number 1 on the device where this thread last needed it.
    static ONE: RefCell<Option<Tensor>> = const { RefCell::new(None) };
}

/// Returns the number 1 on the device of `gradient`: the share of a gradient in the token's gradient.
fn one_beside(gradient: &Tensor) -> Result<Tensor> {
    ONE.with_borrow_mut(|one| match one {
        Some(one) if one.device().same_device(gradient.device()) => Ok(one.clone()),
        _ => Ok(one.insert(Tensor::new(1f32, gradient.device())?).clone()),
    })
}

/// Sum of the gradients of a result that were handed over in one backward pass.
struct Received {
    sum: Tensor,
    count: usize,
    pass: u64,
}

/// Gradients that were handed over to a result, for each thread that is in a backward pass.
#[derive(Default)]
struct Inbox(Mutex<HashMap<ThreadId, Received>>);

impl Inbox {
    /// Hands a gradient over, and returns the gradient in the token.
    fn add(&self, gradient: Tensor) -> Result<Tensor> {
        let (thread, pass, one) = (std::thread::current().id(), PASS.get(), one_beside(&gradient)?);
        let before = lock(&self.0).remove(&thread).filter(|before| before.pass == pass);
        // Outside the lock, because several threads add.
        let received = match before {
            Some(before) => Received { sum: sum(&before.sum, &gradient)?, count: before.count + 1, pass },
            None => Received { sum: gradient, count: 1, pass },
        };
        lock(&self.0).insert(thread, received);
        Ok(one)
    }

    /// Returns the sum of the gradients after a check of their number, which is the gradient in the token. On a GPU the
    /// number is not read, because that would wait for everything that was started there.
    fn take(&self, token_gradient: &Tensor) -> Result<Tensor> {
        let received = lock(&self.0).remove(&std::thread::current().id());
        let is_whole = |count: usize| -> Result<bool> {
            Ok(!token_gradient.device().is_cpu() || token_gradient.to_scalar::<f32>()? == count as f32)
        };
        match received.filter(|received| received.pass == PASS.get()) {
            Some(Received { sum, count, .. }) if is_whole(count)? => Ok(sum),
            _ => bail!("an earlier backward pass through this graph failed; run the backward pass again"),
        }
    }
}

/// Token and inbox that stand for a kernel's result in the graph.
#[derive(Clone)]
struct Source {
    token: Tensor,
    inbox: Arc<Inbox>,
}

/// Sources of the results that are alive. This map takes the place of a field: candle's tensors have no room for one, and do
/// not show which operation made them. An entry goes with its tensor. It never changes a result, only how the result is
/// reached.
static SOURCES: LazyLock<Mutex<HashMap<TensorId, Source>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that unwinds leaves nothing half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Application of a kernel.
struct Node<K, const N: usize> {
    kernel: K,
    arguments: [Tensor; N],
    /// Inboxes of the arguments that are results of kernels.
    inboxes: [Option<Arc<Inbox>>; N],
    /// Result outside the graph. Inside, it would hold the graph that holds this node.
    result: OnceLock<Tensor>,
    inbox: Arc<Inbox>,
}

impl<K: Kernel<N>, const N: usize> Node<K, N> {
    fn gradients(&self, token: &Tensor, token_gradient: &Tensor) -> Result<[Option<Tensor>; N]> {
        let gradient = self.inbox.take(token_gradient)?;
        let Some(result) = self.result.get() else { bail!("{} has no result", K::NAME) };
        let mut gradients = self.kernel.gradients(self.arguments.each_ref(), result, &gradient)?;
        for ((gradient, argument), inbox) in gradients.iter_mut().zip(&self.arguments).zip(&self.inboxes) {
            *gradient = match (gradient.take(), inbox) {
                (Some(gradient), Some(inbox)) => Some(inbox.add(gradient)?),
                (Some(gradient), None) if argument.is_variable() => collect(token, argument, gradient),
                (gradient, _) => gradient,
            };
        }
        Ok(gradients)
    }
}

/// Operation whose result is a token.
struct Token<K, const N: usize>(Arc<Node<K, N>>);

/// Operation from a token to the result.
struct ResultOp {
    /// Numbers of the result until the result takes them.
    storage: Mutex<Option<(Storage, Shape)>>,
    inbox: Arc<Inbox>,
    result: Arc<OnceLock<TensorId>>,
}

impl ResultOp {
    fn take(&self) -> Result<(Storage, Shape)> {
        lock(&self.storage).take().ok_or_else(|| candle_core::Error::Msg("a result is taken once".into()))
    }
}

impl CustomOp1 for ResultOp {
    fn name(&self) -> &'static str {
        "result"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        match self.take()? {
            (Storage::Cpu(storage), shape) => Ok((storage, shape)),
            _ => bail!("a result must be where its token is"),
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        match self.take()? {
            (Storage::Cuda(storage), shape) => Ok((storage, shape)),
            _ => bail!("a result must be where its token is"),
        }
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.inbox.add(gradient.clone()).map(Some)
    }
}

impl Drop for ResultOp {
    fn drop(&mut self) {
        // The token is dropped after the lock, because it may be the last owner of other results.
        let _source = self.result.get().and_then(|id| lock(&SOURCES).remove(id));
    }
}

/// Applies the kernel. `link` makes the token from the tokens of the arguments, or from arguments without one.
fn linked<K: Kernel<N>, const N: usize>(
    kernel: K,
    arguments: [Tensor; N],
    link: impl FnOnce([Tensor; N], Token<K, N>) -> Result<Tensor>,
) -> Result<Tensor> {
    if !arguments.iter().any(Tensor::track_op) {
        return kernel.run(arguments.each_ref());
    }
    let (storage, shape) = kernel.compute(arguments.each_ref())?;
    let sources = {
        let known = lock(&SOURCES);
        arguments.each_ref().map(|argument| known.get(&argument.id()).cloned())
    };
    let links = std::array::from_fn(|i| match &sources[i] {
        Some(source) => source.token.clone(),
        None => arguments[i].clone(),
    });
    let (inboxes, inbox) = (sources.map(|source| source.map(|source| source.inbox)), Arc::default());
    let node = Arc::new(Node { kernel, arguments, inboxes, result: OnceLock::new(), inbox });
    let (token, inbox) = (link(links, Token(node.clone()))?, node.inbox.clone());
    let (storage, id) = (Mutex::new(Some((storage, shape))), Arc::new(OnceLock::new()));
    let result = token.apply_op1(ResultOp { storage, inbox: inbox.clone(), result: id.clone() })?;
    // Neither has been set before.
    let _ = (node.result.set(result.detach()), id.set(result.id()));
    lock(&SOURCES).insert(result.id(), Source { token, inbox });
    Ok(result)
}

/// Implements [`Apply`] for kernels of these arguments, with candle's operation of as many arguments.
macro_rules! operation {
    (@tuple $a:ident) => { $a };
    (@tuple $($a:ident),+) => { ($($a),+) };
    ($count:literal: $op:ident, $apply:ident, $a:ident $la:ident $(, $b:ident $lb:ident)*; $gradients:ty) => {
        impl<K: Kernel<$count> + Send + Sync + 'static> Apply<$count> for K {
            fn apply(self, arguments: [&Tensor; $count]) -> Result<Tensor> {
                let arguments = self.in_order(arguments)?;
                linked(self, arguments, |[$a $(, $b)*], token| $a.$apply($(&$b,)* token))
            }
        }

        impl<K: Kernel<$count>> $op for Token<K, $count> {
            fn name(&self) -> &'static str {
                K::NAME
            }

            fn cpu_fwd(
                &self,
                _: &CpuStorage,
                _: &Layout,
                $(_: &CpuStorage, $lb: &Layout,)*
            ) -> Result<(CpuStorage, Shape)> {
                $(let _ = $lb;)*
                Ok((CpuStorage::F32(vec![0.0]), Shape::from(())))
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(
                &self,
                $a: &CudaStorage,
                _: &Layout,
                $(_: &CudaStorage, $lb: &Layout,)*
            ) -> Result<(CudaStorage, Shape)> {
                use candle_core::backend::BackendStorage;
                $(let _ = $lb;)*
                // The number is never read.
                let (device, shape) = ($a.device(), Shape::from(()));
                Ok((CudaStorage::wrap_cuda_slice(crate::cuda::unwritten::<f32>(device, 1)?, device.clone()), shape))
            }

            fn bwd(&self, $a: &Tensor, $($b: &Tensor,)* token: &Tensor, grad: &Tensor) -> Result<$gradients> {
                let _ = ($a, $($b,)*);
                let [$a $(, $b)*] = self.0.gradients(token, grad).inspect_err(|_| PASS.set(Pass::number()))?;
                Ok(operation!(@tuple $a $(, $b)*))
            }
        }
    };
}

operation!(1: CustomOp1, apply_op1, a la; Option<Tensor>);
operation!(2: CustomOp2, apply_op2, a la, b lb; (Option<Tensor>, Option<Tensor>));
operation!(3: CustomOp3, apply_op3, a la, b lb, c lc; (Option<Tensor>, Option<Tensor>, Option<Tensor>));

/// Returns the sum of two gradients of one result, outside any graph.
pub(crate) fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.device().is_cpu()
        && a.shape() == b.shape()
        && a.dtype() == b.dtype()
        && a.dtype().size_in_bytes() >= 4
    {
        return Sum.run([a, b]);
    }
    a.detach() + b.detach()
}

struct Sum;

impl Kernel<2> for Sum {
    const NAME: &'static str = "sum";

    fn host<T: Float>(&self, [a, b]: [&[T]; 2]) -> Result<Vec<T>> {
        Ok(zip_map(a, b, |a, b| a + b))
    }
}
