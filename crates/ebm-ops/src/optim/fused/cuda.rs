//! The updates on a GPU, one kernel each.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Layout, Result};

use super::{Blend, SubtractRatio};
use crate::cuda::{Argument, Element, by_type, elements, elements_mut, launch};

type Updated<'a> = (&'a mut CudaStorage, &'a Layout);

impl Blend {
    pub(super) fn cuda(&self, x: Updated<'_>, g: Argument<'_>, p: Argument<'_>) -> Result<()> {
        fn run<T: Element>(op: &Blend, x: Updated<'_>, g: Argument<'_>, p: Argument<'_>) -> Result<()> {
            let (device, len) = (g.0.device(), x.1.shape().elem_count());
            let (g, p) = (elements::<T>(g.0, g.1)?, elements::<T>(p.0, p.1)?);
            let mut x = elements_mut::<T>(x.0, x.1)?;
            let square = i32::from(op.square);
            launch!(device, UPDATES::"blend", T, len; &mut x, &g, &p, &op.keep, &op.add, &op.decay, &square);
            Ok(())
        }
        by_type!(g.0, "optim-blend", run(self, x, g, p))
    }
}

impl SubtractRatio {
    pub(super) fn cuda(&self, p: Updated<'_>, m: Argument<'_>, v: Argument<'_>) -> Result<()> {
        fn run<T: Element>(
            op: &SubtractRatio,
            p: Updated<'_>,
            m: Argument<'_>,
            v: Argument<'_>,
        ) -> Result<()> {
            let (device, len) = (m.0.device(), p.1.shape().elem_count());
            let (m, v) = (elements::<T>(m.0, m.1)?, elements::<T>(v.0, v.1)?);
            let mut p = elements_mut::<T>(p.0, p.1)?;
            launch!(device, UPDATES::"subtract_ratio", T, len; &mut p, &m, &v, &op.rate, &op.root, &op.eps);
            Ok(())
        }
        by_type!(m.0, "optim-subtract-ratio", run(self, p, m, v))
    }
}
