//! f(x, y) for all samples of a batch, and the way back, each in one pass over the samples.
//!
//! A block of samples of one x goes through all layers before the next: its activations stay in the first-level cache.
//! Every loop over [`LANES`] numbers becomes vector instructions, of the set that [`arch`] finds at run time. A few
//! rows of the batch are one task, whatever the number of threads, and the tasks' sums are added in order: results do
//! not depend on that number.

use ebm_nn::ops::arch;
use rayon::prelude::*;

use crate::layout::{Activation, LAYERS, Layout, Linear, Network, WIDTH};

/// Samples in a block.
const LANES: usize = 32;
/// Partial sums over the samples of a block.
const PARTS: usize = 8;
/// Rows of the batch in a task.
const ROWS: usize = 4;

/// A number for each sample of a block.
type Lanes = [f32; LANES];
/// The values of a layer of a block, and their derivatives in y.
type Jet<const N: usize> = [[Lanes; N]; 2];

/// One way through the network, for a batch.
pub(crate) struct Pass<'a> {
    pub(crate) network: Network,
    /// 1 for f alone, 2 for f and its derivative in y.
    pub(crate) orders: usize,
    pub(crate) layout: Layout,
    pub(crate) theta: &'a [f32],
    /// M.
    pub(crate) count: usize,
}

/// What a task computes: the scores and their derivatives, or the gradients. The gradient in y is that of f alone.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) scores: [Vec<f32>; 2],
    pub(crate) theta: Vec<f32>,
    pub(crate) features: Vec<f32>,
    pub(crate) y: Vec<f32>,
}

/// What the way back needs of a layer of a block.
struct Trace {
    output: Jet<WIDTH>,
    /// φ'.
    slopes: [Lanes; WIDTH],
    /// φ'' times the derivative of its argument in y.
    bends: [Lanes; WIDTH],
}

