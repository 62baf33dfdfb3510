"""Energy-based regression: a density of y for each row of a table, for boxes in images, for tracks and for ages."""

from ._age import AgeEstimate, AgeEstimator
from ._density import PredictedDistribution
from ._detection import BoxDensity, BoxRefiner, Detection, Detector, RefinedBox
from ._image import read_image
from ._regressor import EnergyRegressor
from ._tracking import Track, TrackedBox, Tracker

__all__ = [
    "AgeEstimate",
    "AgeEstimator",
    "BoxDensity",
    "BoxRefiner",
    "Detection",
    "Detector",
    "EnergyRegressor",
    "PredictedDistribution",
    "RefinedBox",
    "Track",
    "TrackedBox",
    "Tracker",
    "read_image",
]
