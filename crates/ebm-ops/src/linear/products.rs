//! The three products of a linear layer, by element type.

use candle_core::Result;

use crate::float::Float;
use crate::gemm::{MatMut, MatRef, multiply_parallel};
use crate::packed::{Epilogue, Left, Output, Panels, Right, Sizes, dense};

/// Multiplications from which on a product in f32 is worth packing for.
const LARGE: usize = 1 << 22;

/// Products of matrices whose rows lie end to end. [`Sizes`] are those of the two factors as they are
/// multiplied.
pub(super) trait Products: Float {
    /// `A · Bᵀ`, b (columns × depth).
    fn by_transposed(a: &[Self], b: &[Self], sizes: Sizes) -> Result<Vec<Self>> {
        plain_by_transposed(a, b, sizes)
    }

    /// `A · B`.
    fn by(a: &[Self], b: &[Self], sizes: Sizes) -> Result<Vec<Self>> {
        plain_by(a, b, sizes)
    }

    /// `Aᵀ · B`, a (depth × rows).
    fn transposed_by(a: &[Self], b: &[Self], sizes: Sizes) -> Result<Vec<Self>> {
        plain_transposed_by(a, b, sizes)
    }
}

fn plain_by_transposed<T: Float>(a: &[T], b: &[T], sizes: Sizes) -> Result<Vec<T>> {
    let Sizes { rows, depth, columns } = sizes;
    let b = MatRef::new(b, (columns, depth), (depth, 1))?.t();
    gemm(MatRef::new(a, (rows, depth), (depth, 1))?, b, sizes)
}

fn plain_by<T: Float>(a: &[T], b: &[T], sizes: Sizes) -> Result<Vec<T>> {
    let Sizes { rows, depth, columns } = sizes;
    let a = MatRef::new(a, (rows, depth), (depth, 1))?;
    gemm(a, MatRef::new(b, (depth, columns), (columns, 1))?, sizes)
}

fn plain_transposed_by<T: Float>(a: &[T], b: &[T], sizes: Sizes) -> Result<Vec<T>> {
    let Sizes { rows, depth, columns } = sizes;
    let a = MatRef::new(a, (depth, rows), (rows, 1))?.t();
    gemm(a, MatRef::new(b, (depth, columns), (columns, 1))?, sizes)
}

/// Whether a product is worth packing for.
fn is_large(sizes: Sizes) -> bool {
    sizes.rows * sizes.depth * sizes.columns >= LARGE
}

fn gemm<T: Float>(a: MatRef<'_, T>, b: MatRef<'_, T>, sizes: Sizes) -> Result<Vec<T>> {
    let mut c = vec![T::zero(); sizes.rows * sizes.columns];
    multiply_parallel(MatMut::new(&mut c, sizes.rows, sizes.columns)?, a, b)?;
    Ok(c)
}

impl Products for f64 {}

impl Products for f32 {
    /// Computed as `(B · Aᵀ)ᵀ`: b, as a rule the weights and the larger, is read as it lies, and a packed.
    fn by_transposed(a: &[f32], b: &[f32], sizes: Sizes) -> Result<Vec<f32>> {
        if !is_large(sizes) {
            return plain_by_transposed(a, b, sizes);
        }
        let Sizes { rows, depth, columns } = sizes;
        let mut c = vec![0.0; rows * columns];
        let turned = Sizes { rows: columns, depth, columns: rows };
        dense(
            Left::Rows(b),
            Right::Panels(&Panels::transposed(a, depth, 1)),
            turned,
            Output::Columns(&mut c),
        )?;
        Ok(c)
    }

    fn by(a: &[f32], b: &[f32], sizes: Sizes) -> Result<Vec<f32>> {
        if is_large(sizes) { packing(Left::Rows(a), b, sizes) } else { plain_by(a, b, sizes) }
    }

    fn transposed_by(a: &[f32], b: &[f32], sizes: Sizes) -> Result<Vec<f32>> {
        if is_large(sizes) { packing(Left::Columns(a), b, sizes) } else { plain_transposed_by(a, b, sizes) }
    }
}

fn packing(left: Left<'_>, b: &[f32], sizes: Sizes) -> Result<Vec<f32>> {
    let mut c = vec![0.0; sizes.rows * sizes.columns];
    dense(left, Right::Rows(b), sizes, Output::Rows(&mut c, Epilogue::default()))?;
    Ok(c)
}
