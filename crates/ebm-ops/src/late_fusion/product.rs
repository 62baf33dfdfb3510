//! The two element types and their product with a packed matrix.

use candle_core::Result;
use pulp::{Simd, WithSimd};

use crate::float::Float;
use crate::gemm::{self, MatMut, MatRef};
use crate::packed::{Panels, Strided, product_here};
use crate::simd::arch;

/// Element type: f32 uses the register tiles of packed products, f64 (for tests and comparisons) uses gemm.
pub(super) trait PackedProduct: Float {
    /// Matrix B (depth × columns) in the order in which the product reads it.
    type Packed: Send + Sync;

    /// Packs the matrix whose element (k, column) is `element(k, column)`.
    fn pack(depth: usize, columns: usize, element: impl Fn(usize, usize) -> Self) -> Self::Packed;

    /// Computes `c = A · B`, or `c += A · B` with `accumulate`. The rows of c are as long as B's and lie end to end. Their
    /// number is the number of rows of A.
    fn product(a: Strided<'_, Self>, b: &Self::Packed, accumulate: bool, c: &mut [Self]) -> Result<()>;
}

impl PackedProduct for f32 {
    type Packed = Panels;

    fn pack(depth: usize, columns: usize, element: impl Fn(usize, usize) -> Self) -> Panels {
        let mut panels = Panels::zeros(depth, columns);
        panels.fill(element);
        panels
    }

    fn product(a: Strided<'_, Self>, b: &Panels, accumulate: bool, c: &mut [Self]) -> Result<()> {
        arch().dispatch(Product { a, b, accumulate, c });
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
        product_here(simd, self.a, self.b, None, self.accumulate, self.c);
    }
}

/// Matrix of f64, row after row, with `depth` rows.
pub(super) struct RowMajor {
    data: Vec<f64>,
    depth: usize,
}

impl PackedProduct for f64 {
    type Packed = RowMajor;

    fn pack(depth: usize, columns: usize, element: impl Fn(usize, usize) -> Self) -> RowMajor {
        let row = |k| (0..columns).map(move |column| (k, column));
        RowMajor { data: (0..depth).flat_map(row).map(|(k, column)| element(k, column)).collect(), depth }
    }

    fn product(a: Strided<'_, Self>, b: &RowMajor, accumulate: bool, c: &mut [Self]) -> Result<()> {
        let columns = b.data.len() / b.depth;
        let count = c.len() / columns;
        let lhs = MatRef::new(a.data, (count, b.depth), (a.stride, 1))?;
        let rhs = MatRef::new(&b.data, (b.depth, columns), (columns, 1))?;
        gemm::multiply(&mut MatMut::new(c, count, columns)?, accumulate, lhs, rhs)
    }
}
