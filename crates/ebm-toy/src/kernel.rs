//! Fused kernels for f(x, y) of all samples of a batch, and for its gradients, each in one pass over the samples.
//!
//! A block is a few vectors of samples of one x. It passes all layers before the next block starts, so its activations
//! stay in the first-level cache, and each layer reads a weight once per vector. A task is a fixed number of rows of the
//! batch, and the sums of the tasks are added in order: results do not depend on the number of threads.

use ebm_ops::arch;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::layout::{Activation, LAYERS, Layout, Linear, Network, WIDTH};

/// Number of vectors of samples in a block.
const VECTORS: usize = 4;
/// Number of rows of the batch in a task.
const ROWS: usize = 4;

/// Values of a layer for a block: a number for each neuron and sample.
type Block<S, const N: usize> = [[<S as Simd>::f32s; VECTORS]; N];
/// Values of a layer for a block, and their derivatives in y.
type Jet<S, const N: usize> = [Block<S, N>; 2];

/// A pass of a batch through the network, for f alone (`ORDERS` = 1) or for f and its derivative in y (`ORDERS` = 2).
pub(crate) struct Pass<'a, const ORDERS: usize> {
    pub(crate) network: Network,
    pub(crate) layout: Layout,
    pub(crate) theta: &'a [f32],
    /// Number M of samples of each row.
    pub(crate) count: usize,
}

/// Results of a task: the scores and their derivatives, or the gradients. The gradient in y is that of f alone.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) scores: [Vec<f32>; 2],
    pub(crate) theta: Vec<f32>,
    pub(crate) features: Vec<f32>,
    pub(crate) y: Vec<f32>,
}

/// Values of a layer for a block that the backward pass needs.
#[derive(Clone, Copy)]
struct Trace<S: Simd> {
    output: Jet<S, WIDTH>,
    /// Slopes φ' of the activation.
    slopes: Block<S, WIDTH>,
    /// φ'' of the activation, times the derivative of its argument in y.
    bends: Block<S, WIDTH>,
}

/// A few rows of the batch.
struct Task<'a, const ORDERS: usize> {
    pass: &'a Pass<'a, ORDERS>,
    features: &'a [f32],
    y: &'a [f32],
    grad: Option<[&'a [f32]; 2]>,
}

impl<const ORDERS: usize> WithSimd for Task<'_, ORDERS> {
    type Output = Part;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Part {
        self.pass.of_rows(simd, self.features, self.y, self.grad)
    }
}

