//! Batch normalisation.

#[cfg(feature = "cuda")]
mod gpu;
pub(crate) mod rows;

use candle_core::{DType, Tensor, Var};
use candle_nn::{Init, VarBuilder};

use crate::bf16::in_f32;
use crate::{Activation, Error, Result, prelu};

/// Settings of a [`BatchNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// Number that is added to the variance. torch's default is 1e-5. Detectron's frozen layers have 0.
    pub eps: f64,
    /// Weight of the batch in the running statistics. torch's default is 0.1.
    pub momentum: f64,
    /// Whether the layer is an affine map of its running statistics in training too, with no trained parameter, as
    /// torchvision's `FrozenBatchNorm2d`.
    pub frozen: bool,
}

impl BatchNormConfig {
    /// Settings of torch's `BatchNorm2d`.
    pub const TRAIN: Self = Self { eps: 1e-5, momentum: 0.1, frozen: false };

    /// Returns the settings of torchvision's `FrozenBatchNorm2d` with this `eps`.
    pub fn frozen(eps: f64) -> Self {
        Self { eps, frozen: true, ..Self::TRAIN }
    }
}

/// Batch normalisation over all dimensions of (N, C, …) but the second: torch's `BatchNorm1d` and
/// `BatchNorm2d`, with their names `weight`, `bias`, `running_mean` and `running_var`.
///
/// In training y = γ (x − μ)/√(σ² + ε) + β with the mean μ and the biased variance σ² of the batch, and the running
/// statistics move towards μ and the **unbiased** variance. Otherwise, and always if frozen, the running statistics are used
/// for μ and σ², which gives a fixed affine map.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running_mean: Var,
    running_var: Var,
    config: BatchNormConfig,
}

impl BatchNorm {
    /// Makes a layer of `channels` channels. Initially weight is 1, bias 0, running mean 0 and running variance 1.
    ///
    /// # Errors
    /// Returns an error if `vb` refuses a tensor.
    pub fn new(channels: usize, config: BatchNormConfig, vb: VarBuilder) -> Result<Self> {
        Self::with_weight(channels, config, Init::Const(1.), vb)
    }

    /// Makes a layer as [`new`](Self::new) does, with the weight initially drawn from `weight`.
    ///
    /// # Errors
    /// Returns an error if `vb` refuses a tensor.
    pub fn with_weight(
        channels: usize,
        config: BatchNormConfig,
        weight: Init,
        vb: VarBuilder,
    ) -> Result<Self> {
        let get = |name, value| vb.get_with_hints(channels, name, Init::Const(value));
        let (weight, bias) = (vb.get_with_hints(channels, "weight", weight)?, get("bias", 0.)?);
        let (weight, bias) = if config.frozen { (weight.detach(), bias.detach()) } else { (weight, bias) };
        // A buffer comes as a variable and stays that variable, so updates reach the parameter store.
        let running_mean = Var::from_tensor(&get("running_mean", 0.)?)?;
        let running_var = Var::from_tensor(&get("running_var", 1.)?)?;
        Ok(Self { weight, bias, running_mean, running_var, config })
    }