impl Pass<'_> {
    /// The parts of the batch in order. `grad` are the gradients of f (B, M), and behind them those of its derivative
    /// if that is computed; without them the scores are.
    pub(crate) fn of_batch(&self, features: &[f32], y: &[f32], grad: Option<&[f32]>) -> Vec<Part> {
        let size = ROWS * self.count;
        let task = |(index, features): (usize, &[f32])| {
            let range = (index * size).min(y.len())..((index + 1) * size).min(y.len());
            let grad = grad.map(|grad| {
                let (value, first) = grad.split_at(y.len());
                [value, first].map(|order| order.get(range.clone()).unwrap_or_default())
            });
            arch().dispatch(|| self.of_rows(features, &y[range.clone()], grad))
        };
        features.par_chunks(ROWS * WIDTH).enumerate().map(task).collect()
    }

    #[inline(always)]
    fn of_rows(&self, features: &[f32], y: &[f32], grad: Option<[&[f32]; 2]>) -> Part {
        let len = if grad.is_some() { self.layout.len } else { 0 };
        let mut part = Part { theta: vec![0.0; len], ..Part::default() };
        let zero = [[0.0; LANES]; WIDTH];
        let trace = || Trace { output: [zero; 2], slopes: zero, bends: zero };
        let mut layers = [trace(), trace(), trace(), trace()];
        // Those of a row's gradients in the joined biases are the last.
        let mut sums = vec![[0.0; PARTS]; len + WIDTH];
        for (row, features) in features.chunks_exact(WIDTH).enumerate() {
            let bias = self.joined_bias(features);
            for start in (0..self.count).step_by(LANES) {
                let range = row * self.count + start..row * self.count + self.count.min(start + LANES);
                let y = block(&y[range.clone()]);
                let scores = self.forward(&bias, &y, &mut layers);
                if let Some(grad) = grad {
                    let grad = grad.map(|order| [block(order.get(range.clone()).unwrap_or_default())]);
                    let in_y = self.backward(&y, &grad, &layers, &mut sums);
                    part.y.extend_from_slice(&in_y[..range.len()]);
                } else {
                    for (all, [scores]) in part.scores.iter_mut().zip(&scores) {
                        all.extend_from_slice(&scores[..range.len()]);
                    }
                }
            }
            if grad.is_some() {
                self.join(features, &mut sums[len..], &mut part);
            }
        }
        for (sum, parts) in part.theta.iter_mut().zip(&sums) {
            *sum += parts.iter().sum::<f32>();
        }
        part
    }

    /// The biases of the layer that joins x, with W_x g_x, the same for all y.
    fn joined_bias(&self, features: &[f32]) -> [f32; WIDTH] {
        let mut bias = [0.0; WIDTH];
        bias.copy_from_slice(&self.theta[self.layout.hidden[self.network.joining_layer()].bias.clone()]);
        let weights = self.theta[self.layout.joining.clone()].chunks_exact(WIDTH);
        for (bias, weights) in bias.iter_mut().zip(weights) {
            *bias += weights.iter().zip(features).map(|(w, g)| w * g).sum::<f32>();
        }
        bias
    }

    /// Takes the sums of a row's gradients in these biases to all that they are made of.
    fn join(&self, features: &[f32], sums: &mut [[f32; PARTS]], part: &mut Part) {
        let layer = &self.layout.hidden[self.network.joining_layer()];
        let mut in_features = [0.0; WIDTH];
        for (o, parts) in sums.iter_mut().enumerate() {
            let sum = std::mem::take(parts).iter().sum::<f32>();
            part.theta[layer.bias.start + o] += sum;
            for (i, (in_feature, feature)) in in_features.iter_mut().zip(features).enumerate() {
                let weight = self.layout.joining.start + o * WIDTH + i;
                part.theta[weight] += sum * feature;
                *in_feature += sum * self.theta[weight];
            }
        }
        part.features.extend(in_features);
    }

    /// f of a block and its derivative in y; `joined` are the biases of the layer that joins x.
    #[inline(always)]
    fn forward(&self, joined: &[f32; WIDTH], y: &Lanes, layers: &mut [Trace; LAYERS + 1]) -> Jet<1> {
        let Self { network, layout, theta, .. } = self;
        let z = self.linear(&layout.y, &theta[layout.y.bias.clone()], &[[*y], [[1.0; LANES]]]);
        layers[0].activate(network.activation(), &z);
        for (l, layer) in layout.hidden.iter().enumerate() {
            let [before, after, ..] = &mut layers[l..] else { break };
            let bias = if l == network.joining_layer() { joined } else { &theta[layer.bias.clone()] };
            after.activate(network.activation(), &self.linear(layer, bias, &before.output));
            if network.is_residual(l) {
                let terms = before.output.as_flattened().as_flattened();
                let sums = after.output.as_flattened_mut().as_flattened_mut();
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            }
        }
        self.linear(&layout.out, &theta[layout.out.bias.clone()], &layers[LAYERS].output)
    }

    /// Adds to `sums` the gradients of a block whose [`forward`](Self::forward) left `layers`, given those of f and of
    /// its derivative. Returns the gradient in y of f alone.
    #[inline(always)]
    fn backward(
        &self,
        y: &Lanes,
        grad: &Jet<1>,
        layers: &[Trace; LAYERS + 1],
        sums: &mut [[f32; PARTS]],
    ) -> Lanes {
        let Self { network, layout, .. } = self;
        let zero = [[[0.0; LANES]; WIDTH]; 2];
        let mut g = zero;
        self.linear_back(&layout.out, layout.out.bias.start, grad, &layers[LAYERS].output, &mut g, sums);
        for (l, layer) in layout.hidden.iter().enumerate().rev() {
            let delta = layers[l + 1].back(&g);
            let bias = if l == network.joining_layer() { sums.len() - WIDTH } else { layer.bias.start };
            if !network.is_residual(l) {
                g = zero;
            }
            self.linear_back(layer, bias, &delta, &layers[l].output, &mut g, sums);
        }
        let mut in_y = [[[0.0; LANES]]; 2];
        let delta = layers[0].back(&g);
        self.linear_back(&layout.y, layout.y.bias.start, &delta, &[[*y], [[1.0; LANES]]], &mut in_y, sums);
        in_y[0][0]
    }

    /// W a + `bias`, and W a' for the derivative.
    #[inline(always)]
    fn linear<const I: usize, const O: usize>(&self, layer: &Linear, bias: &[f32], a: &Jet<I>) -> Jet<O> {
        let weights = &self.theta[layer.weight.clone()];
        let mut products = [[[0.0; LANES]; O]; 2];
        for order in 0..self.orders {
            for o in 0..O {
                let mut sum = [if order == 0 { bias[o] } else { 0.0 }; LANES];
                for i in 0..I {
                    add_times(&mut sum, weights[o * I + i], &a[order][i]);
                }
                products[order][o] = sum;
            }
        }
        products
    }

    /// Adds Wᵀ `delta` to `g`, and to `sums` the gradients in W and, from `bias` on, in the layer's biases.
    #[inline(always)]
    fn linear_back<const I: usize, const O: usize>(
        &self,
        layer: &Linear,
        bias: usize,
        delta: &Jet<O>,
        a: &Jet<I>,
        g: &mut Jet<I>,
        sums: &mut [[f32; PARTS]],
    ) {
        let weights = &self.theta[layer.weight.clone()];
        for o in 0..O {
            add_products(&mut sums[bias + o], &delta[0][o], &[1.0; LANES]);
            for order in 0..self.orders {
                let delta = delta[order][o];
                for i in 0..I {
                    add_products(&mut sums[layer.weight.start + o * I + i], &delta, &a[order][i]);
                    add_times(&mut g[order][i], weights[o * I + i], &delta);
                }
            }
        }
    }
}

