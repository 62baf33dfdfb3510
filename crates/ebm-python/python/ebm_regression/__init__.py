"""Regression on tables by energy-based models: a density of y for each row."""

from ._density import PredictedDistribution
from ._regressor import EnergyRegressor

__all__ = ["EnergyRegressor", "PredictedDistribution"]
