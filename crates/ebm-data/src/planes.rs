//! The place of one image in a batch.

/// Planes `(3, height, width)` that an image is written to the upper left of; the rest is padding.
///
/// What was there before does not matter: who writes rows `0..n` and then calls [`Planes::pad_below`] with
/// `n` has written every number.
#[derive(Debug)]
pub struct Planes<'a> {
    planes: [&'a mut [f32]; 3],
    width: usize,
    padding: [f32; 3],
}

impl<'a> Planes<'a> {
    /// Planes over `data`, whose length is `3 · height · width`; padded with zeros.
    pub(crate) fn new(data: &'a mut [f32], (height, width): (usize, usize)) -> Self {
        let (first, rest) = data.split_at_mut(height * width);
        let (second, third) = rest.split_at_mut(height * width);
        Self { planes: [first, second, third], width, padding: [0.; 3] }
    }

    /// Pads each plane with a number of its own from now on.
    pub fn pad_with(&mut self, padding: [f32; 3]) {
        self.padding = padding;
    }

    /// The first `len` numbers of row `y` of each plane, to be written; the row's others become padding.
    ///
    /// # Panics
    /// If there is no such row, or `len` exceeds the width.
    pub fn rows(&mut self, y: usize, len: usize) -> [&mut [f32]; 3] {
        let (width, mut padding) = (self.width, self.padding.into_iter());
        self.planes.each_mut().map(|plane| {
            let (row, rest) = plane[y * width..(y + 1) * width].split_at_mut(len);
            rest.fill(padding.next().unwrap_or_default());
            row
        })
    }

    /// Makes the rows from `y` on padding.
    ///
    /// # Panics
    /// If `y` exceeds the height.
    pub fn pad_below(&mut self, y: usize) {
        let start = y * self.width;
        for (plane, padding) in self.planes.iter_mut().zip(self.padding) {
            plane[start..].fill(padding);
        }
    }
}
