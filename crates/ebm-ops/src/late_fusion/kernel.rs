//! The head on blocks of rows. The forward pass marks the open hidden units (z > 0), and the backward pass needs only these
//! marks.
//!
//! With `z = a + W_y g_y`, `h = max(z, 0)` and `f = w·h + bias`, let `u = (∂L/∂f) 1[z > 0]`, a row of H numbers for each row.
//! Then all gradients follow from u without z: `∂L/∂a = w ⊙ Σ u` over the rows of an image; `∂L/∂W_y = diag(w) Σ u g_yᵀ`;
//! `∂L/∂g_y = (diag(w) W_y)ᵀ u`; and since `h = 1[z > 0] z`, `∂L/∂w_j = Σ u_j z_j = Σ_b a_bj (Σ u_j) + W_y[j]·(Σ u_j g_y)`.
//! So the forward pass keeps one bit for each unit, and the backward pass is two products.

use std::ops::Range;

use candle_core::Result;
use rayon::prelude::*;

use super::network::{Network, Sizes, relu};
use super::product::PackedProduct;
use crate::gemm::{MatMut, MatRef, even_ranges, multiply};
use crate::packed::Strided;
use crate::simd::arch;

/// Rows that are computed at a time.
const BLOCK: usize = 128;
/// Hidden units that are computed at a time. The data of a block for them stay in the second-level cache.
const CHUNK: usize = 256;
/// Numbers between the rows of u. Rows at a distance of a power of two would displace each other from the cache.
const PADDING: usize = 16;
/// Rows in a word of marks.
const WORD: usize = u32::BITS as usize;
/// Tasks of a backward pass, each with its own sums of gradients.
const TASKS: usize = 16;
/// Sums that are computed at a time in a reduction.
pub(super) const LANES: usize = 16;

/// Arguments of an evaluation of the head.
pub(super) struct Head<'a, T> {
    pub(super) sizes: &'a Sizes,
    pub(super) network: Network<'a, T>,
    /// Projected features a, B × H.
    pub(super) projected: &'a [T],
    /// Candidates y, B·M rows of D numbers.
    pub(super) y: &'a [T],
    /// Number of candidates M of an input.
    pub(super) count: usize,
}

/// The gradients that are wanted. The gradient in a always is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) y: bool,
    pub(super) theta: bool,
}

/// Gradients in a, y and θ. The last two are empty unless wanted.
pub(super) struct Gradients<T> {
    pub(super) projected: Vec<T>,
    pub(super) y: Vec<T>,
    pub(super) theta: Vec<T>,
}

/// Returns the ranges of hidden units that are computed at a time.
fn chunks(sizes: &Sizes) -> impl Iterator<Item = Range<usize>> + use<> {
    let hidden = sizes.hidden;
    (0..hidden).step_by(CHUNK).map(move |start| start..(start + CHUNK).min(hidden))
}

/// Packs W_yᵀ (K × H), one matrix for each chunk of units.
pub(super) fn pack_forward<T: PackedProduct>(sizes: &Sizes, join: &[T]) -> Vec<T::Packed> {
    let width = sizes.width();
    let pack = |units: Range<usize>| T::pack(width, units.len(), |k, j| join[(units.start + j) * width + k]);
    chunks(sizes).map(pack).collect()
}

/// Packs diag(w) W_y (H × K), one matrix for each chunk of units.
pub(super) fn pack_backward<T: PackedProduct>(sizes: &Sizes, join: &[T], out: &[T]) -> Vec<T::Packed> {
    let width = sizes.width();
    let pack = |units: Range<usize>| {
        let first = units.start;
        T::pack(units.len(), width, |j, k| out[first + j] * join[(first + j) * width + k])
    };
    chunks(sizes).map(pack).collect()
}

