//! The two element types and their product with a packed matrix.

use candle_core::Result;
use pulp::{Arch, Simd, WithSimd};

use crate::ops::float::Float;
use crate::ops::gemm::{self, MatMut, MatRef};
use crate::ops::packed::{Panels, product_here};

/// Rows of A at equal distances, as many numbers of each as the product's depth.
#[derive(Clone, Copy)]
pub(super) struct Strided<'a, T> {
    pub(super) data: &'a [T],
    pub(super) stride: usize,
}

/// An element type: f32 with the register tiles of packed products, f64 (for tests and comparisons) with
/// gemm's.
pub(super) trait PackedProduct: Float {
    /// A matrix B (depth × columns) in the order in which the product reads it.
    type Packed: Send + Sync;

    /// Packs the matrix whose element (k, column) is `element(k, column)`.
    fn pack(depth: usize, columns: usize, element: impl Fn(usize, usize) -> Self) -> Self::Packed;

    /// `c = A · B`, or `c += A · B`; the rows of c, as long as B's, lie end to end and say how many A has.
    fn product(a: Strided<'_, Self>, b: &Self::Packed, accumulate: bool, c: &mut [Self]) -> Result<()>;
}

impl PackedProduct for f32 {
    type Packed = Panels;

    fn pack(depth: usize, columns: usize, element: impl Fn(usize, usize) -> Self) -> Panels {
        let mut panels = Panels::zeros(depth, columns);
        let width = panels.width();
        for (panel, to) in panels.panels_mut_in_order().enumerate() {
            for (k, row) in to.chunks_exact_mut(width).enumerate() {
                for (value, column) in row.iter_mut().zip(panel * width..columns) {
                    *value = element(k, column);
                }
            }
        }
        panels
    }

    fn product(a: Strided<'_, Self>, b: &Panels, accumulate: bool, c: &mut [Self]) -> Result<()> {
        Arch::new().dispatch(Product { a, b, accumulate, c });
        Ok(())
    }
}

struct Product<'a> {
    a: Strided<'a, f32>,
    b: &'a Panels,
    accumulate: bool,
    c: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        product_here(simd, (self.a.data, self.a.stride), self.b, self.accumulate, self.c);
    }
}

impl PackedProduct for f64 {
    /// Row after row, and the number of rows.
    type Packed = (Vec<f64>, usize);

    fn pack(depth: usize, columns: usize, element: impl Fn(usize, usize) -> Self) -> (Vec<f64>, usize) {
        let row = |k| (0..columns).map(move |column| (k, column));
        ((0..depth).flat_map(row).map(|(k, column)| element(k, column)).collect(), depth)
    }

    fn product(
        a: Strided<'_, Self>,
        (b, depth): &(Vec<f64>, usize),
        accumulate: bool,
        c: &mut [Self],
    ) -> Result<()> {
        let columns = b.len() / depth;
        let count = c.len() / columns;
        let lhs = MatRef::new(a.data, (count, *depth), (a.stride, 1))?;
        let rhs = MatRef::new(b, (*depth, columns), (columns, 1))?;
        gemm::multiply(&mut MatMut::new(c, count, columns)?, accumulate, lhs, rhs)
    }
}
