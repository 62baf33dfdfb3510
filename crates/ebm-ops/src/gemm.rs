//! Matrix views and their product: the one place where this crate's convolution leaves safe Rust.
//!
//! [`MatMut`] splits a matrix by rows and columns as `split_at_mut` splits a slice, so that several threads can each write a
//! rectangle of one output. [`multiply`] calls the `gemm` crate after checks of the bounds.

use std::marker::PhantomData;
use std::ops::Range;

use candle_core::{Result, bail};

use super::float::Float;

/// Read-only matrix over a slice. Element `(i, j)` is at `i * row_stride + j * col_stride`.
#[derive(Clone, Copy)]
pub(super) struct MatRef<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a, T: Float> MatRef<'a, T> {
    /// Makes a view of `rows × cols` elements of `data`. Returns an error if the view would reach past the slice.
    pub(super) fn new(
        data: &'a [T],
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (usize, usize),
    ) -> Result<Self> {
        if rows == 0 || cols == 0 {
            bail!("matrix view of {rows} x {cols}: both must be positive");
        }
        // Strides and sizes become isize in the kernel. The product is taken in u128, which does not wrap.
        let span = |size: usize, stride: usize| (size as u128 - 1) * stride as u128;
        let last = span(rows, row_stride).saturating_add(span(cols, col_stride));
        if last >= data.len() as u128 {
            bail!(
                "matrix view of {rows} x {cols} with strides {row_stride}, {col_stride} leaves {} elements",
                data.len()
            );
        }
        Ok(Self { data, rows, cols, row_stride, col_stride })
    }

    /// Splits into rows `..at` and rows `at..`. Neither part is empty: `at` is clamped.
    fn split_rows(self, at: usize) -> (Self, Self) {
        let at = at.clamp(1, self.rows - 1);
        (
            Self { rows: at, ..self },
            Self { rows: self.rows - at, data: &self.data[at * self.row_stride..], ..self },
        )
    }

    /// Returns the transposed view.
    pub(super) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

/// Mutable matrix with contiguous rows, exclusive owner of its elements and of nothing between its rows.
pub(super) struct MatMut<'a, T> {
    data: *mut T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    _elements: PhantomData<&'a mut [T]>,
}

#[expect(unsafe_code, reason = "rectangles of one output are written by several threads")]
// SAFETY: a MatMut is the only handle to its elements (built from a `&mut [T]`, and the splits consume it),
// so sending it is sending a `&mut [T]`.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T: Float> MatMut<'a, T> {
    /// Makes a view of the slice as `rows × cols` with rows end to end. Returns an error if the length differs.
    pub(super) fn new(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            bail!("a slice of {} is not a {rows} x {cols} matrix", data.len());
        }
        Ok(Self { data: data.as_mut_ptr(), rows, cols, row_stride: cols, _elements: PhantomData })
    }

    /// Splits into rows `..at` and rows `at..`. `at` is cut to the number of rows.
    pub(super) fn split_rows(self, at: usize) -> (Self, Self) {
        let at = at.min(self.rows);
        let rest = self.data.wrapping_add(at * self.row_stride);
        (Self { rows: at, ..self.alias() }, Self { data: rest, rows: self.rows - at, ..self.alias() })
    }

    /// Splits into columns `..at` and columns `at..`. `at` is cut to the number of columns.
    pub(super) fn split_cols(self, at: usize) -> (Self, Self) {
        let at = at.min(self.cols);
        let rest = self.data.wrapping_add(at);
        (Self { cols: at, ..self.alias() }, Self { data: rest, cols: self.cols - at, ..self.alias() })
    }

    /// Copies the fields. Private: the caller must keep the elements of the copies apart.
    fn alias(&self) -> Self {
        Self {
            data: self.data,
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            _elements: PhantomData,
        }
    }

    /// Returns the memory that these rows lie in, with the numbers between them.
    pub(super) fn span(&self, rows: Range<usize>) -> *const [T] {
        let start = self.data.wrapping_add(rows.start * self.row_stride);
        std::ptr::slice_from_raw_parts(start, rows.len() * self.row_stride)
    }

    /// Returns row `i` as a slice, which is empty if there is no such row.
    #[expect(unsafe_code, reason = "a row of a rectangle is a slice that borrowing cannot express")]
    pub(super) fn row_mut(&mut self, i: usize) -> &mut [T] {
        if i >= self.rows {
            return &mut [];
        }
        // SAFETY: i < rows, so the `cols` elements from i * row_stride lie in the slice that this view was
        // split from; no other view holds them (type invariant), and the returned borrow holds self.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(i * self.row_stride), self.cols) }
    }
}