impl<T: PackedProduct> Head<'_, T> {
    fn rows(&self) -> usize {
        self.y.len() / self.sizes.dim()
    }

    /// Returns f of all rows and, if `keep`, the marks of the open units. For each block and every [`WORD`] rows there is a
    /// word of each unit.
    pub(super) fn scores(&self, packed: &[T::Packed], keep: bool) -> Result<(Vec<T>, Vec<u32>)> {
        let rows = self.rows();
        let mut f = vec![T::zero(); rows];
        let per_block = if keep { BLOCK / WORD * self.sizes.hidden } else { 0 };
        let mut open = vec![0; rows.div_ceil(BLOCK) * per_block];
        // Without marks the blocks have no words.
        let mut words: Vec<&mut [u32]> = open.chunks_mut(per_block.max(1)).collect();
        words.resize_with(rows.div_ceil(BLOCK), Default::default);
        f.par_chunks_mut(BLOCK).zip(words).enumerate().try_for_each(|(block, (f, open))| {
            let features = self.features(block * BLOCK, f.len())?;
            self.score_block(packed, block * BLOCK, last(&features), f, open)
        })?;
        Ok((f, open))
    }

    /// Returns f and its gradient in y.
    pub(super) fn scores_and_gradients(
        &self,
        forward: &[T::Packed],
        backward: &[T::Packed],
    ) -> Result<(Vec<T>, Vec<T>)> {
        let (rows, dim) = (self.rows(), self.sizes.dim());
        let (mut f, mut gradient) = (vec![T::zero(); rows], vec![T::zero(); rows * dim]);
        let blocks = f.par_chunks_mut(BLOCK).zip(gradient.par_chunks_mut(BLOCK * dim)).enumerate();
        blocks.try_for_each(|(block, (f, gradient))| {
            let (first, rows) = (block * BLOCK, f.len());
            let values = self.features(first, rows)?;
            let mut open = vec![0; rows.div_ceil(WORD) * self.sizes.hidden];
            self.score_block(forward, first, last(&values), f, &mut open)?;
            let ones = vec![T::one(); rows];
            let slopes = self.back_block(backward, first, &ones, &open, last(&values), None)?;
            gradient.copy_from_slice(&self.network.back(&values, slopes, rows, true, None)?);
            Ok::<(), candle_core::Error>(())
        })?;
        Ok((f, gradient))
    }

    /// Returns the values of the layers of y for `rows` rows.
    pub(super) fn features(&self, first: usize, rows: usize) -> Result<Vec<Vec<T>>> {
        let dim = self.sizes.dim();
        self.network.features(&self.y[first * dim..(first + rows) * dim], rows)
    }

    /// Computes f of a block with these features.
    fn score_block(
        &self,
        packed: &[T::Packed],
        first: usize,
        features: &[T],
        f: &mut [T],
        open: &mut [u32],
    ) -> Result<()> {
        let hidden = self.sizes.hidden;
        let features = Strided { data: features, stride: self.sizes.width() };
        let mut z = vec![T::zero(); f.len() * CHUNK.min(hidden)];
        f.fill(self.network.bias);
        for (units, packed) in chunks(self.sizes).zip(packed) {
            let z = &mut z[..f.len() * units.len()];
            T::product(features, packed, false, z)?;
            let out = &self.network.out[units.clone()];
            arch().dispatch(|| {
                for (i, (f, z)) in f.iter_mut().zip(z.chunks_exact(units.len())).enumerate() {
                    let a = &self.projected[(first + i) / self.count * hidden..][units.clone()];
                    *f += if open.is_empty() {
                        reduce::<T, false>(z, a, out, &mut [], 0)
                    } else {
                        let words = &mut open[i / WORD * hidden..][units.clone()];
                        reduce::<T, true>(z, a, out, words, i % WORD)
                    };
                }
            });
        }
        Ok(())
    }

    /// Returns the gradient in the features of a block from the gradient in its f, and adds the gradients of the parameters
    /// to `sums`.
    fn back_block(
        &self,
        packed: &[T::Packed],
        first: usize,
        g: &[T],
        open: &[u32],
        features: &[T],
        mut sums: Option<&mut Sums<T>>,
    ) -> Result<Vec<T>> {
        let (hidden, width, rows) = (self.sizes.hidden, self.sizes.width(), g.len());
        let mut gradient = vec![T::zero(); rows * width];
        let stride = CHUNK + PADDING;
        let mut u = vec![T::zero(); rows * stride];
        for (units, packed) in chunks(self.sizes).zip(packed) {
            arch().dispatch(|| {
                for (i, (u, g)) in u.chunks_exact_mut(stride).zip(g).enumerate() {
                    let words = &open[i / WORD * hidden..][units.clone()];
                    for (u, word) in u.iter_mut().zip(words) {
                        *u = if word >> (i % WORD) & 1 == 1 { *g } else { T::zero() };
                    }
                }
            });
            T::product(Strided { data: &u, stride }, packed, true, &mut gradient)?;
            let Some(sums) = sums.as_deref_mut() else { continue };
            let moments = &mut sums.moments[units.start * width..units.end * width];
            multiply(
                &mut MatMut::new(moments, units.len(), width)?,
                true,
                MatRef::new(&u, (rows, units.len()), (stride, 1))?.t(),
                MatRef::new(features, (rows, width), (width, 1))?,
            )?;
            arch().dispatch(|| {
                for (i, u) in u.chunks_exact(stride).enumerate() {
                    let image = (first + i) / self.count - sums.image;
                    let to = &mut sums.opened[image * hidden..][units.clone()];
                    to.iter_mut().zip(u).for_each(|(to, u)| *to += *u);
                }
            });
        }
        Ok(gradient)
    }

    /// Returns the gradients from `g`, the gradient in f, and the marks that [`scores`](Self::scores) kept.
    pub(super) fn gradients(
        &self,
        packed: &[T::Packed],
        g: &[T],
        open: &[u32],
        wanted: Wanted,
    ) -> Result<Gradients<T>> {
        let blocks: Vec<_> = (0..self.rows().div_ceil(BLOCK)).collect();
        let tasks = even_ranges(blocks.len(), TASKS, 1);
        let tasks = tasks.into_par_iter().map(|blocks| self.task(packed, g, open, wanted, blocks));
        self.merge(tasks.collect::<Result<_>>()?, g, wanted)
    }

    /// Returns the share of some blocks in the gradients.
    fn task(
        &self,
        packed: &[T::Packed],
        g: &[T],
        open: &[u32],
        wanted: Wanted,
        blocks: Range<usize>,
    ) -> Result<Sums<T>> {
        let (hidden, width) = (self.sizes.hidden, self.sizes.width());
        let (first, end) = (blocks.start * BLOCK, (blocks.end * BLOCK).min(self.rows()));
        let (image, last_image) = (first / self.count, (end - 1) / self.count);
        let mut sums = Sums {
            layers: vec![T::zero(); self.sizes.of_layers()],
            moments: vec![T::zero(); hidden * width],
            image,
            opened: vec![T::zero(); (last_image + 1 - image) * hidden],
            y: Vec::new(),
        };
        for block in blocks {
            let first = block * BLOCK;
            let g = &g[first..(first + BLOCK).min(g.len())];
            let open = &open[block * (BLOCK / WORD * hidden)..];
            let values = self.features(first, g.len())?;
            let slopes = self.back_block(packed, first, g, open, last(&values), Some(&mut sums))?;
            let theta = wanted.theta.then_some(sums.layers.as_mut_slice());
            let slopes = self.network.back(&values, slopes, g.len(), wanted.y, theta)?;
            if wanted.y {
                sums.y.extend(slopes);
            }
        }
        Ok(sums)
    }

    /// Adds up the results of the tasks, in their order.
    fn merge(&self, tasks: Vec<Sums<T>>, g: &[T], wanted: Wanted) -> Result<Gradients<T>> {
        let (hidden, width, out) = (self.sizes.hidden, self.sizes.width(), self.network.out);
        let mut opened = vec![T::zero(); self.projected.len()];
        for task in &tasks {
            let to = &mut opened[task.image * hidden..][..task.opened.len()];
            to.iter_mut().zip(&task.opened).for_each(|(to, from)| *to += *from);
        }
        let mut theta = Vec::new();
        if wanted.theta {
            theta = vec![T::zero(); self.sizes.parameters()];
            let (layers, rest) = theta.split_at_mut(self.sizes.of_layers());
            for task in &tasks {
                layers.iter_mut().zip(&task.layers).for_each(|(to, from)| *to += *from);
            }
            let (join, rest) = rest.split_at_mut(hidden * width);
            let (out_gradient, bias) = rest.split_at_mut(hidden);
            let units = join.par_chunks_exact_mut(width).zip(out_gradient).enumerate().with_min_len(64);
            units.for_each(|(j, (join, out_gradient))| {
                let row = j * width..(j + 1) * width;
                for task in &tasks {
                    join.iter_mut().zip(&task.moments[row.clone()]).for_each(|(to, from)| *to += *from);
                }
                let along_y = self.network.join[row].iter().zip(&*join).map(|(weight, sum)| *weight * *sum);
                let a = self.projected.chunks_exact(hidden).zip(opened.chunks_exact(hidden));
                let all = along_y.chain(a.map(|(a, opened)| a[j] * opened[j]));
                *out_gradient = all.fold(T::zero(), |sum, term| sum + term);
                join.iter_mut().for_each(|sum| *sum *= out[j]);
            });
            bias[0] = g.iter().fold(T::zero(), |sum, g| sum + *g);
        }
        for row in opened.chunks_exact_mut(hidden) {
            row.iter_mut().zip(out).for_each(|(sum, weight)| *sum *= *weight);
        }
        Ok(Gradients { projected: opened, y: tasks.into_iter().flat_map(|task| task.y).collect(), theta })
    }
}

