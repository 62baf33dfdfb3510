//! The arithmetic of one block of samples, generic over the vector instructions of the machine.
//!
//! A block is a few vectors of samples of the same x. Each layer reads a weight once from the first-level
//! cache and multiplies a whole vector by it; activations never leave that cache between the way forward and
//! the way back.

use pulp::Simd;

use super::kind::Kind;
use crate::layout::{LAYERS, WIDTH};

/// Vectors of samples in a block: what lets all activations of a block stay in 48 KiB.
pub(super) const VECTORS: usize = 4;

/// The columns and rows of a register tile of weight gradients.
const TILE: usize = 5;

/// A hidden layer of one block.
type Block<S> = [[<S as Simd>::f32s; WIDTH]; VECTORS];

/// The parameters of the layers of y as slices of θ.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) y_weight: &'a [f32; WIDTH],
    pub(super) y_bias: &'a [f32; WIDTH],
    pub(super) hidden: [&'a [[f32; WIDTH]; WIDTH]; LAYERS],
    pub(super) out_weight: &'a [f32; WIDTH],
    pub(super) out_bias: f32,
}

/// What the way back needs of a block.
pub(super) struct Trace<S: Simd> {
    layers: [Layer<S>; LAYERS + 1],
    /// The gradients of the layer that the way back has reached.
    back: Back<S>,
}

/// What the way back needs of a layer.
#[derive(Clone, Copy)]
struct Layer<S: Simd> {
    /// Its output.
    values: Block<S>,
    /// φ'.
    slopes: Block<S>,
    /// The derivative of `values` in y.
    tangents: Block<S>,
    /// φ'' times the derivative of its argument in y.
    bends: Block<S>,
}

/// Gradients in a layer's output and in its derivative, then in the arguments of its activation.
struct Back<S: Simd> {
    values: Block<S>,
    tangents: Block<S>,
    delta: Block<S>,
    epsilon: Block<S>,
}

/// Sums over samples, one for each lane, of the gradients in the parameters.
pub(super) struct Gradients<S: Simd> {
    pub(super) y_weight: [S::f32s; WIDTH],
    pub(super) y_bias: [S::f32s; WIDTH],
    pub(super) hidden: [[[S::f32s; WIDTH]; WIDTH]; LAYERS],
    pub(super) bias: [[S::f32s; WIDTH]; LAYERS],
    pub(super) out_weight: [S::f32s; WIDTH],
    pub(super) out_bias: S::f32s,
}

impl<S: Simd> Trace<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        let block = [[simd.splat_f32s(0.0); WIDTH]; VECTORS];
        let layer = Layer { values: block, slopes: block, tangents: block, bends: block };
        let back = Back { values: block, tangents: block, delta: block, epsilon: block };
        Self { layers: [layer; LAYERS + 1], back }
    }
}

/// The output of a layer for a vector of samples, and its derivative in y.
type Output<S> = [[<S as Simd>::f32s; WIDTH]; 2];

impl<S: Simd> Layer<S> {
    /// Makes of `before` the layer's output for vector `v`, from the arguments of its activation and their
    /// derivatives in y; a residual layer adds to what was there.
    #[inline(always)]
    fn activate<K: Kind, const TANGENT: bool>(
        &mut self,
        simd: S,
        v: usize,
        [z, zt]: &Output<S>,
        residual: bool,
        [a, t]: &mut Output<S>,
    ) {
        for o in 0..WIDTH {
            let (value, slope) = K::activate(simd, z[o]);
            a[o] = if residual { simd.add_f32s(a[o], value) } else { value };
            self.values[v][o] = a[o];
            if K::KEEPS_SLOPES {
                self.slopes[v][o] = slope;
            }
            if TANGENT {
                let tangent = simd.mul_f32s(slope, zt[o]);
                t[o] = if residual { simd.add_f32s(t[o], tangent) } else { tangent };
                self.tangents[v][o] = t[o];
                self.bends[v][o] = simd.mul_f32s(K::bend(simd, value, slope), zt[o]);
            }
        }
    }
}

impl<S: Simd> Gradients<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        let zero = simd.splat_f32s(0.0);
        Self {
            y_weight: [zero; WIDTH],
            y_bias: [zero; WIDTH],
            hidden: [[[zero; WIDTH]; WIDTH]; LAYERS],
            bias: [[zero; WIDTH]; LAYERS],
            out_weight: [zero; WIDTH],
            out_bias: zero,
        }
    }
}

