//! Eq. 1: the model.

use candle_core::{Tensor, Var};

use crate::{Conditional, Error, Result, check};

/// Values of f and of its derivatives along one direction v per candidate, `(B, M)` each, differentiable in the
/// parameters.
#[derive(Clone, Debug)]
pub struct DirectionalDerivatives {
    /// `f(x, y)`.
    pub value: Tensor,
    /// `vᵀ ∇_y f(x, y)`.
    pub first: Tensor,
    /// `vᵀ ∇²_y f(x, y) v`, if [`Order::Second`] was requested.
    pub second: Option<Tensor>,
}

/// The derivatives to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first derivative.
    First,
    /// The first and the second derivative.
    Second,
}

/// The function `f(x, y)` of Eq. 1, `p(y | x) = exp f(x, y) / Z(x)`: the negative energy, higher is better.
///
/// [`Features`](Self::Features) depend on x alone, so they are computed once per x and serve every y passed to
/// [`score`](Self::score). The paper's argument for efficiency rests on this split (Section 3.2).
pub trait EnergyModel {
    /// Features that the network extracts from a batch of B inputs x before it sees any y.
    type Features;

    /// Returns `f(x, y)`, shape `(B, M)`, of the candidates `y`, shape `(B, M, D)`. The result is differentiable
    /// in `y` and in the parameters. The score of a candidate must not depend on the other candidates.
    ///
    /// # Errors
    /// The error of the network; see [`Error::model`].
    fn score(&self, features: &Self::Features, y: &Tensor) -> Result<Tensor>;

    /// Returns `f(x, y)`, shape `(B, M)`, and its gradient in y, shape `(B, M, D)`, both detached from any graph.
    ///
    /// The default uses autograd, which also runs back through the graph that made `features`: detach them before
    /// refinement. Override this method if the network has a cheaper form of the gradient in y.
    ///
    /// # Errors
    /// The errors of [`score`](Self::score), [`Error::Shape`] if the result of `score` has another shape, and
    /// [`Error::NoGradient`] if it does not depend on `y`.
    fn score_and_grad(&self, features: &Self::Features, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let y = Var::from_tensor(&y.detach())?;
        let f = checked_score(self, features, &y)?;
        // Each f depends on its own y alone, so the gradient of the sum holds all the gradients.
        let gradients = f.sum_all()?.backward()?;
        let gradient = gradients.get(&y).ok_or(Error::NoGradient)?;
        Ok((f.detach(), gradient.detach()))
    }

    /// Returns the results of [`score_and_grad`](Self::score_and_grad), with the gradient only where
    /// `needs_gradient` returns true. `needs_gradient` gets the row-major index of a candidate among the B × M
    /// and its f. The gradient of the other candidates may be any finite numbers.
    ///
    /// The default computes all gradients. Override this method if a gradient costs much more than f;
    /// [`refine`](crate::refine) then pays only for the steps that it keeps.
    ///
    /// # Errors
    /// The errors of [`score_and_grad`](Self::score_and_grad).
    fn score_and_grad_where(
        &self,
        features: &Self::Features,
        y: &Tensor,
        _needs_gradient: &dyn Fn(usize, f64) -> bool,
    ) -> Result<(Tensor, Tensor)> {
        self.score_and_grad(features, y)
    }

    /// Returns the density `p(y | x)` at the `features` of `batch` inputs x.
    fn bind<'a>(&'a self, features: &'a Self::Features, batch: usize) -> Conditional<'a, Self>
    where
        Self: Sized,
    {
        Conditional::new(self, features, batch)
    }

    /// Returns f at `y` and its derivatives along `direction`, both `(B, M, D)`, from the network's own forward
    /// mode. Score matching trains on these derivatives. candle cannot differentiate a gradient, so a network
    /// without a forward mode needs [`Derivatives::Differences`](crate::Derivatives::Differences).
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless overridden; otherwise the error of the network.
    fn derivatives_along(
        &self,
        _features: &Self::Features,
        _y: &Tensor,
        _direction: &Tensor,
        _order: Order,
    ) -> Result<DirectionalDerivatives> {
        Err(Error::Unsupported {
            what: "EnergyModel::derivatives_along",
            remedy: "implement it for this network, or take Derivatives::Differences",
        })
    }

    /// Returns the quality, `(B, M)`, from 0 to 1, of the candidates `y`, `(B, M, D)`, for the true targets
    /// `y_i`, `(B, D)`. For boxes it is the IoU. [`QualityRegression`](crate::QualityRegression) trains f to
    /// predict it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless overridden; otherwise the error of the network.
    fn quality(&self, _features: &Self::Features, _y: &Tensor, _y_i: &Tensor) -> Result<Tensor> {
        Err(Error::Unsupported {
            what: "EnergyModel::quality",
            remedy: "implement it, for boxes as their IoU, or take another objective",
        })
    }

    /// Returns `b(x)`, shape `(B)`, the network's own estimate of `log Z(x)`, differentiable in the parameters.
    /// [`SelfNormalized`](crate::SelfNormalized) trains it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless overridden; otherwise the error of the network.
    fn log_normalizer(&self, _features: &Self::Features) -> Result<Tensor> {
        Err(Error::Unsupported {
            what: "EnergyModel::log_normalizer",
            remedy: "implement it, for instance as a linear layer on the features, or take another objective",
        })
    }
}

impl<M: EnergyModel + ?Sized> EnergyModel for &M {
    type Features = M::Features;

    fn score(&self, features: &Self::Features, y: &Tensor) -> Result<Tensor> {
        (**self).score(features, y)
    }

    fn score_and_grad(&self, features: &Self::Features, y: &Tensor) -> Result<(Tensor, Tensor)> {
        (**self).score_and_grad(features, y)
    }

    fn score_and_grad_where(
        &self,
        features: &Self::Features,
        y: &Tensor,
        needs_gradient: &dyn Fn(usize, f64) -> bool,
    ) -> Result<(Tensor, Tensor)> {
        (**self).score_and_grad_where(features, y, needs_gradient)
    }

    fn derivatives_along(
        &self,
        features: &Self::Features,
        y: &Tensor,
        direction: &Tensor,
        order: Order,
    ) -> Result<DirectionalDerivatives> {
        (**self).derivatives_along(features, y, direction, order)
    }

    fn quality(&self, features: &Self::Features, y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
        (**self).quality(features, y, y_i)
    }

    fn log_normalizer(&self, features: &Self::Features) -> Result<Tensor> {
        (**self).log_normalizer(features)
    }
}

/// Returns `model.score` after a check of its shape.
pub(crate) fn checked_score<M: EnergyModel + ?Sized>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
) -> Result<Tensor> {
    let f = model.score(features, y)?;
    let (batch, count, _) = check::dims3("y", y)?;
    check::dims("the result of EnergyModel::score", &f, "(B, M)", &[batch, count])?;
    Ok(f)
}

/// Returns `model.score_and_grad_where` after a check of both shapes.
pub(crate) fn checked_score_and_grad<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
    needs_gradient: &dyn Fn(usize, f64) -> bool,
) -> Result<(Tensor, Tensor)> {
    let (f, gradient) = model.score_and_grad_where(features, y, needs_gradient)?;
    let (batch, count, dim) = check::dims3("y", y)?;
    check::dims("the value of EnergyModel::score_and_grad", &f, "(B, M)", &[batch, count])?;
    check::dims("the gradient of EnergyModel::score_and_grad", &gradient, "(B, M, D)", &[batch, count, dim])?;
    Ok((f, gradient))
}
