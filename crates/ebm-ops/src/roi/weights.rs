//! Sparse one-dimensional weights.

use crate::float::Float;

/// Weights of one box along one axis: a sparse matrix by rows. Row i of the (bins × pixels) form lists the pixels that bin i
/// reads. The transposed form has a row per pixel from `first` on.
///
/// An entry may also carry the derivatives of its weight in the box's start and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct AxisWeights<T> {
    first: usize,
    start: Vec<usize>,
    index: Vec<usize>,
    weight: Vec<T>,
    d_start: Vec<T>,
    d_end: Vec<T>,
}

/// Row of columns with their weights. The derivatives are empty unless they were pushed.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a, T> {
    pub index: &'a [usize],
    pub weight: &'a [T],
    pub d_start: &'a [T],
    pub d_end: &'a [T],
}

/// Entry of a row with derivatives.
#[derive(Clone, Copy)]
pub(super) struct Entry<T> {
    pub index: usize,
    pub weight: T,
    pub d_start: T,
    pub d_end: T,
}

impl<T: Float> Row<'_, T> {
    /// Returns the entries, or nothing if the row has no derivatives.
    #[inline(always)]
    pub(super) fn entries(self) -> impl Iterator<Item = Entry<T>> {
        let slopes = self.d_start.iter().zip(self.d_end);
        let entries = self.index.iter().zip(self.weight).zip(slopes);
        entries.map(|((&index, &weight), (&d_start, &d_end))| Entry { index, weight, d_start, d_end })
    }
}

impl<T: Float> AxisWeights<T> {
    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.first = 0;
        self.start.clear();
        self.start.push(0);
        self.index.clear();
        self.weight.clear();
        self.d_start.clear();
        self.d_end.clear();
    }

    /// Adds an entry with derivatives to the row being written.
    pub fn push_with_slopes(&mut self, index: usize, weight: f64, d_start: f64, d_end: f64) {
        self.index.push(index);
        self.weight.push(T::from_f64(weight));
        self.d_start.push(T::from_f64(d_start));
        self.d_end.push(T::from_f64(d_end));
    }

    /// Adds `weight` at `index` in the row being written. If one of the last two entries has this index, the weight is added
    /// to it.
    pub fn add(&mut self, index: usize, weight: f64) {
        let weight = T::from_f64(weight);
        let row = self.start.last().copied().unwrap_or(0);
        let recent = self.index.len().saturating_sub(2).max(row);
        let found = self.index.iter().skip(recent).position(|&i| i == index);
        match found.and_then(|i| self.weight.get_mut(recent + i)) {
            Some(present) => *present += weight,
            None => {
                self.index.push(index);
                self.weight.push(weight);
            }
        }
    }

    /// Ends the row being written.
    pub fn end_row(&mut self) {
        self.start.push(self.index.len());
    }

    /// Returns the number of the first row: 0, or the lowest pixel in a transposed form.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.start.len().saturating_sub(1)
    }

    /// Returns `true` if no row has an entry, so that the box reads nothing.
    pub fn is_zero(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns row number `first() + i`.
    #[inline(always)]
    pub fn row(&self, i: usize) -> Row<'_, T> {
        let range = self.start[i]..self.start[i + 1];
        let slopes = if self.d_start.is_empty() { 0..0 } else { range.clone() };
        Row {
            index: &self.index[range.clone()],
            weight: &self.weight[range],
            d_start: &self.d_start[slopes.clone()],
            d_end: &self.d_end[slopes],
        }
    }

    /// Writes the transposed matrix to `into`. Columns ascend within its rows.
    pub fn transpose(&self, into: &mut Self) {
        into.clear();
        let (Some(&low), Some(&high)) = (self.index.iter().min(), self.index.iter().max()) else { return };
        into.first = low;
        into.start.resize(high - low + 2, 0);
        for &i in &self.index {
            into.start[i - low + 1] += 1;
        }
        for i in 1..into.start.len() {
            into.start[i] += into.start[i - 1];
        }
        let entries = self.index.len();
        into.index.resize(entries, 0);
        into.weight.resize(entries, T::zero());
        into.d_start.resize(self.d_start.len(), T::zero());
        into.d_end.resize(self.d_end.len(), T::zero());
        for bin in 0..self.len() {
            for e in self.start[bin]..self.start[bin + 1] {
                // `start[pixel]` serves as the write position, and so ends as the start of the next row.
                let at = &mut into.start[self.index[e] - low];
                into.index[*at] = bin;
                into.weight[*at] = self.weight[e];
                if !self.d_start.is_empty() {
                    into.d_start[*at] = self.d_start[e];
                    into.d_end[*at] = self.d_end[e];
                }
                *at += 1;
            }
        }
        into.start.rotate_right(1);
        into.start[0] = 0;
    }
}

/// Weights of one box. The operation fills `x` and `y` by bin. [`BoxWeights::transpose`] computes the transposed forms.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoxWeights<T> {
    pub x: AxisWeights<T>,
    pub y: AxisWeights<T>,
    pub x_by_pixel: AxisWeights<T>,
    pub y_by_pixel: AxisWeights<T>,
}

impl<T: Float> BoxWeights<T> {
    /// Fills the forms by pixel.
    pub fn transpose(&mut self) {
        self.x.transpose(&mut self.x_by_pixel);
        self.y.transpose(&mut self.y_by_pixel);
    }

    /// Returns `true` if the box reads nothing of the map.
    pub fn is_zero(&self) -> bool {
        self.x.is_zero() || self.y.is_zero()
    }
}
