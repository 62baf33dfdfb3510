//! Anchors of the region proposal network.

use ebm_ops::boxes::{BBox, BoxConvention};

use crate::config::DetectorConfig;

/// Generator of anchors: one size per pyramid level, and the same aspect ratios (height / width) at each level.
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorGenerator {
    cells: Vec<Vec<BBox>>,
}

impl AnchorGenerator {
    /// Creates a generator whose anchors at level `l` have the side `sizes[l]`, in pixels. Only the legacy
    /// generator of [`BoxConvention::Inclusive`] uses `strides`: it centres anchors on a cell of `strides[l]` pixels.
    pub fn new(sizes: &[f32], ratios: &[f32], strides: &[usize], convention: BoxConvention) -> Self {
        let cells = sizes.iter().zip(strides).map(|(&size, &stride)| {
            let cell = |&ratio: &f32| match convention {
                BoxConvention::HalfOpen => centred_cell(size, ratio),
                BoxConvention::Inclusive => legacy_cell(size, ratio, stride as f32),
            };
            ratios.iter().map(cell).collect()
        });
        Self { cells: cells.collect() }
    }

    /// Creates the generator that `config` describes.
    pub fn of(config: &DetectorConfig) -> Self {
        let rpn = &config.rpn;
        Self::new(&rpn.anchor_sizes, &rpn.anchor_ratios, &DetectorConfig::STRIDES, config.convention)
    }

    /// Returns the anchors around the first position of each level.
    pub fn cells(&self) -> &[Vec<BBox>] {
        &self.cells
    }

    /// Returns the number of anchors per position, which is the same at all levels.
    pub fn per_position(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// Returns the number of anchors of a level.
    pub fn count(&self, grid: &Grid) -> usize {
        grid.height * grid.width * self.cells[grid.level].len()
    }

    /// Returns the anchors of a level, row by row; the aspect ratios of one position are adjacent.
    pub fn grid(&self, grid: &Grid) -> Vec<BBox> {
        (0..self.count(grid)).map(|index| self.anchor(grid, index)).collect()
    }

    /// Returns anchor `index` of [`grid`](Self::grid).
    pub fn anchor(&self, grid: &Grid, index: usize) -> BBox {
        let cells = &self.cells[grid.level];
        let (position, [x0, y0, x1, y1]) = (index / cells.len(), cells[index % cells.len()]);
        let dy = (position / grid.width * grid.strides.0) as f32;
        let dx = (position % grid.width * grid.strides.1) as f32;
        [x0 + dx, y0 + dy, x1 + dx, y1 + dy]
    }
}

/// Positions of a level's anchors: `height` × `width` of them, `strides = (y, x)` pixels apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Index of the pyramid level, from the finest.
    pub level: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of positions in a row.
    pub width: usize,
    /// Distance of two rows and of two positions in a row, in pixels of the image.
    pub strides: (usize, usize),
}

/// Returns torchvision's anchor: centred on zero, with corners rounded half to even.
fn centred_cell(size: f32, ratio: f32) -> BBox {
    let root = ratio.sqrt();
    let (w, h) = (size / root, size * root);
    [-w / 2.0, -h / 2.0, w / 2.0, h / 2.0].map(f32::round_ties_even)
}

/// Returns maskrcnn-benchmark's anchor: the square cell (0, 0, stride−1, stride−1) gets the ratio with both sides
/// rounded and is then scaled to `size`, always with inclusive widths.
fn legacy_cell(size: f32, ratio: f32, stride: f32) -> BBox {
    let centre = (stride - 1.0) / 2.0;
    let width = (stride * stride / ratio).sqrt().round_ties_even();
    let height = (width * ratio).round_ties_even();
    let (w, h) = (width * size / stride, height * size / stride);
    let (x, y) = ((w - 1.0) / 2.0, (h - 1.0) / 2.0);
    [centre - x, centre - y, centre + x, centre + y]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f32; 5] = [32.0, 64.0, 128.0, 256.0, 512.0];
    const STRIDES: [usize; 5] = [4, 8, 16, 32, 64];
    const RATIOS: [f32; 3] = [0.5, 1.0, 2.0];

    #[test]
    fn legacy_cells_equal_the_published_table() {
        let generator = AnchorGenerator::new(&SIZES, &RATIOS, &STRIDES, BoxConvention::Inclusive);
        let golden: [[BBox; 3]; 5] = [
            [[-22., -10., 25., 13.], [-14., -14., 17., 17.], [-10., -22., 13., 25.]],
            [[-40., -20., 47., 27.], [-28., -28., 35., 35.], [-20., -44., 27., 51.]],
            [[-84., -40., 99., 55.], [-56., -56., 71., 71.], [-36., -80., 51., 95.]],
            [[-164., -72., 195., 103.], [-112., -112., 143., 143.], [-76., -168., 107., 199.]],
            [[-332., -152., 395., 215.], [-224., -224., 287., 287.], [-148., -328., 211., 391.]],
        ];
        for (cells, golden) in generator.cells().iter().zip(golden) {
            assert_eq!(cells.as_slice(), golden);
        }
    }

    #[test]
    fn half_open_cells_equal_torchvision() {
        let generator = AnchorGenerator::new(&SIZES, &RATIOS, &STRIDES, BoxConvention::HalfOpen);
        assert_eq!(
            generator.cells()[0],
            [[-23., -11., 23., 11.], [-16., -16., 16., 16.], [-11., -23., 11., 23.]]
        );
        assert_eq!(
            generator.cells()[2],
            [[-91., -45., 91., 45.], [-64., -64., 64., 64.], [-45., -91., 45., 91.]]
        );
    }

    #[test]
    fn the_grid_runs_row_by_row() {
        let generator = AnchorGenerator::new(&SIZES[..1], &[1.0], &STRIDES[..1], BoxConvention::HalfOpen);
        let place = Grid { level: 0, height: 2, width: 3, strides: (4, 4) };
        let grid = generator.grid(&place);
        assert!(grid.iter().enumerate().all(|(i, anchor)| *anchor == generator.anchor(&place, i)));
        assert_eq!(generator.count(&place), grid.len());
        assert_eq!(grid.len(), 6);
        assert_eq!(grid[1], [-12., -16., 20., 16.]);
        assert_eq!(grid[3], [-16., -12., 16., 20.]);
    }
}
