//! Convolution with 3 × 3 kernels and stride 1 by Winograd's F(4×4, 3×3), with a quarter of the multiplications. Maps of few
//! tiles use F(2×2, 3×3), with four ninths.
//!
//! The map is cut into tiles of 4 × 4 outputs, and each needs 6 × 6 inputs. Transformed, a tile's convolution is a product at
//! each of 36 points. With the channels, these are 36 matrix products (tiles × C) · (C × O). Errors are larger than the
//! errors of direct sums, about 1e-5 of the largest output. Tiles of 2 × 2 outputs have 4 × 4 inputs and 16 points, less than
//! twice the weights of the kernel.

mod transform;

use std::array::from_fn;
use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use self::transform::{Lines, TAPS, Transform};
use super::super::geometry::Geometry;
use crate::gemm::even_ranges;
use crate::packed::{Epilogue, Panels, Strided, Workspace, line_start, product_here, room};
use crate::simd::arch;

/// Channels are multiples of the lanes of the widest vectors.
const LANES: usize = 16;
/// Largest C · O. Larger matrices cost too much to be read for every few tiles.
const MOST_WEIGHTS: usize = 256 * 256;
/// Fewest tiles for which the 36 matrices are worth reading.
const FEWEST_TILES: usize = 32;
/// Fewest tiles for which the 16 matrices are worth reading.
const FEWEST_SMALL_TILES: usize = 40;
/// Bytes of transformed tiles that stay in the second-level cache.
const RESIDENT: usize = 1 << 20;
/// Least and most tiles that a task transforms at a time. The least is three register tiles, so that each matrix is used
/// often enough.
const TILES_AT_A_TIME: (usize, usize) = (42, 168);

/// Size of the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileSize {
    /// F(4×4, 3×3), with 4 × 4 outputs.
    Large,
    /// F(2×2, 3×3), with 2 × 2 outputs.
    Small,
}

impl TileSize {
    /// Returns the number of outputs along each side of a tile.
    fn outputs(self) -> usize {
        match self {
            Self::Large => 4,
            Self::Small => 2,
        }
    }

    /// Returns the number of inputs, and of points, along each side of a tile.
    fn side(self) -> usize {
        self.outputs() + TAPS - 1
    }

    /// Returns the size of tiles for a convolution, if any. Few tiles are used only if the transformed weights are `kept`.
    pub(super) fn for_convolution(g: &Geometry, kept: bool) -> Option<Self> {
        let suits = g.kernel == [3, 3]
            && g.stride == 1
            && g.channels.is_multiple_of(LANES)
            && g.filters.is_multiple_of(LANES)
            && g.channels * g.filters <= MOST_WEIGHTS;
        let tiles = |tile_size: Self| {
            g.batch * g.output().map(|size| size.div_ceil(tile_size.outputs())).iter().product::<usize>()
        };
        match () {
            () if suits && tiles(Self::Large) >= FEWEST_TILES => Some(Self::Large),
            () if suits && kept && tiles(Self::Small) >= FEWEST_SMALL_TILES => Some(Self::Small),
            () => None,
        }
    }
}

/// Transformed weights: a matrix C × O for each point.
#[derive(Clone, Debug)]
pub(super) struct Winograd {
    tile_size: TileSize,
    points: Vec<Panels>,
}

impl Winograd {
    /// Transforms the weights of a 3 × 3 convolution, packed with row (3u + v) · C + c.
    pub(super) fn new(tile_size: TileSize, direct: &Panels, channels: usize) -> Self {
        let count = tile_size.side() * tile_size.side();
        let mut points: Vec<_> = (0..count).map(|_| Panels::zeros_here(channels, direct.columns())).collect();
        // On this thread alone: a caller may hold a lock, under which a thread of the pool must not pick up other work.
        let (points_of, arch) = (&mut points, arch());
        match tile_size {
            TileSize::Large => {
                arch.dispatch(TransformWeights::<4, 6> { direct, channels, points: points_of })
            }
            TileSize::Small => {
                arch.dispatch(TransformWeights::<2, 4> { direct, channels, points: points_of })
            }
        }
        Self { tile_size, points }
    }