/// Computes `dst = lhs · rhs`, or `dst += lhs · rhs` if `accumulate`, on one thread. The order of summation depends on the
/// shapes alone. Returns an error if the shapes do not fit.
#[expect(unsafe_code, reason = "the gemm crate takes raw pointers")]
pub(super) fn multiply<T: Float>(
    dst: &mut MatMut<'_, T>,
    accumulate: bool,
    lhs: MatRef<'_, T>,
    rhs: MatRef<'_, T>,
) -> Result<()> {
    if lhs.rows != dst.rows || rhs.cols != dst.cols || lhs.cols != rhs.rows {
        let sizes = [(lhs.rows, lhs.cols), (rhs.rows, rhs.cols), (dst.rows, dst.cols)];
        bail!("the factors and the result of a product are matrices of {sizes:?}");
    }
    // SAFETY: MatRef::new checked that every (i, j) of both operands lies in its slice, and MatMut's
    // invariant says so for dst, whose elements nothing else can touch during the call; slices are at most
    // isize::MAX bytes, so the strides fit; T is f32 or f64, which gemm supports.
    unsafe {
        gemm::gemm(
            dst.rows,
            dst.cols,
            lhs.cols,
            dst.data,
            1,
            dst.row_stride as isize,
            accumulate,
            lhs.data.as_ptr(),
            lhs.col_stride as isize,
            lhs.row_stride as isize,
            rhs.data.as_ptr(),
            rhs.col_stride as isize,
            rhs.row_stride as isize,
            T::one(),
            T::one(),
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
    Ok(())
}

/// Multiplications below which a product stays on one thread, because a task costs about as much.
const TASK: usize = 1 << 18;

/// Computes `dst = lhs · rhs` on several threads. The shapes alone decide how the work is cut, so results have the same bits
/// for every number of threads.
pub(super) fn multiply_parallel<T: Float>(
    mut dst: MatMut<'_, T>,
    lhs: MatRef<'_, T>,
    rhs: MatRef<'_, T>,
) -> Result<()> {
    let (rows, cols) = (dst.rows, dst.cols);
    let by_rows = rows >= cols;
    let half = (rows.max(cols) / 2).next_multiple_of(64);
    if rows * cols * lhs.cols <= TASK || half >= rows.max(cols) {
        return multiply(&mut dst, false, lhs, rhs);
    }
    let (first, second) = if by_rows {
        let ((top, bottom), (above, below)) = (dst.split_rows(half), lhs.split_rows(half));
        rayon::join(|| multiply_parallel(top, above, rhs), || multiply_parallel(bottom, below, rhs))
    } else {
        let ((left, right), (before, after)) = (dst.split_cols(half), rhs.t().split_rows(half));
        rayon::join(|| multiply_parallel(left, lhs, before.t()), || multiply_parallel(right, lhs, after.t()))
    };
    first.and(second)
}

/// Cuts `0..len` into at most `parts` ranges without an empty one. The lengths are multiples of `multiple`, except perhaps the
/// last.
pub(super) fn even_ranges(len: usize, parts: usize, multiple: usize) -> Vec<Range<usize>> {
    let step = len.div_ceil(parts.max(1)).next_multiple_of(multiple.max(1)).max(1);
    (0..len).step_by(step).map(|start| start..(start + step).min(len)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_of_strided_views_is_the_product() {
        // lhs is the transpose of a stored 3 x 2, rhs skips every other column.
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 4.0, 9.0, 5.0, 9.0, 6.0, 9.0];
        let mut out = [1.0f64; 4];
        let lhs = MatRef::new(&a, (3, 2), (2, 1)).unwrap().t();
        let rhs = MatRef::new(&b, (3, 2), (4, 2)).unwrap();
        multiply(&mut MatMut::new(&mut out, 2, 2).unwrap(), false, lhs, rhs).unwrap();
        assert_eq!(out, [35.0, 44.0, 44.0, 56.0]);
        multiply(&mut MatMut::new(&mut out, 2, 2).unwrap(), true, lhs, rhs).unwrap();
        assert_eq!(out, [70.0, 88.0, 88.0, 112.0]);
    }

    #[test]
    fn views_that_leave_their_slice_are_refused() {
        let a = [0.0f32; 6];
        assert!(MatRef::new(&a, (2, 3), (3, 1)).is_ok());
        assert!(MatRef::new(&a, (2, 3), (4, 1)).is_err());
        assert!(MatRef::new(&a, (usize::MAX, usize::MAX), (usize::MAX, usize::MAX)).is_err());
        assert!(MatRef::new(&a, (0, 3), (3, 1)).is_err());
        assert!(MatMut::new(&mut [0.0f32; 6], 2, 2).is_err());
        let mut out = [0.0f32; 4];
        let view = MatRef::new(&a, (2, 3), (3, 1)).unwrap();
        assert!(multiply(&mut MatMut::new(&mut out, 2, 2).unwrap(), false, view, view).is_err());
    }

    #[test]
    fn splits_are_disjoint_and_cover() {
        let mut data: Vec<f64> = vec![0.0; 5 * 7];
        let (left, right) = MatMut::new(&mut data, 5, 7).unwrap().split_cols(3);
        let (top, bottom) = right.split_rows(2);
        for (mark, mut part) in [left, top, bottom].into_iter().enumerate() {
            for i in 0..part.rows {
                part.row_mut(i).iter_mut().for_each(|v| *v += mark as f64 + 1.0);
            }
            let beyond = part.rows;
            assert!(part.row_mut(beyond).is_empty());
        }
        for (i, v) in data.iter().enumerate() {
            let expected = if i % 7 < 3 {
                1.0
            } else if i / 7 < 2 {
                2.0
            } else {
                3.0
            };
            assert_eq!(*v, expected);
        }
    }

    #[test]
    fn ranges_cover_in_order() {
        assert_eq!(even_ranges(10, 3, 1), vec![0..4, 4..8, 8..10]);
        assert_eq!(even_ranges(10, 3, 16), vec![0..10]);
        assert!(even_ranges(0, 3, 1).is_empty());
    }
}
