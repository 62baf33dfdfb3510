//! Functions of a normalised number z, and their gradients.

use crate::{Float, between, where_between, where_positive};

/// Function of z that may use the slope of PReLU of the channel.
pub(super) trait ActivationFn<T: Float>: Copy + Sync {
    /// Returns the value at z.
    fn value(self, z: T, slope: T) -> T;

    /// Returns the gradient in z from g, the gradient in the value.
    fn gradient(self, g: T, z: T, slope: T) -> T;

    /// Returns the gradient in the slope.
    fn slope_gradient(self, _g: T, _z: T) -> T {
        T::zero()
    }
}

/// Identity, for a normalisation without an activation.
#[derive(Clone, Copy)]
pub(super) struct Identity;

impl<T: Float> ActivationFn<T> for Identity {
    #[inline(always)]
    fn value(self, z: T, _: T) -> T {
        z
    }

    #[inline(always)]
    fn gradient(self, g: T, _: T, _: T) -> T {
        g
    }
}

/// ReLU and ReLU6: z within bounds, at which derivatives are 0. NaN stays NaN.
#[derive(Clone, Copy)]
pub(super) struct Clamp<T>(pub(super) [T; 2]);

impl<T: Float> ActivationFn<T> for Clamp<T> {
    #[inline(always)]
    fn value(self, z: T, _: T) -> T {
        between(z, self.0)
    }

    #[inline(always)]
    fn gradient(self, g: T, z: T, _: T) -> T {
        where_between(z, self.0, g)
    }
}

/// PReLU, whose derivative at 0 is the slope.
#[derive(Clone, Copy)]
pub(super) struct Slope;

impl<T: Float> ActivationFn<T> for Slope {
    #[inline(always)]
    fn value(self, z: T, slope: T) -> T {
        where_positive(z, z, slope * z)
    }

    #[inline(always)]
    fn gradient(self, g: T, z: T, slope: T) -> T {
        where_positive(z, g, slope * g)
    }

    #[inline(always)]
    fn slope_gradient(self, g: T, z: T) -> T {
        where_positive(z, T::zero(), g * z)
    }
}
