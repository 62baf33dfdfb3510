//! Pooling from the part of a map that lies under a box: PrRoIPool and RoIAlign.
//!
//! Both read box r, bin (p, q) as `out[r,c,p,q] = Σ_y Σ_x wy[p,y] · F[c,y,x] · wx[q,x]`: a product of two sparse matrices
//! with the map, `Wy · F · Wxᵀ` per channel. Only the one-dimensional weights differ. So each operation defines its weights
//! (`Axes`), and the pooling, its gradients and the choice of instruction set are shared.
//!
//! | file | contents |
//! |---|---|
//! | `rois` | rows of the (R, 5) box tensor, with checks |
//! | `weights` | sparse one-dimensional weights of a box |
//! | `kernels` | loops over channels |
//! | `cuda`, `roi.cu`, `weights.cuh` | weights and loops on a GPU |
//! | `pool` | loops over boxes, in parallel and independent of the number of threads |
//! | `op` | the operation on tensors and its gradients |
//! | `prroi_pool`, `roi_align` | the two operations: their weights, and several maps at once |

#[cfg(feature = "cuda")]
mod cuda;
mod kernels;
mod op;
mod pool;
mod prroi_pool;
mod roi_align;
mod rois;
mod weights;

pub use prroi_pool::{Levels, Pyramid, prroi_pool};
pub use roi_align::roi_align;

use op::{Axes, RoiPool, check_settings};
pub(crate) use pool::Loops;
use rois::{Roi, Span, parse};
use weights::AxisWeights;