    /// Computes `y ← epilogue(conv(x, w))` for x (N, H, W, C) and y (N, oh, ow, O).
    pub(super) fn convolve(&self, x: &[f32], g: &Geometry, epilogue: Epilogue<'_>, mut y: &mut [f32]) {
        let ([height, width], outputs) = (g.output(), self.tile_size.outputs());
        let (down, across) = (height.div_ceil(outputs), width.div_ceil(outputs));
        let (fewest, most) = TILES_AT_A_TIME;
        let tile_bytes = self.points.len() * (g.channels + g.filters) * size_of::<f32>();
        let at_a_time = (RESIDENT / tile_bytes).clamp(fewest, most);
        let rows = g.batch * down;
        let parts = rows.div_ceil((at_a_time / across).max(1)).next_multiple_of(2);
        let first_pixel_row = |row: usize| row / down * height + (row % down * outputs).min(height);
        let mut tasks = Vec::with_capacity(parts);
        for rows in even_ranges(rows, parts, 1) {
            let first = first_pixel_row(rows.start);
            let len = (first_pixel_row(rows.end) - first) * width * g.filters;
            let (here, below) = y.split_at_mut(len);
            y = below;
            tasks.push(Task { filters: self, x, g, epilogue, rows, at_a_time, first, y: here });
        }
        let arch = arch();
        tasks.into_par_iter().for_each(|task| match self.tile_size {
            TileSize::Large => arch.dispatch(Tiled::<4, 6>(task)),
            TileSize::Small => arch.dispatch(Tiled::<2, 4>(task)),
        });
    }
}

struct TransformWeights<'a, const O: usize, const N: usize> {
    direct: &'a Panels,
    channels: usize,
    points: &'a mut [Panels],
}

impl<const O: usize, const N: usize> WithSimd for TransformWeights<'_, O, N>
where
    Transform: Lines<O, N>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.direct.width();
        let mut points: Vec<_> = self.points.iter_mut().map(Panels::panels_mut_in_order).collect();
        for panel in 0..self.direct.count() {
            let (from, _) = S::as_simd_f32s(self.direct.panel(panel));
            let mut to: Vec<_> =
                points.iter_mut().flat_map(Iterator::next).map(|to| S::as_mut_simd_f32s(to).0).collect();
            let per_row = width / S::F32_LANES;
            let per_tap = self.channels * per_row;
            for i in 0..per_tap {
                let taps = from_fn(|u| from_fn(|v| from[(TAPS * u + v) * per_tap + i]));
                let transformed = transform::kernel::<_, O, N>(simd, taps);
                for (to, value) in to.iter_mut().zip(transformed.as_flattened()) {
                    to[i] = *value;
                }
            }
        }
    }
}

/// Some rows of tiles, counted over all images.
struct Task<'a> {
    filters: &'a Winograd,
    x: &'a [f32],
    g: &'a Geometry,
    epilogue: Epilogue<'a>,
    rows: Range<usize>,
    at_a_time: usize,
    /// First row of pixels of y, counted over all images.
    first: usize,
    y: &'a mut [f32],
}

/// Place of the first output of a tile.
#[derive(Clone, Copy)]
struct Place {
    image: usize,
    top: usize,
    left: usize,
}

/// Task with tiles of O × O outputs and N × N inputs.
struct Tiled<'a, const O: usize, const N: usize>(Task<'a>);

impl<const O: usize, const N: usize> WithSimd for Tiled<'_, O, N>
where
    Transform: Lines<O, N>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut task = self.0;
        let (channels, filters, workspace) = (task.g.channels, task.g.filters, Workspace::shared());
        let [height, width] = task.g.output();
        let (down, across) = (height.div_ceil(O), width.div_ceil(O));
        let tiles = task.rows.start * across..task.rows.end * across;
        let parts = tiles.len().div_ceil(task.at_a_time);
        let most = tiles.len().div_ceil(parts.max(1));
        let mut buffers = [channels, filters].map(|c| workspace.take(room(N * N * most * c)));
        let [v, m] = &mut buffers;
        let (v_start, m_start) = (line_start(v), line_start(m));
        let (v, m) = (&mut v[v_start..], &mut m[m_start..]);
        for part in even_ranges(tiles.len(), parts, 1) {
            let count = part.len();
            let place = |i: usize| {
                let tile = tiles.start + part.start + i;
                let row = tile / across;
                Place { image: row / down, top: row % down * O, left: tile % across * O }
            };
            for i in 0..count {
                let pixels = task.inputs::<N>(place(i));
                transform::input::<_, O, N>(simd, &pixels, count * channels, &mut v[i * channels..]);
            }
            let points = &task.filters.points;
            for (point, panels) in points.iter().enumerate() {
                let v = &v[point * count * channels..][..count * channels];
                let m = &mut m[point * count * filters..][..count * filters];
                let v = Strided { data: v, stride: channels };
                product_here(simd, v, panels, points.get(point + 1), false, m);
            }
            for i in 0..count {
                task.write::<_, O, N>(simd, &m[i * filters..], count * filters, place(i));
            }
        }
        buffers.into_iter().for_each(|buffer| workspace.give(buffer));
    }
}