/// Sums of one task.
struct Sums<T> {
    /// Gradients of the layers of y.
    layers: Vec<T>,
    /// Σ u g_yᵀ, H × K.
    moments: Vec<T>,
    /// Number of the first image.
    image: usize,
    /// Σ u of each image from the first on.
    opened: Vec<T>,
    /// Gradient in y of the task's rows.
    y: Vec<T>,
}

/// Returns `w · max(z + a, 0)`. With `KEEP`, sets `bit` of the words of open units.
#[inline(always)]
fn reduce<T: PackedProduct, const KEEP: bool>(
    z: &[T],
    a: &[T],
    out: &[T],
    words: &mut [u32],
    bit: usize,
) -> T {
    let mut sums = [T::zero(); LANES];
    let term = |z: T, a: T, out: T| {
        let z = z + a;
        (relu(z) * out, u32::from(z > T::zero()) << bit)
    };
    let len = z.len();
    let (a, out) = (&a[..len], &out[..len]);
    let whole = len / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for i in 0..LANES {
            let (value, mark) = term(z[start + i], a[start + i], out[start + i]);
            sums[i] += value;
            if KEEP {
                words[start + i] |= mark;
            }
        }
    }
    for i in whole..len {
        let (value, mark) = term(z[i], a[i], out[i]);
        sums[i - whole] += value;
        if KEEP {
            words[i] |= mark;
        }
    }
    sums.iter().fold(T::zero(), |sum, value| sum + *value)
}

/// Returns the features of the last layer.
pub(super) fn last<T>(values: &[Vec<T>]) -> &[T] {
    values.last().map_or(&[], Vec::as_slice)
}
