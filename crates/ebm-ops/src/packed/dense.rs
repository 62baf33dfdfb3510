//! `C = A · B` of matrices whose rows lie end to end, of any depth.
//!
//! The depth is cut into parts. A task owns a rectangle of C that fits the second-level cache together with the part's
//! numbers of A and B. A tile's rows of A are copied, so that all panels of the task read them from the first-level cache. So
//! B is read from memory once for every [`TILES`] tiles of rows, and A once for every [`PANELS`] panels. Each number of C is
//! summed in the order of the depth, however the tasks are cut.

use std::ops::Range;

use candle_core::{Result, bail};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::outer::{Segment, accumulate};
use super::pairs;
use super::panels::{Panels, panel_width};
use super::prefetch::Prefetch;
use super::product::{Epilogue, Strided, finish, tile, tiles};
use super::tile::{Destination, MOST_ROWS, Rows, VECTORS, most_rows, multiply};
use super::workspace::{line_start, room};
use crate::gemm::{MatMut, even_ranges};
use crate::simd::arch;

/// Numbers of the depth that are summed at a time.
const DEPTH: usize = 384;
/// Most tiles of rows in a task.
const TILES: usize = 18;
/// Most panels in a task.
const PANELS: usize = 8;
/// Number of tasks to aim for, for each thread.
const TASKS: usize = 4;
/// Multiplications below which a product is one task.
const TASK: usize = 1 << 18;

/// Matrix A, (rows × depth).
#[derive(Clone, Copy)]
pub enum Left<'a> {
    /// Row after row.
    Rows(&'a [f32]),
    /// Row after row, in pairs as `packed::pairs` has them, like the panels of B. The depth is counted in pairs.
    Pairs(&'a [f32]),
    /// Column after column.
    Columns(&'a [f32]),
}

/// Matrix B, (depth × columns).
#[derive(Clone, Copy)]
pub enum Right<'a> {
    /// Packed before, to be used often.
    Panels(&'a Panels),
    /// Row after row. Each task packs the part that it needs.
    Rows(&'a [f32]),
}

/// Sizes of a product.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// Columns of B and C.
    pub columns: usize,
}

/// Destination of C.
pub enum Output<'a> {
    /// (rows × columns), after the epilogue.
    Rows(&'a mut [f32], Epilogue<'a>),
    /// Transposed, (columns × rows).
    Columns(&'a mut [f32]),
}

/// Computes `C = A · B` in parallel.
pub fn dense(left: Left<'_>, right: Right<'_>, sizes: Sizes, output: Output<'_>) -> Result<()> {
    let Sizes { rows, depth, columns } = sizes;
    let (Left::Rows(a) | Left::Pairs(a) | Left::Columns(a)) = left;
    let fits = match right {
        Right::Panels(panels) => (panels.depth(), panels.columns()) == (depth, columns),
        Right::Rows(b) => b.len() == depth * columns,
    };
    if a.len() != rows * depth || !fits {
        bail!("the operands are not ({rows} x {depth}) and ({depth} x {columns}) matrices");
    }
    let (c, epilogue, transposed) = match output {
        Output::Rows(c, epilogue) => (c, epilogue, false),
        Output::Columns(c) => (c, Epilogue::default(), true),
    };
    let panels = columns.div_ceil(panel_width());
    let parts = even_ranges(depth, depth.div_ceil(DEPTH), 16);
    let tasks = cut(sizes, panels);
    let mut rest = if transposed { MatMut::new(c, columns, rows)? } else { MatMut::new(c, rows, columns)? };
    let (row_ranges, panel_ranges) = (even_ranges(rows, tasks.0, 1), even_ranges(panels, tasks.1, 1));
    let mut tasks = Vec::with_capacity(row_ranges.len() * panel_ranges.len());
    for rows in &row_ranges {
        let split = if transposed { MatMut::split_cols } else { MatMut::split_rows };
        let (mut here, after) = split(rest, rows.len());
        rest = after;
        for panels in &panel_ranges {
            let split = if transposed { MatMut::split_rows } else { MatMut::split_cols };
            let (c, after) = split(here, panels.len() * panel_width());
            here = after;
            let (rows, panels, parts) = (rows.clone(), panels.clone(), &parts[..]);
            tasks.push(Task { left, right, sizes, parts, rows, panels, epilogue, c, transposed });
        }
    }
    let arch = arch();
    tasks
        .into_par_iter()
        .for_each_init(Buffers::default, |buffers, task| arch.dispatch(Run { task, buffers }));
    Ok(())
}

/// Returns the numbers of ranges that the rows and the panels are cut into.
fn cut(sizes: Sizes, panels: usize) -> (usize, usize) {
    if sizes.rows * sizes.depth * sizes.columns <= TASK {
        return (1, 1);
    }
    let tiles = sizes.rows.div_ceil(MOST_ROWS);
    let (mut rows, mut columns) = (tiles.div_ceil(TILES), panels.div_ceil(PANELS));
    let wanted = TASKS * rayon::current_num_threads();
    if rows * columns < wanted {
        // The side that is longer per task is cut further.
        if tiles / rows > panels / columns {
            rows = wanted.div_ceil(columns).min(tiles);
        } else {
            columns = wanted.div_ceil(rows).min(panels);
        }
    }
    (rows, columns)
}

/// Rectangle of C.
struct Task<'a> {
    left: Left<'a>,
    right: Right<'a>,
    sizes: Sizes,
    parts: &'a [Range<usize>],
    rows: Range<usize>,
    panels: Range<usize>,
    epilogue: Epilogue<'a>,
    c: MatMut<'a, f32>,
    transposed: bool,
}

/// Panels of B that a task packs, and its sums, tile after tile.
#[derive(Default)]
struct Buffers {
    panels: Vec<f32>,
    sums: Vec<f32>,
}

struct Run<'a, 'b> {
    task: Task<'a>,
    buffers: &'b mut Buffers,
}

impl WithSimd for Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mut task, buffers } = self;
        let width = VECTORS * S::F32_LANES;
        let (count, tile_len) = (task.panels.len(), most_rows::<S>() * width);
        let height = tiles::<S>(task.rows.len());
        let all_sums = line(&mut buffers.sums, height * count * tile_len);
        let mut strip = Strip::new();
        for (number, part) in task.parts.iter().enumerate() {
            let len = part.len() * width;
            let packed = match task.right {
                Right::Panels(_) => &mut [],
                Right::Rows(b) => {
                    let packed = line(&mut buffers.panels, count * len);
                    pack(b, task.sizes.columns, part.clone(), task.panels.clone(), width, packed);
                    packed
                }
            };
            for t in 0..height {
                let range = tile::<S>(task.rows.len(), t);
                let rows = task.rows.start + range.start..task.rows.start + range.end;
                strip.load(task.left, task.sizes, rows, part.clone());
                for p in 0..count {
                    let panel = match task.right {
                        Right::Panels(panels) => {
                            &panels.panel(task.panels.start + p)[part.start * width..part.end * width]
                        }
                        Right::Rows(_) => &packed[p * len..(p + 1) * len],
                    };
                    let sums = &mut all_sums[(t * count + p) * tile_len..][..range.len() * width];
                    task.prefetch_rows::<S>(number, t, p, [height, count]);
                    let prefetch = task.prefetch(number, p, t, height);
                    let destination = Destination { sums: &mut *sums, add: number > 0 };
                    strip.times(simd, task.left, range.len(), panel, prefetch, destination);
                    if number + 1 == task.parts.len() {
                        task.write(simd, range.clone(), p, sums);
                    }
                }
            }
        }
    }
}

