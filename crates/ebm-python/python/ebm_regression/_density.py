"""Predicted densities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from . import _native

Floats = NDArray[np.float64]


def unpacked(data: bytes, *shape: int) -> Floats:
    """Returns the numbers of the compiled module as an array."""
    return np.frombuffer(data, dtype=np.float64).reshape(shape).copy()


def probabilities(values: ArrayLike, name: str) -> Floats:
    """Returns numbers between 0 and 1, both included, as an array of at most one dimension."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim > 1 or not ((found >= 0) & (found <= 1)).all():
        raise ValueError(f"{name}={values!r}: give a number from 0 to 1, or a list of them")
    return found


def share(value: float, name: str) -> float:
    """Returns a number between 0 and 1, both excluded."""
    if not 0 < value < 1:
        raise ValueError(f"{name}={value!r}: give a number above 0 and below 1")
    return float(value)


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Returns a seed: the whole number itself, or a draw."""
    if isinstance(random_state, (int, np.integer)):
        if not 0 <= random_state < 2**64:
            raise ValueError(f"random_state={random_state}: give a whole number from 0 to 2**64 - 1")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


class PredictedDistribution:
    """Densities p(y | x) of n rows, which `EnergyRegressor.predict_distribution` returns.

    Each density lives on a grid, in the units of y. It takes about 32 kB of memory.
    """

    def __init__(self, native: _native.Densities) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    def _grid(self, y: ArrayLike) -> tuple[bytes, tuple[int, ...]]:
        values = np.asarray(y, dtype=np.float64)
        if np.isnan(values).any():
            raise ValueError("y contains NaN")
        shape = (len(self),) if values.ndim <= 1 else (len(self), values.shape[1])
        return np.ascontiguousarray(np.broadcast_to(values, shape)).tobytes(), shape

    def log_prob(self, y: ArrayLike) -> Floats:
        """Computes log p(y | x), in nats.

        Parameters
        ----------
        y : array-like of shape (), (n,), (n, k) or (1, k)
            A number for all rows, one for each row, or k for each row.

        Returns
        -------
        ndarray of shape (n,) or (n, k)
            Minus infinity where the density is zero.
        """
        data, shape = self._grid(y)
        return unpacked(self._native.log_prob(data), *shape)

    def pdf(self, y: ArrayLike) -> Floats:
        """Computes p(y | x); arguments and shapes are those of `log_prob`."""
        return np.exp(self.log_prob(y))

    def cdf(self, y: ArrayLike) -> Floats:
        """Computes P(Y <= y | x); arguments and shapes are those of `log_prob`."""
        data, shape = self._grid(y)
        return unpacked(self._native.cdf(data), *shape)

    def quantile(self, q: ArrayLike) -> Floats:
        """Returns the y below which the density has the mass `q`, of shape (n,) or, for k numbers, (n, k)."""
        q = probabilities(q, "q")
        return unpacked(self._native.quantile(q.ravel().tolist()), len(self), *q.shape)

    def mean(self) -> Floats:
        """Returns the mean of each density, of shape (n,)."""
        return unpacked(self._native.mean(), len(self))

    def mode(self) -> Floats:
        """Returns the y at the highest peak of each density, found on the scale of the network, of shape (n,)."""
        return unpacked(self._native.mode(), len(self))

    def sample(self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None) -> Floats:
        """Draws independent samples from each density, of shape (n, n_samples)."""
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples}: give a number from 1 on")
        return unpacked(self._native.sample(n_samples, seed_of(random_state)), len(self), n_samples)

    def highest_density_region(self, mass: float = 0.9) -> list[Floats]:
        """Returns the smallest region of each density with this mass, not calibrated.

        Parameters
        ----------
        mass : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        list of n ndarrays of shape (k, 2)
            The lower and upper ends of the row's k intervals.
        """
        return [unpacked(ends, -1, 2) for ends in self._native.region(share(mass, "mass"))]