    /// Normalises `x` of shape (N, C, …). With `train`, and unless the layer is frozen, it uses the batch's statistics and
    /// updates the running ones.
    ///
    /// # Errors
    /// Returns an error if `x` has another number of channels, or if there is one value per channel in training.
    pub fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let rank = x.rank();
        if rank < 2 {
            let reason = format!("needs (N, {}, …), not {:?}", self.weight.elem_count(), x.dims());
            return Err(Error::Argument { op: "BatchNorm", reason });
        }
        let y = self.forward_fused(&x.permute(channels_last(rank))?, NormEpilogue::default(), train)?;
        Ok(y.permute(channels_second(rank))?)
    }

    /// Normalises maps with the channels innermost, (N, …, C), as [`forward`](Self::forward) does. Then adds `residual`, of
    /// the same shape, and with `relu` sets negative numbers to 0.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward), and an error if `residual` has another shape.
    pub fn forward_channels_last(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        relu: bool,
        train: bool,
    ) -> Result<Tensor> {
        let activation = Activation::relu_where(relu);
        self.forward_fused(x, NormEpilogue { residual, activation, slope: None }, train)
    }

    /// Normalises maps with the channels innermost, (N, …, C), and applies `epilogue`. If the batch normalises, both take
    /// one pass over memory.
    ///
    /// # Errors
    /// The errors of [`forward_channels_last`](Self::forward_channels_last).
    pub(crate) fn forward_fused(
        &self,
        x: &Tensor,
        epilogue: NormEpilogue<'_>,
        train: bool,
    ) -> Result<Tensor> {
        let (channels, residual) = (self.weight.elem_count(), epilogue.residual);
        if x.rank() < 2 || x.dim(x.rank() - 1)? != channels {
            let reason = format!("needs (N, …, {channels}), not {:?}", x.dims());
            return Err(Error::Argument { op: "BatchNorm", reason });
        }
        if let Some(residual) = residual.filter(|residual| residual.shape() != x.shape()) {
            let reason = format!("x is {:?}, the residual {:?}", x.dims(), residual.dims());
            return Err(Error::Argument { op: "BatchNorm", reason });
        }
        let by_batch = self.uses_batch(train);
        if x.dtype() == DType::BF16 && !(by_batch && x.device().is_cuda()) {
            return epilogue.apply(&in_f32(x, |x| self.forward_fused(x, NormEpilogue::default(), train))?);
        }
        if by_batch {
            return self.by_batch(x, epilogue);
        }
        let (scale, shift) = self.affine()?;
        epilogue.apply(&x.broadcast_mul(&scale)?.broadcast_add(&shift)?)
    }

    /// Returns γ and β.
    pub fn parameters(&self) -> [&Tensor; 2] {
        [&self.weight, &self.bias]
    }

    /// Returns `true` if [`forward`](Self::forward) normalises by the batch.
    pub fn uses_batch(&self, train: bool) -> bool {
        train && !self.config.frozen
    }

    /// Returns the affine map y = scale · x + shift that the running statistics define, each (C): scale = γ/√(σ² + ε), shift
    /// = β − μ · scale. Gradients flow to γ and β, if these are trained.
    ///
    /// # Errors
    /// Returns an error if a tensor operation fails.
    pub fn affine(&self) -> Result<(Tensor, Tensor)> {
        let std = (self.running_var.as_detached_tensor() + self.config.eps)?.sqrt()?;
        let scale = (&self.weight / std)?;
        let shift = (&self.bias - (self.running_mean.as_detached_tensor() * &scale)?)?;
        Ok((scale, shift))
    }

    /// Computes [`forward_fused`](Self::forward_fused) by the batch's mean and biased variance, and updates the running statistics.
    fn by_batch(&self, x: &Tensor, epilogue: NormEpilogue<'_>) -> Result<Tensor> {
        let count = x.elem_count() / self.weight.elem_count().max(1);
        if count < 2 {
            let reason = format!("training needs more than one value per channel, not {:?}", x.dims());
            return Err(Error::Argument { op: "BatchNorm", reason });
        }
        #[cfg(feature = "cuda")]
        let fused = if x.device().is_cuda() { gpu::fused } else { rows::fused };
        #[cfg(not(feature = "cuda"))]
        let fused = rows::fused;
        let ((y, mean, var), rest) = fused(x, self.parameters(), epilogue, self.config.eps)?;
        move_towards(&self.running_mean, &mean, 1., self.config.momentum)?;
        let unbiased = count as f64 / (count - 1) as f64;
        move_towards(&self.running_var, &var, unbiased, self.config.momentum)?;
        rest.apply(&y)
    }
}

/// Operations after a normalisation: the sum with a residual of the same shape, and an activation or PReLU with these slopes
/// (C).
#[derive(Clone, Copy, Debug, Default)]
pub struct NormEpilogue<'a> {
    /// Map that is added.
    pub residual: Option<&'a Tensor>,
    /// Activation after the sum.
    pub activation: Activation,
    /// Slopes of PReLU (C).
    pub slope: Option<&'a Tensor>,
}

impl NormEpilogue<'_> {
    /// Applies the operations to the normalised map.
    pub fn apply(self, y: &Tensor) -> Result<Tensor> {
        match self.slope {
            Some(slope) => prelu(&Activation::None.apply(y, self.residual)?, slope),
            None => self.activation.apply(y, self.residual),
        }
    }
}

/// Result (y, mean, variance) of a fused normalisation, and the operations that the caller still has to apply.
type Fused<'a> = ((Tensor, Tensor, Tensor), NormEpilogue<'a>);

/// Returns the axes of (N, …, C) in the order (N, C, …).
fn channels_second(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// Returns the axes of (N, C, …) in the order (N, …, C).
fn channels_last(rank: usize) -> Vec<usize> {
    std::iter::once(0).chain(2..rank).chain([1]).collect()
}

/// Moves a running statistic a little towards `factor` times the batch's statistic.
fn move_towards(running: &Var, batch: &Tensor, factor: f64, momentum: f64) -> Result<()> {
    #[cfg(feature = "cuda")]
    if batch.device().is_cuda() {
        return Ok(running.inplace_op2(batch, &gpu::Move { momentum, factor })?);
    }
    // In f64, because a running statistic takes many small steps.
    let old = running.as_detached_tensor().to_dtype(DType::F64)?;
    let new = ((old * (1. - momentum))? + (batch.to_dtype(DType::F64)? * (factor * momentum))?)?;
    Ok(running.set(&new.to_dtype(running.dtype())?)?)
}