/// f of a block, and its derivative in y if `TANGENT`; `bias` are the biases of the hidden layers, the one of
/// the joining layer with the features of x added.
#[inline(always)]
pub(super) fn forward<S: Simd, K: Kind, const TANGENT: bool>(
    simd: S,
    weights: Weights<'_>,
    bias: &[[f32; WIDTH]; LAYERS],
    y: &[S::f32s; VECTORS],
    vectors: usize,
    trace: &mut Trace<S>,
) -> [[S::f32s; VECTORS]; 2] {
    let zero = simd.splat_f32s(0.0);
    let mut results = [[zero; VECTORS]; 2];
    for v in 0..vectors.min(VECTORS) {
        let (mut output, mut z, mut zt) = ([[zero; WIDTH]; 2], [zero; WIDTH], [zero; WIDTH]);
        for o in 0..WIDTH {
            let w = simd.splat_f32s(weights.y_weight[o]);
            z[o] = simd.mul_add_f32s(w, y[v], simd.splat_f32s(weights.y_bias[o]));
            zt[o] = w;
        }
        trace.layers[0].activate::<K, TANGENT>(simd, v, &[z, zt], false, &mut output);
        for (l, bias) in bias.iter().enumerate() {
            let (mut z, mut zt, [a, t]) = (bias.map(|bias| simd.splat_f32s(bias)), [zero; WIDTH], &output);
            for i in 0..WIDTH {
                for o in 0..WIDTH {
                    let w = simd.splat_f32s(weights.hidden[l][o][i]);
                    z[o] = simd.mul_add_f32s(w, a[i], z[o]);
                    if TANGENT {
                        zt[o] = simd.mul_add_f32s(w, t[i], zt[o]);
                    }
                }
            }
            let (layer, residual) = (&mut trace.layers[l + 1], K::NETWORK.is_residual(l));
            layer.activate::<K, TANGENT>(simd, v, &[z, zt], residual, &mut output);
        }
        let [a, t] = output;
        let (mut f, mut first) = (simd.splat_f32s(weights.out_bias), zero);
        for o in 0..WIDTH {
            let w = simd.splat_f32s(weights.out_weight[o]);
            f = simd.mul_add_f32s(w, a[o], f);
            if TANGENT {
                first = simd.mul_add_f32s(w, t[o], first);
            }
        }
        results[0][v] = f;
        results[1][v] = first;
    }
    results
}

/// Adds to `gradients` those of a block whose [`forward`] left `trace`, given the gradients `g` of f and of
/// its derivative; the sum over the samples of the joining layer's biases goes to `joined`. Returns the
/// gradient in y of f alone.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "one block's inputs and outputs, all of them slices of the caller's"
)]
pub(super) fn backward<S: Simd, K: Kind, const TANGENT: bool>(
    simd: S,
    weights: Weights<'_>,
    y: &[S::f32s; VECTORS],
    vectors: usize,
    trace: &mut Trace<S>,
    g: &[[S::f32s; VECTORS]; 2],
    gradients: &mut Gradients<S>,
    joined: &mut [S::f32s; WIDTH],
) -> [S::f32s; VECTORS] {
    let vectors = vectors.min(VECTORS);
    let Trace { layers, back } = trace;
    let Layer { values, tangents, .. } = &layers[LAYERS];
    for o in 0..WIDTH {
        let w = simd.splat_f32s(weights.out_weight[o]);
        let mut sum = gradients.out_weight[o];
        for v in 0..vectors {
            back.values[v][o] = simd.mul_f32s(w, g[0][v]);
            sum = simd.mul_add_f32s(values[v][o], g[0][v], sum);
            if TANGENT {
                back.tangents[v][o] = simd.mul_f32s(w, g[1][v]);
                sum = simd.mul_add_f32s(tangents[v][o], g[1][v], sum);
            }
        }
        gradients.out_weight[o] = sum;
    }
    gradients.out_bias = g[0][..vectors].iter().fold(gradients.out_bias, |sum, g| simd.add_f32s(sum, *g));
    for l in (0..LAYERS).rev() {
        let joins = l == K::NETWORK.joining_layer();
        let bias = if joins { &mut *joined } else { &mut gradients.bias[l] };
        through_activation::<S, K, TANGENT>(simd, &layers[l + 1], vectors, back, bias);
        let residual = K::NETWORK.is_residual(l);
        outer(simd, &back.delta, &layers[l].values, vectors, &mut gradients.hidden[l]);
        transposed(simd, weights.hidden[l], &back.delta, vectors, residual, &mut back.values);
        if TANGENT {
            outer(simd, &back.epsilon, &layers[l].tangents, vectors, &mut gradients.hidden[l]);
            transposed(simd, weights.hidden[l], &back.epsilon, vectors, residual, &mut back.tangents);
        }
    }
    through_activation::<S, K, TANGENT>(simd, &layers[0], vectors, back, &mut gradients.y_bias);
    let mut in_y = [simd.splat_f32s(0.0); VECTORS];
    for o in 0..WIDTH {
        let w = simd.splat_f32s(weights.y_weight[o]);
        let mut sum = gradients.y_weight[o];
        for v in 0..vectors {
            sum = simd.mul_add_f32s(back.delta[v][o], y[v], sum);
            in_y[v] = simd.mul_add_f32s(w, back.delta[v][o], in_y[v]);
            if TANGENT {
                sum = simd.add_f32s(sum, back.epsilon[v][o]);
            }
        }
        gradients.y_weight[o] = sum;
    }
    in_y
}

