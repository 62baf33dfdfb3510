//! f(x, y) for all samples of a batch, and the way back, each in one pass over the samples.
//!
//! Rows of the batch are independent: a few rows are one task, whatever the number of threads, and the tasks'
//! sums are added in order, so that results do not depend on that number.

mod kind;
mod simd;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use self::kind::{Bmvc, Eccv, Kind};
use self::simd::{Gradients, Trace, VECTORS, Weights, backward, forward};
use crate::layout::{LAYERS, Layout, Network, WIDTH};

/// Rows of the batch in a task.
const ROWS: usize = 4;

/// The inputs of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// θ.
    pub(crate) theta: &'a [f32],
    /// The features of x, (B, 10).
    pub(crate) features: &'a [f32],
    /// (B, M).
    pub(crate) y: &'a [f32],
    /// M.
    pub(crate) count: usize,
}

/// The gradients of a batch.
pub(crate) struct BatchGradients {
    pub(crate) theta: Vec<f32>,
    pub(crate) features: Vec<f32>,
    pub(crate) y: Vec<f32>,
}

/// f, (B, M), into `value`, and its derivative in y into `first` unless that is empty.
pub(crate) fn scores(network: Network, batch: Batch<'_>, value: &mut [f32], first: &mut [f32]) {
    let (rows, arch) = (ROWS * batch.count, Arch::new());
    let tangent = !first.is_empty();
    let features = batch.features.par_chunks(ROWS * WIDTH);
    let tasks = features.zip(batch.y.par_chunks(rows)).zip(value.par_chunks_mut(rows));
    let run = |features, y, value: &mut [f32], first: &mut [f32]| {
        let batch = Batch { features, y, ..batch };
        match (network, tangent) {
            (Network::Eccv, false) => arch.dispatch(Forward::<Eccv, false>::new(batch, value, first)),
            (Network::Eccv, true) => arch.dispatch(Forward::<Eccv, true>::new(batch, value, first)),
            (Network::Bmvc, false) => arch.dispatch(Forward::<Bmvc, false>::new(batch, value, first)),
            (Network::Bmvc, true) => arch.dispatch(Forward::<Bmvc, true>::new(batch, value, first)),
        }
    };
    if tangent {
        tasks.zip(first.par_chunks_mut(rows)).for_each(|(((x, y), value), first)| run(x, y, value, first));
    } else {
        tasks.for_each(|((x, y), value)| run(x, y, value, &mut []));
    }
}

/// The gradients, given those of f, (B, M), and of its derivative in y (empty where that was not computed).
/// The gradient in y is that of f alone.
pub(crate) fn gradients(
    network: Network,
    batch: Batch<'_>,
    g_value: &[f32],
    g_first: &[f32],
) -> BatchGradients {
    let (rows, arch) = (ROWS * batch.count, Arch::new());
    let mut in_features = vec![0.0; batch.features.len()];
    let mut in_y = vec![0.0; batch.y.len()];
    let tasks = batch.features.par_chunks(ROWS * WIDTH).zip(batch.y.par_chunks(rows)).enumerate();
    let tasks = tasks.zip(in_features.par_chunks_mut(ROWS * WIDTH)).zip(in_y.par_chunks_mut(rows));
    let partial: Vec<Vec<f32>> = tasks
        .map(|(((index, (features, y)), in_features), in_y)| {
            let part = |all: &[f32]| index * rows..all.len().min((index + 1) * rows);
            let g =
                [&g_value[part(g_value)], if g_first.is_empty() { &[][..] } else { &g_first[part(g_first)] }];
            let batch = Batch { features, y, ..batch };
            let mut theta = vec![0.0; batch.theta.len()];
            let results = Results { theta: &mut theta, features: in_features, y: in_y };
            match (network, g_first.is_empty()) {
                (Network::Eccv, true) => arch.dispatch(Backward::<Eccv, false>::new(batch, g, results)),
                (Network::Eccv, false) => arch.dispatch(Backward::<Eccv, true>::new(batch, g, results)),
                (Network::Bmvc, true) => arch.dispatch(Backward::<Bmvc, false>::new(batch, g, results)),
                (Network::Bmvc, false) => arch.dispatch(Backward::<Bmvc, true>::new(batch, g, results)),
            }
            theta
        })
        .collect();
    let mut theta = vec![0.0; batch.theta.len()];
    for part in partial {
        theta.iter_mut().zip(part).for_each(|(sum, term)| *sum += term);
    }
    BatchGradients { theta, features: in_features, y: in_y }
}

