//! The arithmetic of one block of samples, generic over the vector instructions of the machine.
//!
//! A block is a few vectors of samples of the same x. Each layer reads a weight once from the first-level
//! cache and multiplies a whole vector by it; activations never leave that cache between the way forward and
//! the way back.

use pulp::Simd;

use crate::layout::{LAYERS, Network, WIDTH};

/// Vectors of samples in a block: what lets all activations of a block stay in 48 KiB.
pub(super) const VECTORS: usize = 4;

/// The columns and rows of a register tile of weight gradients.
const TILE: usize = 5;

/// A hidden layer of one block.
type Block<S> = [[<S as Simd>::f32s; WIDTH]; VECTORS];

/// What distinguishes the two networks.
pub(super) trait Kind {
    /// Its shape, known to the compiler.
    const NETWORK: Network;
    /// Whether φ' is kept for the way back, or found in the layer's output.
    const KEEPS_SLOPES: bool;
    /// φ(z) and φ'(z).
    fn activate<S: Simd>(simd: S, z: S::f32s) -> (S::f32s, S::f32s);
    /// `g` φ', given the layer's output and what was kept.
    fn back<S: Simd>(simd: S, g: S::f32s, output: S::f32s, slope: S::f32s) -> S::f32s;
    /// φ''(z), from φ(z) and φ'(z).
    fn bend<S: Simd>(simd: S, value: S::f32s, slope: S::f32s) -> S::f32s;
}

pub(super) struct Eccv;
pub(super) struct Bmvc;

impl Kind for Eccv {
    const NETWORK: Network = Network::Eccv;
    const KEEPS_SLOPES: bool = false;

    #[inline(always)]
    fn activate<S: Simd>(simd: S, z: S::f32s) -> (S::f32s, S::f32s) {
        let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
        let positive = simd.greater_than_f32s(z, zero);
        (simd.select_f32s(positive, z, zero), simd.select_f32s(positive, one, zero))
    }

    #[inline(always)]
    fn back<S: Simd>(simd: S, g: S::f32s, output: S::f32s, _: S::f32s) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        simd.select_f32s(simd.greater_than_f32s(output, zero), g, zero)
    }

    #[inline(always)]
    fn bend<S: Simd>(simd: S, _: S::f32s, _: S::f32s) -> S::f32s {
        simd.splat_f32s(0.0)
    }
}

impl Kind for Bmvc {
    const NETWORK: Network = Network::Bmvc;
    const KEEPS_SLOPES: bool = true;

    #[inline(always)]
    fn activate<S: Simd>(simd: S, z: S::f32s) -> (S::f32s, S::f32s) {
        let value = tanh(simd, z);
        (value, simd.negate_mul_add_f32s(value, value, simd.splat_f32s(1.0)))
    }

    #[inline(always)]
    fn back<S: Simd>(simd: S, g: S::f32s, _: S::f32s, slope: S::f32s) -> S::f32s {
        simd.mul_f32s(g, slope)
    }

    #[inline(always)]
    fn bend<S: Simd>(simd: S, value: S::f32s, slope: S::f32s) -> S::f32s {
        simd.mul_f32s(simd.splat_f32s(-2.0), simd.mul_f32s(value, slope))
    }
}

/// tanh z to a few units in the last place of 1: Lambert's continued fraction at z/4, where seven terms
/// suffice, and twice tanh 2u = 2 tanh u / (1 + tanh² u), in numerators and denominators so that one division
/// is left.
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
    // Both over 135135, which keeps the squares below small.
    let mut p = simd.mul_f32s(u, horner([1.0 / 135_135.0, 378.0 / 135_135.0, 17_325.0 / 135_135.0, 1.0]));
    let mut q = horner([28.0 / 135_135.0, 3_150.0 / 135_135.0, 62_370.0 / 135_135.0, 1.0]);
    for _ in 0..2 {
        let product = simd.mul_f32s(p, q);
        q = simd.mul_add_f32s(p, p, simd.mul_f32s(q, q));
        p = simd.add_f32s(product, product);
    }
    simd.div_f32s(p, q)
}

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
        let (mut output, mut arguments) = ([[zero; WIDTH]; 2], [[zero; WIDTH]; 2]);
        for o in 0..WIDTH {
            let w = simd.splat_f32s(weights.y_weight[o]);
            arguments[0][o] = simd.mul_add_f32s(w, y[v], simd.splat_f32s(weights.y_bias[o]));
            arguments[1][o] = w;
        }
        trace.layers[0].activate::<K, TANGENT>(simd, v, &arguments, false, &mut output);
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
    for o in 0..WIDTH {
        let w = simd.splat_f32s(weights.out_weight[o]);
        let mut sum = gradients.out_weight[o];
        for v in 0..vectors {
            back.values[v][o] = simd.mul_f32s(w, g[0][v]);
            sum = simd.mul_add_f32s(layers[LAYERS].values[v][o], g[0][v], sum);
            if TANGENT {
                back.tangents[v][o] = simd.mul_f32s(w, g[1][v]);
                sum = simd.mul_add_f32s(layers[LAYERS].tangents[v][o], g[1][v], sum);
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
    let mut sums = *bias;
    for v in 0..vectors {
        for o in 0..WIDTH {
            let (output, slope) = (layer.values[v][o], layer.slopes[v][o]);
            let mut d = K::back(simd, back.values[v][o], output, slope);
            if TANGENT {
                d = simd.mul_add_f32s(back.tangents[v][o], layer.bends[v][o], d);
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