impl Task<'_> {
    /// Returns the next numbers after part `number` of the panel `p`, to be prefetched with tile `t` of `height`: a share of
    /// the panel's next part or, after the last part, of the first part of the panel that the next task has in its place.
    #[inline(always)]
    fn prefetch(&self, number: usize, p: usize, t: usize, height: usize) -> Option<Prefetch> {
        let Right::Panels(panels) = self.right else { return None };
        let (panel, part) = match self.parts.get(number + 1) {
            Some(next) => (self.panels.start + p, next),
            None => (self.panels.end + p, &self.parts[0]),
        };
        let (width, steps) = (panels.width(), self.parts[number].len());
        let numbers = |panel| &raw const panels.panel(panel)[part.start * width..part.end * width];
        (panel < panels.count()).then(|| Prefetch::share(numbers(panel), t, height, steps))
    }

    /// Prefetches a share of the rows of A that follow tile `t` of `height`. The `count` panels together prefetch all.
    #[inline(always)]
    fn prefetch_rows<S: Simd>(&self, number: usize, t: usize, p: usize, [height, count]: [usize; 2]) {
        let (number, t) = if t + 1 < height { (number, t + 1) } else { (number + 1, 0) };
        let (Left::Rows(a) | Left::Pairs(a), Some(part)) = (self.left, self.parts.get(number)) else {
            return;
        };
        let next = tile::<S>(self.rows.len(), t);
        let first = self.rows.start + next.start;
        for row in first + next.len() * p / count..first + next.len() * (p + 1) / count {
            Prefetch::fetch(&a[row * self.sizes.depth..][part.clone()]);
        }
    }

    /// Writes a tile's sums. `rows` are counted from the task's first row.
    #[inline(always)]
    fn write<S: Simd>(&mut self, simd: S, rows: Range<usize>, p: usize, sums: &[f32]) {
        let width = VECTORS * S::F32_LANES;
        let all =
            (self.panels.start + p) * width..self.sizes.columns.min((self.panels.start + p + 1) * width);
        let here = p * width..p * width + all.len();
        if self.transposed {
            for (j, column) in here.enumerate() {
                let to = &mut self.c.row_mut(column)[rows.clone()];
                for (to, sums) in to.iter_mut().zip(sums.chunks_exact(width)) {
                    *to = sums[j];
                }
            }
            return;
        }
        let bias = self.epilogue.bias.get(all.clone()).unwrap_or_default();
        for (row, sums) in rows.zip(sums.chunks_exact(width)) {
            let residual = match self.epilogue.residual {
                Some(residual) => &residual[(self.rows.start + row) * self.sizes.columns..][all.clone()],
                None => &[],
            };
            let to = &mut self.c.row_mut(row)[here.clone()];
            finish(simd, sums, bias, residual, self.epilogue.activation, to);
        }
    }
}