impl<const ORDERS: usize> Pass<'_, ORDERS> {
    /// Returns the parts of the batch in order. Without `grad` they are the scores. With `grad`, the gradients in f (B, M),
    /// followed by those in its derivative if that is computed, they are the gradients.
    pub(crate) fn of_batch(&self, features: &[f32], y: &[f32], grad: Option<&[f32]>) -> Vec<Part> {
        let size = ROWS * self.count;
        let task = |(index, features): (usize, &[f32])| {
            let range = (index * size).min(y.len())..((index + 1) * size).min(y.len());
            let grad = grad.map(|grad| {
                let (value, first) = grad.split_at(y.len());
                [value, first].map(|order| order.get(range.clone()).unwrap_or_default())
            });
            arch().dispatch(Task { pass: self, features, y: &y[range.clone()], grad })
        };
        features.par_chunks(ROWS * WIDTH).enumerate().map(task).collect()
    }

    #[inline(always)]
    fn of_rows<S: Simd>(&self, simd: S, features: &[f32], y: &[f32], grad: Option<[&[f32]; 2]>) -> Part {
        let len = if grad.is_some() { self.layout.len } else { 0 };
        let mut part = Part { theta: vec![0.0; len], ..Part::default() };
        let zero = [[simd.splat_f32s(0.0); VECTORS]; WIDTH];
        let mut layers = [Trace { output: [zero; 2], slopes: zero, bends: zero }; LAYERS + 1];
        // The last entries sum a row's gradients in the joined biases.
        let mut sums = vec![simd.splat_f32s(0.0); len + WIDTH];
        let block = VECTORS * S::F32_LANES;
        for (row, features) in features.chunks_exact(WIDTH).enumerate() {
            let bias = self.joined_bias(features);
            for start in (0..self.count).step_by(block) {
                let range = row * self.count + start..row * self.count + self.count.min(start + block);
                let y = load(simd, &y[range.clone()]);
                let vectors = range.len().div_ceil(S::F32_LANES);
                let scores = self.forward(simd, vectors, &bias, &y, &mut layers);
                if let Some(grad) = grad {
                    let grad = grad.map(|order| load(simd, order.get(range.clone()).unwrap_or_default()));
                    let in_y = self.backward(simd, vectors, &y, &grad, &layers, &mut sums);
                    store(simd, &in_y, range.len(), &mut part.y);
                } else {
                    part.scores
                        .iter_mut()
                        .zip(&scores)
                        .for_each(|(all, scores)| store(simd, scores, range.len(), all));
                }
            }
            if grad.is_some() {
                let row_sums = &mut sums[len..];
                let totals: Vec<f32> = row_sums.iter().map(|sum| simd.reduce_sum_f32s(*sum)).collect();
                row_sums.fill(simd.splat_f32s(0.0));
                self.join(features, &totals, &mut part);
            }
        }
        part.theta.iter_mut().zip(&sums).for_each(|(all, sum)| *all += simd.reduce_sum_f32s(*sum));
        part
    }

    /// Computes the biases of the layer that joins x, plus W_x g_x, which is the same for all y.
    fn joined_bias(&self, features: &[f32]) -> [f32; WIDTH] {
        let mut bias = [0.0; WIDTH];
        bias.copy_from_slice(&self.theta[self.layout.hidden[self.network.joining_layer()].bias.clone()]);
        let weights = self.theta[self.layout.joining.clone()].chunks_exact(WIDTH);
        for (bias, weights) in bias.iter_mut().zip(weights) {
            *bias += weights.iter().zip(features).map(|(w, g)| w * g).sum::<f32>();
        }
        bias
    }

    /// Adds the sums of a row's gradients in the joined biases to the gradients of their bias, weights and features.
    fn join(&self, features: &[f32], sums: &[f32], part: &mut Part) {
        let layer = &self.layout.hidden[self.network.joining_layer()];
        let mut in_features = [0.0; WIDTH];
        for (o, sum) in sums.iter().enumerate() {
            part.theta[layer.bias.start + o] += sum;
            for (i, (in_feature, feature)) in in_features.iter_mut().zip(features).enumerate() {
                let weight = self.layout.joining.start + o * WIDTH + i;
                part.theta[weight] += sum * feature;
                *in_feature += sum * self.theta[weight];
            }
        }
        part.features.extend(in_features);
    }

    /// Computes f of the first `vectors` of a block and its derivative in y; `joined` are the biases of the joining layer.
    #[inline(always)]
    fn forward<S: Simd>(
        &self,
        simd: S,
        vectors: usize,
        joined: &[f32; WIDTH],
        y: &Block<S, 1>,
        layers: &mut [Trace<S>; LAYERS + 1],
    ) -> Jet<S, 1> {
        let Self { network, layout, theta, .. } = self;
        let one = [[simd.splat_f32s(1.0); VECTORS]];
        let mut scores = [[[simd.splat_f32s(0.0); VECTORS]]; 2];
        for v in 0..vectors.min(VECTORS) {
            let z = self.linear(simd, &layout.y, &theta[layout.y.bias.clone()], &[*y, one], v);
            layers[0].activate::<ORDERS>(simd, network.activation(), &z, v);
            for (l, layer) in layout.hidden.iter().enumerate() {
                let [before, after, ..] = &mut layers[l..] else { break };
                let bias = if l == network.joining_layer() { joined } else { &theta[layer.bias.clone()] };
                let z = self.linear(simd, layer, bias, &before.output, v);
                after.activate::<ORDERS>(simd, network.activation(), &z, v);
                if network.is_residual(l) {
                    for (sums, terms) in after.output.iter_mut().zip(&before.output).take(ORDERS) {
                        sums.iter_mut()
                            .zip(terms)
                            .for_each(|(sum, term)| sum[v] = simd.add_f32s(sum[v], term[v]));
                    }
                }
            }
            let out = &layers[LAYERS].output;
            let [[f], [first]] = self.linear(simd, &layout.out, &theta[layout.out.bias.clone()], out, v);
            (scores[0][0][v], scores[1][0][v]) = (f, first);
        }
        scores
    }

    /// Adds to `sums` the gradients of a block, given the gradients in f and in its derivative. `layers` are the result of
    /// [`forward`](Self::forward) for the block. Returns the gradient in y of f alone.
    #[inline(always)]
    fn backward<S: Simd>(
        &self,
        simd: S,
        vectors: usize,
        y: &Block<S, 1>,
        grad: &Jet<S, 1>,
        layers: &[Trace<S>; LAYERS + 1],
        sums: &mut [S::f32s],
    ) -> Block<S, 1> {
        let Self { network, layout, .. } = self;
        let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
        let back = Back { pass: self, simd, vectors: vectors.min(VECTORS) };
        let (mut g, joined) = ([[[zero; VECTORS]; WIDTH]; 2], sums.len() - WIDTH);
        back.linear(&layout.out, layout.out.bias.start, grad, &layers[LAYERS].output, &mut g, sums);
        for (l, layer) in layout.hidden.iter().enumerate().rev() {
            let delta = back.activation(&layers[l + 1], &g);
            let bias = if l == network.joining_layer() { joined } else { layer.bias.start };
            if !network.is_residual(l) {
                g = [[[zero; VECTORS]; WIDTH]; 2];
            }
            back.linear(layer, bias, &delta, &layers[l].output, &mut g, sums);
        }
        let (mut in_y, y) = ([[[zero; VECTORS]]; 2], [*y, [[one; VECTORS]]]);
        let delta = back.activation(&layers[0], &g);
        back.linear(&layout.y, layout.y.bias.start, &delta, &y, &mut in_y, sums);
        in_y[0]
    }

    /// Computes W a + `bias` for vector `v`, and W a' for the derivative.
    #[inline(always)]
    fn linear<S: Simd, const I: usize, const O: usize>(
        &self,
        simd: S,
        layer: &Linear,
        bias: &[f32],
        a: &Jet<S, I>,
        v: usize,
    ) -> [[S::f32s; O]; 2] {
        let (weights, bias) = (&self.theta[layer.weight.clone()][..I * O], &bias[..O]);
        let mut z = [[simd.splat_f32s(0.0); O]; 2];
        for order in 0..ORDERS {
            let mut sums = [simd.splat_f32s(0.0); O];
            for o in 0..O {
                sums[o] = simd.splat_f32s(if order == 0 { bias[o] } else { 0.0 });
            }
            for i in 0..I {
                for o in 0..O {
                    let weight = simd.splat_f32s(weights[o * I + i]);
                    sums[o] = simd.mul_add_f32s(weight, a[order][i][v], sums[o]);
                }
            }
            z[order] = sums;
        }
        z
    }
}