/// From the gradients in a layer's output, and in its derivative, to those in the arguments of its
/// activation, whose sum is added to `bias`.
#[inline(always)]
fn through_activation<S: Simd, K: Kind, const TANGENT: bool>(
    simd: S,
    layer: &Layer<S>,
    vectors: usize,
    back: &mut Back<S>,
    bias: &mut [S::f32s; WIDTH],
) {
    let (Layer { values, slopes, bends, .. }, mut sums) = (layer, *bias);
    for v in 0..vectors {
        for o in 0..WIDTH {
            let (output, slope) = (values[v][o], slopes[v][o]);
            let mut d = K::back(simd, back.values[v][o], output, slope);
            if TANGENT {
                d = simd.mul_add_f32s(back.tangents[v][o], bends[v][o], d);
                back.epsilon[v][o] = K::back(simd, back.tangents[v][o], output, slope);
            }
            back.delta[v][o] = d;
            sums[o] = simd.add_f32s(sums[o], d);
        }
    }
    *bias = sums;
}

/// `sums[o][i] += Σ_v delta[v][o] input[i][v]`, tile by tile in registers.
#[inline(always)]
fn outer<S: Simd>(
    simd: S,
    delta: &Block<S>,
    input: &Block<S>,
    vectors: usize,
    sums: &mut [[S::f32s; WIDTH]; WIDTH],
) {
    for row in [0, TILE] {
        for column in [0, TILE] {
            let mut tile = [[simd.splat_f32s(0.0); TILE]; TILE];
            for v in 0..vectors {
                for i in 0..TILE {
                    let a = input[v][column + i];
                    for o in 0..TILE {
                        tile[o][i] = simd.mul_add_f32s(delta[v][row + o], a, tile[o][i]);
                    }
                }
            }
            for o in 0..TILE {
                for i in 0..TILE {
                    let sum = &mut sums[row + o][column + i];
                    *sum = simd.add_f32s(*sum, tile[o][i]);
                }
            }
        }
    }
}

/// `gradient[v][i] = Σ_o weight[o][i] delta[v][o]`, plus itself in a residual layer.
#[inline(always)]
fn transposed<S: Simd>(
    simd: S,
    weight: &[[f32; WIDTH]; WIDTH],
    delta: &Block<S>,
    vectors: usize,
    residual: bool,
    gradient: &mut Block<S>,
) {
    for v in 0..vectors {
        let mut sums = if residual { gradient[v] } else { [simd.splat_f32s(0.0); WIDTH] };
        for o in 0..WIDTH {
            for i in 0..WIDTH {
                sums[i] = simd.mul_add_f32s(simd.splat_f32s(weight[o][i]), delta[v][o], sums[i]);
            }
        }
        gradient[v] = sums;
    }
}
