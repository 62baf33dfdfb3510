//! The place of one image in a batch.

/// Planes `(3, height, width)` that an image is written to the upper left of; the rest is for zeros.
///
/// What was there before does not matter: who writes rows `0..n` and then calls [`Planes::pad_below`] with `n` has
/// written every number.
pub(crate) struct Planes<'a> {
    planes: [&'a mut [f32]; 3],
    width: usize,
}

impl<'a> Planes<'a> {
    /// Planes over `data`, whose length is `3 · height · width`.
    pub fn new(data: &'a mut [f32], (height, width): (usize, usize)) -> Self {
        let (first, rest) = data.split_at_mut(height * width);
        let (second, third) = rest.split_at_mut(height * width);
        Self { planes: [first, second, third], width }
    }

    /// The first `len` numbers of row `y` of each plane, to be written; the row's others become zero.
    pub fn rows(&mut self, y: usize, len: usize) -> [&mut [f32]; 3] {
        let width = self.width;
        self.planes.each_mut().map(|plane| {
            let (row, padding) = plane[y * width..(y + 1) * width].split_at_mut(len);
            padding.fill(0.);
            row
        })
    }

    /// Makes the rows from `y` on zero.
    pub fn pad_below(&mut self, y: usize) {
        let start = y * self.width;
        self.planes.iter_mut().for_each(|plane| plane[start..].fill(0.));
    }
}