/// Backward pass through a layer, for the first `vectors` of a block.
struct Back<'a, S, const ORDERS: usize> {
    pass: &'a Pass<'a, ORDERS>,
    simd: S,
    vectors: usize,
}

impl<S: Simd, const ORDERS: usize> Back<'_, S, ORDERS> {
    /// Adds Wᵀ `delta` to `g`, and to `sums` the gradients in W and, from `bias` on, in the layer's biases.
    #[inline(always)]
    fn linear<const I: usize, const O: usize>(
        &self,
        layer: &Linear,
        bias: usize,
        delta: &Jet<S, O>,
        a: &Jet<S, I>,
        g: &mut Jet<S, I>,
        sums: &mut [S::f32s],
    ) {
        let (simd, weights) = (self.simd, &self.pass.theta[layer.weight.clone()][..I * O]);
        for (sum, delta) in sums[bias..bias + O].iter_mut().zip(&delta[0]) {
            *sum = delta[..self.vectors].iter().fold(*sum, |sum, delta| simd.add_f32s(sum, *delta));
        }
        for order in 0..ORDERS {
            for (row, delta) in sums[layer.weight.clone()].chunks_exact_mut(I).zip(&delta[order]) {
                // A local array, which stays in registers.
                let mut sums = [simd.splat_f32s(0.0); I];
                sums.copy_from_slice(row);
                for v in 0..self.vectors {
                    for i in 0..I {
                        sums[i] = simd.mul_add_f32s(delta[v], a[order][i][v], sums[i]);
                    }
                }
                row.copy_from_slice(&sums);
            }
            for v in 0..self.vectors {
                let mut sums = [simd.splat_f32s(0.0); I];
                for i in 0..I {
                    sums[i] = g[order][i][v];
                }
                for o in 0..O {
                    for i in 0..I {
                        let weight = simd.splat_f32s(weights[o * I + i]);
                        sums[i] = simd.mul_add_f32s(weight, delta[order][o][v], sums[i]);
                    }
                }
                for i in 0..I {
                    g[order][i][v] = sums[i];
                }
            }
        }
    }

    /// Computes the gradients in the arguments of a layer's activation from those in the layer's output.
    #[inline(always)]
    fn activation(&self, layer: &Trace<S>, [value, first]: &Jet<S, WIDTH>) -> Jet<S, WIDTH> {
        let simd = self.simd;
        let mut delta = [[[simd.splat_f32s(0.0); VECTORS]; WIDTH]; 2];
        for o in 0..WIDTH {
            for v in 0..self.vectors {
                let slope = layer.slopes[o][v];
                delta[0][o][v] = simd.mul_f32s(value[o][v], slope);
                if ORDERS > 1 {
                    delta[0][o][v] = simd.mul_add_f32s(first[o][v], layer.bends[o][v], delta[0][o][v]);
                    delta[1][o][v] = simd.mul_f32s(first[o][v], slope);
                }
            }
        }
        delta
    }
}