/// Returns `len` numbers of the buffer from a cache line on.
#[inline(always)]
fn line(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < room(len) {
        buffer.resize(room(len), 0.0);
    }
    let start = line_start(buffer);
    &mut buffer[start..start + len]
}

/// Copies a part of B's rows into panels of `width`.
#[inline(always)]
fn pack(b: &[f32], columns: usize, part: Range<usize>, panels: Range<usize>, width: usize, to: &mut [f32]) {
    let len = part.len() * width;
    for (k, row) in b[part.start * columns..part.end * columns].chunks_exact(columns).enumerate() {
        let row = &row[panels.start * width..columns.min(panels.end * width)];
        for (p, from) in row.chunks(width).enumerate() {
            let to = &mut to[p * len + k * width..][..width];
            if from.len() == width {
                to.copy_from_slice(from);
            } else {
                to[..from.len()].copy_from_slice(from);
                to[from.len()..].fill(0.0);
            }
        }
    }
}

/// Rows of A of a tile, for a part of the depth.
///
/// Rows are at a distance at which they do not displace each other from the cache. Columns lie end to end.
#[repr(align(64))]
struct Strip([f32; MOST_ROWS * STRIDE]);

const STRIDE: usize = DEPTH + 16;

impl Strip {
    fn new() -> Self {
        Self([0.0; _])
    }

    #[inline(always)]
    fn load(&mut self, left: Left<'_>, sizes: Sizes, rows: Range<usize>, part: Range<usize>) {
        match left {
            Left::Rows(a) | Left::Pairs(a) => {
                for (to, row) in self.0.chunks_exact_mut(STRIDE).zip(rows) {
                    to[..part.len()].copy_from_slice(&a[row * sizes.depth..][part.clone()]);
                }
            }
            Left::Columns(a) => {
                for (to, k) in self.0.chunks_exact_mut(MOST_ROWS).zip(part) {
                    to[..rows.len()].copy_from_slice(&a[k * sizes.rows..][rows.clone()]);
                }
            }
        }
    }

    /// Computes `A · panel` for the first `count` rows.
    #[inline(always)]
    fn times<S: Simd>(
        &self,
        simd: S,
        left: Left<'_>,
        count: usize,
        panel: &[f32],
        prefetch: Option<Prefetch>,
        destination: Destination<'_>,
    ) {
        let depth = panel.len() / (VECTORS * S::F32_LANES);
        let prefetch = prefetch.unwrap_or_else(|| Prefetch::none(panel));
        match left {
            Left::Rows(_) => {
                let starts: [usize; MOST_ROWS] = std::array::from_fn(|i| i * STRIDE);
                let run = 0..depth;
                let rows = Rows { data: &self.0, starts: &starts[..count], runs: std::slice::from_ref(&run) };
                multiply(simd, rows, panel, [prefetch], destination);
            }
            Left::Pairs(_) => {
                pairs::multiply(
                    simd,
                    Strided { data: &self.0, stride: STRIDE },
                    count,
                    panel,
                    prefetch,
                    destination,
                );
            }
            Left::Columns(_) => {
                if !destination.add {
                    destination.sums.fill(0.0);
                }
                let all = [Segment { a: 0, b: 0, len: depth }];
                accumulate(simd, Strided { data: &self.0, stride: MOST_ROWS }, &all, panel, destination.sums);
            }
        }
    }
}
