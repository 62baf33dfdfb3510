//! The three products of a linear layer, by element type.

use candle_core::Result;

use crate::float::Float;
use crate::gemm::{MatMut, MatRef, multiply_parallel};
use crate::packed::{Epilogue, Left, Output, Panels, Right, Sizes, dense};

/// Multiplications from which on packing pays for a product in f32.
const LARGE: usize = 1 << 22;

/// Product of two matrices whose rows lie end to end.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// `A · Bᵀ`, with b (columns × depth).
    ByTransposed,
    /// `A · B`.
    By,
    /// `Aᵀ · B`, with a (depth × rows).
    TransposedBy,
}

/// Element types of the products.
pub(super) trait Products: Float {
    /// Computes a large product, if the type has packed products.
    fn packed(_: Form, _: &[Self], _: &[Self], _: Sizes) -> Result<Option<Vec<Self>>> {
        Ok(None)
    }
}

/// Returns the product of `a` and `b`. [`Sizes`] has the sizes of the two factors in the order in which they are multiplied.
pub(super) fn product<T: Products>(form: Form, a: &[T], b: &[T], sizes: Sizes) -> Result<Vec<T>> {
    let Sizes { rows, depth, columns } = sizes;
    if rows * depth * columns >= LARGE
        && let Some(c) = T::packed(form, a, b, sizes)?
    {
        return Ok(c);
    }
    let a = match form {
        Form::TransposedBy => MatRef::new(a, (depth, rows), (rows, 1))?.t(),
        _ => MatRef::new(a, (rows, depth), (depth, 1))?,
    };
    let b = match form {
        Form::ByTransposed => MatRef::new(b, (columns, depth), (depth, 1))?.t(),
        _ => MatRef::new(b, (depth, columns), (columns, 1))?,
    };
    let mut c = vec![T::zero(); rows * columns];
    multiply_parallel(MatMut::new(&mut c, rows, columns)?, a, b)?;
    Ok(c)
}

impl Products for f64 {}

impl Products for f32 {
    fn packed(form: Form, a: &[f32], b: &[f32], sizes: Sizes) -> Result<Option<Vec<f32>>> {
        let Sizes { rows, depth, columns } = sizes;
        let mut c = vec![0.0; rows * columns];
        if form == Form::ByTransposed {
            // Computed as `(B · Aᵀ)ᵀ`: b, usually the weights and the larger matrix, is read as it lies, and a is packed.
            let (turned, a) =
                (Sizes { rows: columns, depth, columns: rows }, Panels::transposed(a, depth, 1));
            dense(Left::Rows(b), Right::Panels(&a), turned, Output::Columns(&mut c))?;
        } else {
            let left = if form == Form::By { Left::Rows(a) } else { Left::Columns(a) };
            dense(left, Right::Rows(b), sizes, Output::Rows(&mut c, Epilogue::default()))?;
        }
        Ok(Some(c))
    }
}