impl Trace {
    /// From the arguments of the layer's activation to its output and what the way back needs.
    #[inline(always)]
    fn activate(&mut self, activation: Activation, z: &Jet<WIDTH>) {
        match activation {
            Activation::Relu => self.fill(z, |z| if z > 0.0 { (z, 1.0, 0.0) } else { (0.0, 0.0, 0.0) }),
            Activation::Tanh => self.fill(z, |z| {
                let value = tanh(z);
                let slope = (-value).mul_add(value, 1.0);
                (value, slope, -2.0 * (value * slope))
            }),
        }
    }

    /// [`activate`](Self::activate), given φ, φ' and φ''.
    #[inline(always)]
    fn fill(&mut self, [z, first]: &Jet<WIDTH>, phi: impl Fn(f32) -> (f32, f32, f32)) {
        for o in 0..WIDTH {
            for n in 0..LANES {
                let (value, slope, bend) = phi(z[o][n]);
                self.output[0][o][n] = value;
                self.output[1][o][n] = slope * first[o][n];
                self.slopes[o][n] = slope;
                self.bends[o][n] = bend * first[o][n];
            }
        }
    }

    /// From the gradients in the layer's output to those in the arguments of its activation.
    #[inline(always)]
    fn back(&self, [value, first]: &Jet<WIDTH>) -> Jet<WIDTH> {
        let mut delta = [[[0.0; LANES]; WIDTH]; 2];
        for o in 0..WIDTH {
            for n in 0..LANES {
                delta[0][o][n] = first[o][n].mul_add(self.bends[o][n], value[o][n] * self.slopes[o][n]);
                delta[1][o][n] = first[o][n] * self.slopes[o][n];
            }
        }
        delta
    }
}

/// Up to `LANES` numbers, and zeros.
fn block(values: &[f32]) -> Lanes {
    let mut block = [0.0; LANES];
    block[..values.len()].copy_from_slice(values);
    block
}

#[inline(always)]
fn add_times(sum: &mut Lanes, factor: f32, terms: &Lanes) {
    sum.iter_mut().zip(terms).for_each(|(sum, term)| *sum = factor.mul_add(*term, *sum));
}

#[inline(always)]
fn add_products(sums: &mut [f32; PARTS], a: &Lanes, b: &Lanes) {
    for start in (0..LANES).step_by(PARTS) {
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = a[start + n].mul_add(b[start + n], *sum);
        }
    }
}

/// tanh z to a few units in the last place of 1: Lambert's continued fraction at z/4, where seven terms suffice, and
/// twice tanh 2u = 2 tanh u / (1 + tanh² u), in numerators and denominators so that one division is left.
#[inline(always)]
fn tanh(z: f32) -> f32 {
    let u = z.clamp(-9.5, 9.5) * 0.25;
    let square = u * u;
    let horner = |[a, b, c]: [f32; 3]| a.mul_add(square, b).mul_add(square, c).mul_add(square, 1.0);
    // Both over 135135, which keeps the squares below small.
    let mut p = u * horner([1.0 / 135_135.0, 378.0 / 135_135.0, 17_325.0 / 135_135.0]);
    let mut q = horner([28.0 / 135_135.0, 3_150.0 / 135_135.0, 62_370.0 / 135_135.0]);
    for _ in 0..2 {
        (p, q) = (2.0 * (p * q), p.mul_add(p, q * q));
    }
    p / q
}