/// θ by layer.
struct Parameters<'a> {
    layout: Layout,
    weights: Weights<'a>,
    bias: [&'a [f32; WIDTH]; LAYERS],
    joining: &'a [[f32; WIDTH]; WIDTH],
}

impl<'a> Parameters<'a> {
    /// None for a θ of another length.
    fn new(network: Network, theta: &'a [f32]) -> Option<Self> {
        let layout = Layout::new(network);
        let row = |range: &std::ops::Range<usize>| theta.get(range.clone())?.as_array::<WIDTH>();
        let matrix = |range: &std::ops::Range<usize>| {
            theta.get(range.clone())?.as_chunks::<WIDTH>().0.as_array::<WIDTH>()
        };
        let [first, second, third] = &layout.hidden;
        let weights = Weights {
            y_weight: row(&layout.y.weight)?,
            y_bias: row(&layout.y.bias)?,
            hidden: [matrix(&first.weight)?, matrix(&second.weight)?, matrix(&third.weight)?],
            out_weight: row(&layout.out.weight)?,
            out_bias: *theta.get(layout.out.bias.start)?,
        };
        let bias = [row(&first.bias)?, row(&second.bias)?, row(&third.bias)?];
        let joining = matrix(&layout.joining)?;
        Some(Self { layout, weights, bias, joining })
    }

    /// The biases, with W_x g_x in the joining layer.
    fn joined_bias<K: Kind>(&self, features: &[f32]) -> [[f32; WIDTH]; LAYERS] {
        let mut bias = self.bias.map(|bias| *bias);
        for (bias, weights) in bias[K::NETWORK.joining_layer()].iter_mut().zip(self.joining) {
            *bias += weights.iter().zip(features).map(|(w, g)| w * g).sum::<f32>();
        }
        bias
    }
}

/// The vectors of up to `VECTORS` full vectors of numbers, padded with 0, and how many of them are used.
#[inline(always)]
fn load<S: Simd>(simd: S, values: &[f32]) -> ([S::f32s; VECTORS], usize) {
    let mut vectors = [simd.splat_f32s(0.0); VECTORS];
    let (full, rest) = S::as_simd_f32s(values);
    for (vector, value) in vectors.iter_mut().zip(full) {
        *vector = *value;
    }
    if !rest.is_empty() {
        vectors[full.len()] = simd.partial_load_f32s(rest);
    }
    (vectors, full.len() + usize::from(!rest.is_empty()))
}

#[inline(always)]
fn store<S: Simd>(simd: S, vectors: &[S::f32s; VECTORS], values: &mut [f32]) {
    let (full, rest) = S::as_mut_simd_f32s(values);
    for (value, vector) in full.iter_mut().zip(vectors) {
        *value = *vector;
    }
    if !rest.is_empty() {
        simd.partial_store_f32s(rest, vectors[full.len()]);
    }
}

struct Forward<'a, K, const TANGENT: bool> {
    batch: Batch<'a>,
    value: &'a mut [f32],
    first: &'a mut [f32],
    kind: std::marker::PhantomData<K>,
}

impl<'a, K, const TANGENT: bool> Forward<'a, K, TANGENT> {
    fn new(batch: Batch<'a>, value: &'a mut [f32], first: &'a mut [f32]) -> Self {
        Self { batch, value, first, kind: std::marker::PhantomData }
    }
}