impl<S: Simd> Trace<S> {
    /// Computes the layer's output for vector `v` from `z`, the activation's arguments, and keeps it with the slopes.
    #[inline(always)]
    fn activate<const ORDERS: usize>(
        &mut self,
        simd: S,
        activation: Activation,
        [z, first]: &[[S::f32s; WIDTH]; 2],
        v: usize,
    ) {
        let splat = |value: f32| simd.splat_f32s(value);
        for (o, (&z, &first)) in z.iter().zip(first).enumerate() {
            let (value, slope, curvature) = match activation {
                Activation::Relu => {
                    let positive = simd.greater_than_f32s(z, splat(0.0));
                    let select = |one| simd.select_f32s(positive, one, splat(0.0));
                    (select(z), select(splat(1.0)), splat(0.0))
                }
                Activation::Tanh => {
                    let value = tanh(simd, z);
                    let slope = simd.negate_mul_add_f32s(value, value, splat(1.0));
                    (value, slope, simd.mul_f32s(splat(-2.0), simd.mul_f32s(value, slope)))
                }
            };
            (self.output[0][o][v], self.slopes[o][v]) = (value, slope);
            if ORDERS > 1 {
                self.output[1][o][v] = simd.mul_f32s(slope, first);
                self.bends[o][v] = simd.mul_f32s(curvature, first);
            }
        }
    }
}

/// Loads a block of numbers, padded with zeros.
#[inline(always)]
fn load<S: Simd>(simd: S, values: &[f32]) -> Block<S, 1> {
    let mut vectors = [simd.splat_f32s(0.0); VECTORS];
    for (vector, values) in vectors.iter_mut().zip(values.chunks(S::F32_LANES)) {
        *vector = simd.partial_load_f32s(values);
    }
    [vectors]
}

/// Appends the first `count` numbers of a block.
#[inline(always)]
fn store<S: Simd>(simd: S, [vectors]: &Block<S, 1>, count: usize, all: &mut Vec<f32>) {
    let start = all.len();
    all.resize(start + count, 0.0);
    for (values, vector) in all[start..].chunks_mut(S::F32_LANES).zip(vectors) {
        simd.partial_store_f32s(values, *vector);
    }
}

/// Computes tanh z to a few units in the last place of 1. Lambert's continued fraction with seven terms is exact
/// enough at z/4; tanh 2u = 2 tanh u / (1 + tanh² u) is then applied twice, to numerator and denominator, so that
/// one division is enough.
#[inline(always)]
fn tanh<S: Simd>(simd: S, z: S::f32s) -> S::f32s {
    let splat = |value: f32| simd.splat_f32s(value);
    let clamped = simd.max_f32s(simd.min_f32s(z, splat(9.5)), splat(-9.5));
    let u = simd.mul_f32s(clamped, splat(0.25));
    let square = simd.mul_f32s(u, u);
    let horner = |coefficients: [f32; 4]| {
        let mut sum = splat(coefficients[0]);
        for coefficient in &coefficients[1..] {
            sum = simd.mul_add_f32s(sum, square, splat(*coefficient));
        }
        sum
    };
    // Both are divided by 135135, which keeps the squares below small.
    let mut p = simd.mul_f32s(u, horner([1.0 / 135_135.0, 378.0 / 135_135.0, 17_325.0 / 135_135.0, 1.0]));
    let mut q = horner([28.0 / 135_135.0, 3_150.0 / 135_135.0, 62_370.0 / 135_135.0, 1.0]);
    for _ in 0..2 {
        let product = simd.mul_f32s(p, q);
        q = simd.mul_add_f32s(p, p, simd.mul_f32s(q, q));
        p = simd.add_f32s(product, product);
    }
    simd.div_f32s(p, q)
}