/// Pixel outside the image.
static ZEROS: [f32; MOST_WEIGHTS / LANES] = [0.0; _];

impl<'a> Task<'a> {
    /// Returns the N × N pixels that a tile needs.
    fn inputs<const N: usize>(&self, place: Place) -> [[&'a [f32]; N]; N] {
        let (g, x) = (self.g, self.x);
        let mut pixels = [[&ZEROS[..g.channels]; N]; N];
        for (i, line) in pixels.iter_mut().enumerate() {
            let row = (place.top + i).wrapping_sub(g.padding[0]);
            for (j, to) in line.iter_mut().enumerate() {
                let column = (place.left + j).wrapping_sub(g.padding[1]);
                if row < g.height && column < g.width {
                    let pixel = (place.image * g.height + row) * g.width + column;
                    *to = &x[pixel * g.channels..][..g.channels];
                }
            }
        }
        pixels
    }

    /// Transforms a tile back and writes the part within the map. Point ξ is `m[ξ · stride..]`.
    #[inline(always)]
    fn write<S: Simd, const O: usize, const N: usize>(
        &mut self,
        simd: S,
        m: &[f32],
        stride: usize,
        place: Place,
    ) where
        Transform: Lines<O, N>,
    {
        let filters = self.g.filters;
        let [height, width] = self.g.output();
        let (m, stride) = (S::as_simd_f32s(m).0, stride / S::F32_LANES);
        let (bias, _) = S::as_simd_f32s(self.epilogue.bias);
        let [least, most] = self.epilogue.activation.bounds().map(|bound| simd.splat_f32s(bound as f32));
        let (rows, columns) = ((height - place.top).min(O), (width - place.left).min(O));
        let first_row = place.image * height + place.top;
        for c in 0..filters / S::F32_LANES {
            let bias = bias.get(c).copied().unwrap_or(simd.splat_f32s(0.0));
            let tile = transform::output::<_, O, N>(simd, m, stride, c);
            for (i, row) in tile.iter().enumerate().take(rows) {
                for (j, value) in row.iter().enumerate().take(columns) {
                    let pixel = (first_row + i) * width + place.left + j;
                    let mut value = simd.add_f32s(*value, bias);
                    if let Some(residual) = self.epilogue.residual {
                        let (residual, _) = S::as_simd_f32s(&residual[pixel * filters..][..filters]);
                        value = simd.add_f32s(value, residual[c]);
                    }
                    let here = (pixel - self.first * width) * filters;
                    let (to, _) = S::as_mut_simd_f32s(&mut self.y[here..here + filters]);
                    // If `value` is NaN, minimum and maximum return it.
                    to[c] = simd.min_f32s(most, simd.max_f32s(least, value));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes with which `tests/operations/conv2d_packed.rs` reaches both forms.
    #[test]
    fn many_tiles_are_large_and_few_are_small() {
        let tiles = |batch, [height, width]: [usize; 2], padding| {
            let geometry = |channels| {
                Geometry::new([batch, height, width, channels], [64, channels, 3, 3], 1, padding).unwrap()
            };
            let sizes = [16, 48].map(|channels| TileSize::for_convolution(&geometry(channels), true));
            assert_eq!(sizes[0], sizes[1]);
            sizes[0]
        };
        for (h, w) in (0..7).flat_map(|h| (0..7).map(move |w| (h, w))) {
            for (batch, padding) in (1..4).flat_map(|batch| (0..3).map(move |padding| (batch, padding))) {
                assert_eq!(tiles(batch, [27 + h, 27 + w], padding), Some(TileSize::Large));
            }
            // Maps of 9 to 12 outputs along each side have at least 50 small tiles and at most 18 large ones.
            assert_eq!(tiles(2, [11 + h % 2, 11 + w % 2], (h + w) % 2), Some(TileSize::Small));
        }
    }
}
