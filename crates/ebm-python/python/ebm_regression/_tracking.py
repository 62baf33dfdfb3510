"""Trackers of one target in a video."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _native
from ._density import Floats, seed_of
from ._image import Image, Path, arrays, box_of, existing, picture, samples_of


@dataclass(frozen=True, eq=False)
class TrackedBox:
    """The target in a frame.

    - `box`: x0, y0, x1, y1 in pixels from the upper left corner of the image.
    - `score`: the classifier's, about 1 at the target.
    - `state`: "normal", "hard_negative" (another object scores high too), "uncertain" (two places score alike), or
      "not_found", and then `box` stays where it was.
    - `f`: the network's score of the box, without a unit; None if no box was refined.
    - `edges`: for left (x), top (y), right (x) and bottom (y) an array (k, 2) of intervals, in pixels, that hold the
      edge with probability 0.9; None without `density=True`, and if the target was not found.
    - `effective_sample_size`: how many independent draws the samples are worth; None without `edges`.
    """

    box: Floats
    score: float
    state: str
    f: float | None
    edges: tuple[Floats, ...] | None
    effective_sample_size: float | None


class Track:
    """A target that `Tracker.start` follows. It learns from each frame; one thread at a time gives it one."""

    def __init__(self, native: _native.Track) -> None:
        self._native = native

    def update(self, image: Image, *, density: bool = False, samples: int = 128) -> TrackedBox:
        """Finds the target in the next frame, an RGB image (height, width, 3) of uint8, as large as the first.

        `density` asks for the intervals of the edges, from at least 64 `samples`.
        """
        return TrackedBox(**arrays(self._native.update(picture(image), samples_of(density, samples))))


class Tracker:
    """A tracker for any target: ATOM with an energy-based box module, on the CPU.

    `weights` is a run of `ebm train tracker` or `ebm reproduce tracking`, or its model.safetensors; None is the bundled
    tracker. `backbone` are the weights of the backbone, if they were moved. `random_state` seeds all random numbers.
    """

    def __init__(
        self,
        weights: Path | None = None,
        *,
        backbone: Path | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        paths = existing(weights, "weights", is_folder=True), existing(backbone, "backbone")
        self._native = _native.Tracker(*paths, seed_of(random_state))

    def start(self, image: Image, box: ArrayLike) -> Track:
        """Starts with the target in the first frame, an RGB image (height, width, 3) of uint8.

        `box` is x0, y0, x1, y1 in pixels from the upper left corner. One tracker starts any number of tracks.
        """
        pixels = picture(image)
        return Track(self._native.start(pixels, box_of(box, image)))
