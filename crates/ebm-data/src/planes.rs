//! Memory of one image in a batch.

/// Planes `(3, height, width)` with an image in the upper left and padding in the rest.
///
/// The former content does not matter: writing rows `0..n` and then calling [`Planes::pad_below`] with `n`
/// overwrites every number.
#[derive(Debug)]
pub struct Planes<'a> {
    planes: [&'a mut [f32]; 3],
    width: usize,
    padding: [f32; 3],
}

impl<'a> Planes<'a> {
    /// Makes planes over `data`, whose length is `3 · height · width`; the padding is 0.
    pub(crate) fn new(data: &'a mut [f32], (height, width): (usize, usize)) -> Self {
        let (first, rest) = data.split_at_mut(height * width);
        let (second, third) = rest.split_at_mut(height * width);
        Self { planes: [first, second, third], width, padding: [0.; 3] }
    }

    /// Sets the number that pads each plane from now on.
    pub fn pad_with(&mut self, padding: [f32; 3]) {
        self.padding = padding;
    }

    /// Returns the first `len` numbers of row `y` of each plane for writing. The rest of the row becomes padding.
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

    /// Turns the rows from `y` on into padding.
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
