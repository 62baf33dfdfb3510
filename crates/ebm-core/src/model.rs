//! Eq. 1: the model.

use candle_core::{Tensor, Var};

use crate::{Conditional, Error, Result, check};

/// f and its derivatives along one direction v for each candidate, `(B, M)` each, differentiable in the
/// parameters.
#[derive(Clone, Debug)]
pub struct DirectionalDerivatives {
    /// `f(x, y)`.
    pub value: Tensor,
    /// `vᵀ ∇_y f(x, y)`.
    pub first: Tensor,
    /// `vᵀ ∇²_y f(x, y) v`, where it was asked for.
    pub second: Option<Tensor>,
}

/// How many derivatives are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first alone.
    First,
    /// The first and the second.
    Second,
}

/// The function `f(x, y)` of Eq. 1, `p(y | x) = exp f(x, y) / Z(x)`: the negative energy, higher is better.
///
/// The split between [`Features`](Self::Features) and [`score`](Self::score) is the paper's argument for
/// efficiency as a type: what depends on x alone is computed once and serves every y (Section 3.2).
pub trait EnergyModel {
    /// What the network extracts from a batch of B inputs x before it sees any y.
    type Features;

    /// `f(x, y)`, shape `(B, M)`, of the candidates `y`, shape `(B, M, D)`; differentiable in `y` and in the
    /// parameters. A candidate's score must not depend on the other candidates.
    ///
    /// # Errors
    /// Whatever the network reports; see [`Error::model`].
    fn score(&self, features: &Self::Features, y: &Tensor) -> Result<Tensor>;

    /// `f(x, y)`, shape `(B, M)`, and its gradient in y, shape `(B, M, D)`, both detached from any graph.
    ///
    /// The default uses autograd, which runs back through all that `features` remember of their making:
    /// detach them before refinement. Override this where the gradient in y alone has a cheaper form.
    ///
    /// # Errors
    /// Those of [`score`](Self::score), [`Error::Shape`] when it breaks its contract, and
    /// [`Error::NoGradient`] when its result does not depend on `y`.
    fn score_and_grad(&self, features: &Self::Features, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let y = Var::from_tensor(&y.detach())?;
        let f = checked_score(self, features, &y)?;
        // Each f depends on its own y alone, so the gradient of the sum holds all the gradients.
        let gradients = f.sum_all()?.backward()?;
        let gradient = gradients.get(&y).ok_or(Error::NoGradient)?;
        Ok((f.detach(), gradient.detach()))
    }

    /// [`score_and_grad`](Self::score_and_grad) for a caller who reads the gradient of some candidates alone: those of which
    /// `is_read` says so, of a candidate's place among the B × M in row-major order and its f. The gradient of the others may
    /// be any finite numbers.
    ///
    /// The default makes all gradients. Override this where one costs much beside f; [`refine`](crate::refine) then pays for
    /// the steps that it keeps.
    ///
    /// # Errors
    /// Those of [`score_and_grad`](Self::score_and_grad).
    fn score_and_grad_where(
        &self,
        features: &Self::Features,
        y: &Tensor,
        _is_read: &dyn Fn(usize, f64) -> bool,
    ) -> Result<(Tensor, Tensor)> {
        self.score_and_grad(features, y)
    }

    /// `p(y | x)` at the `features` of `batch` inputs x: what one asks of a trained model.
    fn bind<'a>(&'a self, features: &'a Self::Features, batch: usize) -> Conditional<'a, Self>
    where
        Self: Sized,
    {
        Conditional::new(self, features, batch)
    }

    /// f at `y` and its derivatives along `direction`, both `(B, M, D)`, by the network's own forward mode;
    /// score matching trains on them. candle can not differentiate a gradient, so that a network without such
    /// a mode has [`Derivatives::Differences`](crate::Derivatives::Differences) instead.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless overridden; else whatever the network reports.
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

    /// How good candidates `y`, `(B, M, D)`, are where `y_i`, `(B, D)`, is true: `(B, M)`, from 0 to 1, for
    /// boxes their overlap; [`QualityRegression`](crate::QualityRegression) teaches it to f.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless overridden; else whatever the network reports.
    fn quality(&self, _features: &Self::Features, _y: &Tensor, _y_i: &Tensor) -> Result<Tensor> {
        Err(Error::Unsupported {
            what: "EnergyModel::quality",
            remedy: "implement it, for boxes as their IoU, or take another objective",
        })
    }

    /// `b(x)`, shape `(B)`, the network's own estimate of `log Z(x)`, differentiable in its parameters;
    /// [`SelfNormalized`](crate::SelfNormalized) trains it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless overridden; else whatever the network reports.
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
        is_read: &dyn Fn(usize, f64) -> bool,
    ) -> Result<(Tensor, Tensor)> {
        (**self).score_and_grad_where(features, y, is_read)
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

/// `model.score`, with the shape of its result verified.
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

/// `model.score_and_grad_where`, with the shapes of its results verified.
pub(crate) fn checked_score_and_grad<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    y: &Tensor,
    is_read: &dyn Fn(usize, f64) -> bool,
) -> Result<(Tensor, Tensor)> {
    let (f, gradient) = model.score_and_grad_where(features, y, is_read)?;
    let (batch, count, dim) = check::dims3("y", y)?;
    check::dims("the value of EnergyModel::score_and_grad", &f, "(B, M)", &[batch, count])?;
    check::dims("the gradient of EnergyModel::score_and_grad", &gradient, "(B, M, D)", &[batch, count, dim])?;
    Ok((f, gradient))
}
