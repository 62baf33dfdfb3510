//! What PrRoIPool and RoIAlign share.
//!
//! Both read box r, bin (p, q) as `out[r,c,p,q] = Σ_y Σ_x wy[p,y] · F[c,y,x] · wx[q,x]`: a product of two
//! sparse matrices with the map, `Wy · F · Wxᵀ` per channel. Only the one-dimensional weights differ. So each
//! operation says what they are ([`Axes`]), and the pooling, its gradients and the choice of instruction set
//! are here.
//!
//! | file | what |
//! |---|---|
//! | `rois` | the rows of the (R, 5) box tensor, checked |
//! | `weights` | the sparse one-dimensional weights of a box |
//! | `kernels` | the loops over channels |
//! | `cuda`, `roi.cu`, `weights.cuh` | the same on a GPU |
//! | `pool` | the loops over boxes, in parallel and independent of the number of threads |
//! | `op` | the operation on tensors and its gradients |

#[cfg(feature = "cuda")]
pub(super) mod cuda;
mod kernels;
mod op;
mod pool;
mod rois;
mod weights;

pub(super) use kernels::{pool_box, roi_grad_box};
pub(super) use op::{Axes, RoiPool, check_settings};
pub(super) use pool::by_place;
pub(super) use rois::{Roi, Span, parse};
pub(super) use weights::{AxisWeights, BoxWeights};