impl<K: Kind, const TANGENT: bool> WithSimd for Forward<'_, K, TANGENT> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { batch, value, first, .. } = self;
        let Some(parameters) = Parameters::new(K::NETWORK, batch.theta) else { return };
        let mut trace = Trace::new(simd);
        let block = VECTORS * S::F32_LANES;
        for (row, features) in batch.features.chunks_exact(WIDTH).enumerate() {
            let bias = parameters.joined_bias::<K>(features);
            for start in (0..batch.count).step_by(block) {
                let range = row * batch.count + start..row * batch.count + batch.count.min(start + block);
                let (y, vectors) = load(simd, &batch.y[range.clone()]);
                let results =
                    forward::<S, K, TANGENT>(simd, parameters.weights, &bias, &y, vectors, &mut trace);
                store(simd, &results[0], &mut value[range.clone()]);
                if TANGENT {
                    store(simd, &results[1], &mut first[range]);
                }
            }
        }
    }
}

struct Backward<'a, K, const TANGENT: bool> {
    batch: Batch<'a>,
    /// The gradients of f and of its derivative.
    g: [&'a [f32]; 2],
    results: Results<'a>,
    kind: std::marker::PhantomData<K>,
}

/// Where the gradients go.
struct Results<'a> {
    theta: &'a mut [f32],
    features: &'a mut [f32],
    y: &'a mut [f32],
}

impl<'a, K, const TANGENT: bool> Backward<'a, K, TANGENT> {
    fn new(batch: Batch<'a>, g: [&'a [f32]; 2], results: Results<'a>) -> Self {
        Self { batch, g, results, kind: std::marker::PhantomData }
    }
}

impl<K: Kind, const TANGENT: bool> WithSimd for Backward<'_, K, TANGENT> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { batch, g, results, .. } = self;
        let Results { theta: in_theta, features: in_features, y: in_y } = results;
        let Some(parameters) = Parameters::new(K::NETWORK, batch.theta) else { return };
        let (layout, zero) = (&parameters.layout, simd.splat_f32s(0.0));
        let (mut trace, mut sums) = (Trace::new(simd), Gradients::new(simd));
        let block = VECTORS * S::F32_LANES;
        let rows = batch.features.chunks_exact(WIDTH).zip(in_features.chunks_exact_mut(WIDTH));
        for (row, (features, in_features)) in rows.enumerate() {
            let bias = parameters.joined_bias::<K>(features);
            let mut joined = [zero; WIDTH];
            for start in (0..batch.count).step_by(block) {
                let range = row * batch.count + start..row * batch.count + batch.count.min(start + block);
                let (y, vectors) = load(simd, &batch.y[range.clone()]);
                let (g_value, _) = load(simd, &g[0][range.clone()]);
                let g_first = if TANGENT { load(simd, &g[1][range.clone()]).0 } else { [zero; VECTORS] };
                let weights = parameters.weights;
                forward::<S, K, TANGENT>(simd, weights, &bias, &y, vectors, &mut trace);
                let g = [g_value, g_first];
                let found = backward::<S, K, TANGENT>(
                    simd,
                    weights,
                    &y,
                    vectors,
                    &mut trace,
                    &g,
                    &mut sums,
                    &mut joined,
                );
                store(simd, &found, &mut in_y[range]);
            }
            // The joining layer's biases receive what its sum with W_x g_x receives.
            for o in 0..WIDTH {
                let sum = simd.reduce_sum_f32s(joined[o]);
                in_theta[layout.hidden[K::NETWORK.joining_layer()].bias.start + o] += sum;
                for i in 0..WIDTH {
                    in_theta[layout.joining.start + o * WIDTH + i] += sum * features[i];
                    in_features[i] += sum * parameters.joining[o][i];
                }
            }
        }
        let mut add = |at: usize, sum: S::f32s| in_theta[at] += simd.reduce_sum_f32s(sum);
        for o in 0..WIDTH {
            add(layout.y.weight.start + o, sums.y_weight[o]);
            add(layout.y.bias.start + o, sums.y_bias[o]);
            add(layout.out.weight.start + o, sums.out_weight[o]);
            for l in 0..LAYERS {
                add(layout.hidden[l].bias.start + o, sums.bias[l][o]);
                for i in 0..WIDTH {
                    add(layout.hidden[l].weight.start + o * WIDTH + i, sums.hidden[l][o][i]);
                }
            }
        }
        add(layout.out.bias.start, sums.out_bias);
    }
}
