//! Coordinates in which targets are modelled: the meaning of y in each task.

use candle_core::{D, Tensor};

use crate::{Error, Result, check, host};

/// Map between targets as a dataset states them and y as the model sees it, both `(B, M, D)`.
pub trait TargetSpace {
    /// Converts the dataset's `targets` to y.
    ///
    /// # Errors
    /// If the shape is wrong, or a target has no representation.
    fn encode(&self, targets: &Tensor) -> Result<Tensor>;

    /// Converts `y` to the dataset's form, differentiably. It is the inverse of [`encode`](Self::encode).
    ///
    /// # Errors
    /// When the shape is wrong.
    fn decode(&self, y: &Tensor) -> Result<Tensor>;
}

/// Boxes as `y = (c_x/w₀, c_y/h₀, log w, log h)` (Section 4.1).
///
/// The dataset's form of a box is `(x0, y0, x1, y1)` in pixels, with width x1 − x0. The reference size `(w₀, h₀)`
/// is the size of the true box in training and of the initial box in prediction. The gradient treats it as a
/// constant.
#[derive(Clone, Debug)]
pub struct BoxSpace {
    size: Tensor,
}

impl BoxSpace {
    /// Creates the space with the sizes of the boxes `reference`: `(B, M, 4)` for one reference per candidate, or
    /// `(B, 1, 4)` for one that all candidates of an input share.
    ///
    /// # Errors
    /// [`Error::Shape`], or [`Error::DegenerateBox`] for a reference without extent.
    pub fn new(reference: &Tensor) -> Result<Self> {
        let (_, size) = center_and_size("the reference boxes", &reference.detach())?;
        positive_sizes("the reference box", &size)?;
        Ok(Self { size })
    }

    /// Returns the gradient in y, `(B, M, 4)`, from the gradient in the decoded `corners`, `(B, M, 4)`, by the
    /// chain rule through [`decode`](TargetSpace::decode) and without a graph.
    ///
    /// # Errors
    /// If a shape is wrong.
    pub fn decode_gradient(&self, y: &Tensor, corners: &Tensor) -> Result<Tensor> {
        last_dim("y", y, 4)?;
        last_dim("the gradient in the corners", corners, 4)?;
        let (low, high) = (corners.narrow(D::Minus1, 0, 2)?, corners.narrow(D::Minus1, 2, 2)?);
        let center = (&low + &high)?.broadcast_mul(&self.size)?;
        let half = (y.narrow(D::Minus1, 2, 2)?.exp()? * 0.5)?;
        Ok(Tensor::cat(&[&center, &((&high - &low)? * half)?], D::Minus1)?)
    }
}

impl TargetSpace for BoxSpace {
    fn encode(&self, targets: &Tensor) -> Result<Tensor> {
        let (center, size) = center_and_size("the boxes", targets)?;
        positive_sizes("the box", &size)?;
        Ok(Tensor::cat(&[&center.broadcast_div(&self.size)?, &size.log()?], D::Minus1)?)
    }

    fn decode(&self, y: &Tensor) -> Result<Tensor> {
        last_dim("y", y, 4)?;
        let center = y.narrow(D::Minus1, 0, 2)?.broadcast_mul(&self.size)?;
        let half = (y.narrow(D::Minus1, 2, 2)?.exp()? * 0.5)?;
        Ok(Tensor::cat(&[&(&center - &half)?, &(&center + &half)?], D::Minus1)?)
    }
}

/// IoU-Net's coordinates of boxes (Section 4.1): the four edges, each divided by the square root of the reference
/// box's extent in its direction.
///
/// Gradient ascent with step length λ in these coordinates moves an edge by `λ s ∂f/∂edge`, where s is that
/// extent. This is IoU-Net's rule, which climbs in pixels and takes larger steps for larger boxes. The reference
/// sizes are defined as in [`BoxSpace`].
#[derive(Clone, Debug)]
pub struct EdgeSpace {
    /// √(w₀, h₀, w₀, h₀).
    unit: Tensor,
}

impl EdgeSpace {
    /// Creates the space with the sizes of the boxes `reference`, as in [`BoxSpace::new`].
    ///
    /// # Errors
    /// The errors of [`BoxSpace::new`].
    pub fn new(reference: &Tensor) -> Result<Self> {
        let root = BoxSpace::new(reference)?.size.sqrt()?;
        Ok(Self { unit: Tensor::cat(&[&root, &root], D::Minus1)? })
    }

    /// Returns the gradient in y, `(B, M, 4)`, from the gradient in the decoded `edges`, `(B, M, 4)`.
    ///
    /// # Errors
    /// When the shape is wrong.
    pub fn decode_gradient(&self, edges: &Tensor) -> Result<Tensor> {
        last_dim("the gradient in the edges", edges, 4)?;
        Ok(edges.broadcast_mul(&self.unit)?)
    }
}

impl TargetSpace for EdgeSpace {
    fn encode(&self, targets: &Tensor) -> Result<Tensor> {
        last_dim("the boxes", targets, 4)?;
        Ok(targets.broadcast_div(&self.unit)?)
    }

    fn decode(&self, y: &Tensor) -> Result<Tensor> {
        last_dim("y", y, 4)?;
        Ok(y.broadcast_mul(&self.unit)?)
    }
}

/// Returns the centres and sizes, both `(B, M, 2)`, of `boxes`, `(B, M, 4)`.
fn center_and_size(what: &'static str, boxes: &Tensor) -> Result<(Tensor, Tensor)> {
    last_dim(what, boxes, 4)?;
    let low = boxes.narrow(D::Minus1, 0, 2)?;
    let high = boxes.narrow(D::Minus1, 2, 2)?;
    Ok((((&low + &high)? * 0.5)?, (&high - &low)?))
}

fn positive_sizes(what: &'static str, size: &Tensor) -> Result<()> {
    let sizes = host::values(size)?;
    let degenerate = |pair: &[f64]| !pair.iter().all(|&extent| extent > 0.0 && extent.is_finite());
    match sizes.chunks_exact(2).enumerate().find(|(_, pair)| degenerate(pair)) {
        Some((index, pair)) => Err(Error::DegenerateBox { what, width: pair[0], height: pair[1], index }),
        None => Ok(()),
    }
}

fn last_dim(what: &'static str, tensor: &Tensor, dim: usize) -> Result<()> {
    let (batch, count, _) = check::dims3(what, tensor)?;
    check::dims(what, tensor, "(B, M, D)", &[batch, count, dim])
}
