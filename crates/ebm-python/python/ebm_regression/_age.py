"""Ages of faces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _native
from ._density import Floats
from ._image import Image, Path, arrays, box_of, existing, picture


@dataclass(frozen=True, eq=False)
class AgeEstimate:
    """The age of a face, in years.

    - `value`: the predicted age.
    - `interval`: (2,), the quantiles 0.05 and 0.95 of p(y | x): the age lies between them with probability 0.9.
    - `ages`, `pdf`: (n,), points in equal steps, and p(y | x) there, per year.
    """

    value: float
    interval: Floats
    ages: Floats
    pdf: Floats


class AgeEstimator:
    """An estimator of the age of a face, on the CPU.

    `run` is a run of `ebm train age`, the folder of `ebm reproduce age`, or a model.safetensors. None are the bundled
    networks, for research that is not commercial; they know ages from 21 to 60.
    """

    def __init__(self, run: Path | None = None) -> None:
        self._native = _native.AgeEstimator(existing(run, "run", is_folder=True))

    def estimate(self, image: Image, box: ArrayLike | None = None) -> AgeEstimate:
        """Estimates the age of a face in an RGB image (height, width, 3) of uint8.

        `box` is the face's, x0, y0, x1, y1 in pixels from the upper left corner: a square around it, half as long
        again, is cropped. Without a box the face fills the image.
        """
        pixels = picture(image)
        found = arrays(self._native.estimate(pixels, None if box is None else box_of(box, image)))
        return AgeEstimate(found["value"], found["interval"], found["ages"], np.exp(found["log_prob"]))
