//! Features g_x that are the means of a map over the cells of a grid.

use candle_core::{DType, Device, Tensor};

use super::Backbone;
use crate::{Error, Result};

/// The frozen part of a backbone, with the means of its map over the cells of a grid, row by row, as g_x. Unlike the
/// mean of the whole map, these keep positions, which a head pose depends on.
#[derive(Debug)]
pub(crate) struct MapGrid {
    network: Box<dyn Backbone>,
    cells: usize,
    num_features: usize,
}

impl MapGrid {
    /// Lays a grid of `cells` × `cells` over the frozen map of `network` for images with sides of `size` pixels.
    ///
    /// # Errors
    /// [`Error::Config`] when nothing of the network is frozen, or its map has fewer rows or columns than the grid.
    pub fn new(network: Box<dyn Backbone>, cells: usize, size: usize) -> Result<Self> {
        let image = Tensor::zeros((1, 3, size, size), DType::F32, &Device::Cpu)?;
        let map = network.frozen_maps(&image)?;
        let (_, rows, columns, channels) = map.dims4()?;
        let fail = |reason: String| Err(Error::config("of the frozen.grid", reason));
        if map.dims() == image.dims() {
            return fail("nothing of the trunk is frozen; say which of its blocks are".to_owned());
        }
        if rows.min(columns) < cells || cells == 0 {
            return fail(format!("{cells} × {cells} cells of a map of {rows} × {columns}"));
        }
        Ok(Self { network, cells, num_features: cells * cells * channels })
    }

    /// Returns start and length of a cell along a side. Cells overlap by one if the side does not divide evenly.
    fn span(&self, cell: usize, side: usize) -> (usize, usize) {
        let start = cell * side / self.cells;
        (start, ((cell + 1) * side).div_ceil(self.cells) - start)
    }
}

impl Backbone for MapGrid {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        if train {
            return Err(Error::config(
                "of the frozen.grid",
                "the network below the grid is frozen and cannot be trained",
            ));
        }
        let map = self.network.frozen_maps(images)?;
        let (_, height, width, _) = map.dims4()?;
        let mut found = Vec::with_capacity(self.cells * self.cells);
        for row in 0..self.cells {
            let (start, length) = self.span(row, height);
            let strip = map.narrow(1, start, length)?.mean(1)?;
            for column in 0..self.cells {
                let (start, length) = self.span(column, width);
                found.push(strip.narrow(1, start, length)?.mean(1)?);
            }
        }
        Ok(Tensor::cat(&found, 1)?)
    }

    fn num_features(&self) -> usize {
        self.num_features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backbone whose map has two channels: three times the red, and the sum of all channels.
    #[derive(Debug)]
    struct Pixels;

    impl Backbone for Pixels {
        fn features(&self, images: &Tensor, _: bool) -> Result<Tensor> {
            Ok(images.mean((2, 3))?)
        }

        fn frozen_maps(&self, images: &Tensor) -> Result<Tensor> {
            let red = (images.narrow(1, 0, 1)? * 3.0)?;
            Ok(Tensor::cat(&[red, images.sum_keepdim(1)?], 1)?.permute((0, 2, 3, 1))?.contiguous()?)
        }

        fn num_features(&self) -> usize {
            3
        }
    }

    /// A backbone without a frozen part.
    #[derive(Debug)]
    struct Trained;

    impl Backbone for Trained {
        fn features(&self, images: &Tensor, _: bool) -> Result<Tensor> {
            Ok(images.mean((2, 3))?)
        }

        fn num_features(&self) -> usize {
            3
        }
    }

    #[test]
    fn cells_are_means_and_overlap_where_they_must() {
        // Red is 3 · row + column, the rest is 1.
        let red: Vec<f32> = (0..9).map(|i| i as f32).collect();
        let image: Vec<f32> = red.into_iter().chain([1.0; 18]).collect();
        let image = Tensor::from_vec(image, (1, 3, 3, 3), &Device::Cpu).unwrap();
        let grid = MapGrid::new(Box::new(Pixels), 2, 3).unwrap();
        let found = grid.features(&image, false).unwrap().to_vec2::<f32>().unwrap();
        // The cells are rows and columns 0 to 1 and 1 to 2, with the mean red 2, 3, 5, 6.
        assert_eq!(found, [[6.0, 4.0, 9.0, 5.0, 15.0, 7.0, 18.0, 8.0]]);
        assert_eq!(grid.num_features(), 8);
        assert!(grid.features(&image, true).is_err());
    }

    #[test]
    fn what_has_no_such_grid_is_refused() {
        let message =
            |network: Box<dyn Backbone>, cells| MapGrid::new(network, cells, 3).unwrap_err().to_string();
        assert!(message(Box::new(Pixels), 4).contains("4 × 4 cells of a map of 3 × 3"));
        assert!(message(Box::new(Trained), 1).contains("nothing of the trunk is frozen"));
    }
}
