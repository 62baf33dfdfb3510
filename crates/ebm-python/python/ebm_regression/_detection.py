"""Detectors, and refiners of other detectors' boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from . import _native
from ._density import Floats, seed_of
from ._image import Image, Path, arrays, boxes_of, check_inside, existing, inside, picture, samples_of
from ._results import found_in

Results = TypeVar("Results")
Seed = int | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class BoxDensity:
    """The density p(y | x) around a box y.

    - `edges`: for left (x), top (y), right (x) and bottom (y) an array (k, 2) of intervals, in pixels, that hold the
      edge with probability 0.9; None if the samples have no spread.
    - `effective_sample_size`: how many independent draws the samples are worth. It grows with `samples`.
    - `reliable`: whether that is at least 100.
    - `calibrated`: whether the probability was calibrated on images. If not, it is the network's own.
    """

    edges: tuple[Floats, ...] | None
    effective_sample_size: float
    reliable: bool
    calibrated: bool


@dataclass(frozen=True, eq=False)
class Detection:
    """A detected object.

    - `label`, `name`: its class; `classes[label - 1]` is the name.
    - `score`: from 0 to 1.
    - `box`, `box_before`: x0, y0, x1, y1 in pixels from the upper left corner of the image, after and before
      refinement. They are equal if nothing refines boxes of this class.
    - `density`: the density around `box`; None without `density=True`, and for classes without an energy-based model.
    """

    label: int
    name: str
    score: float
    box: Floats
    box_before: Floats
    density: BoxDensity | None


@dataclass(frozen=True, eq=False)
class RefinedBox:
    """A box after refinement.

    - `box`, `box_before`: x0, y0, x1, y1 in pixels from the upper left corner of the image. Refined boxes are clipped
      to the image; `box_before` is the box as it was given.
    - `refined`: False if the box stayed as it was: it is of another class, or its score is below `min_score`.
    - `f`: the network's score of `box`, without a unit, to compare boxes of one object; None if it was not refined.
    - `score`, `label`: as they were given.
    - `density`: the density around `box`; None without `density=True`.
    """

    box: Floats
    box_before: Floats
    refined: bool
    f: float | None
    score: float | None
    label: str | None
    density: BoxDensity | None


class Detector:
    """A detector of objects, whose boxes an energy-based model may refine, on the CPU.

    `weights` is a file of `ebm train detector`, or a published one that `ebm predict detection` reads; None is the
    bundled FastestDet of COCO's 80 classes, with the bundled refiner of persons. `branch` is a file of `ebm train
    branch` for this detector, `refiner` one of `ebm train refiner`. Detections below `min_score` are left out.
    """

    def __init__(
        self,
        weights: Path | None = None,
        *,
        branch: Path | None = None,
        refiner: Path | None = None,
        min_score: float = 0.5,
    ) -> None:
        if branch is not None and refiner is not None:
            raise ValueError("branch and refiner both place boxes; give one of them")
        if not 0 <= min_score <= 1:
            raise ValueError(f"min_score={min_score!r}: give a number from 0 to 1")
        paths = existing(weights, "weights"), existing(branch, "branch"), existing(refiner, "refiner")
        self._native = _native.Detector(*paths, min_score)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by label; empty if the file of the weights has none."""
        return self._native.classes()

    def detect(
        self, image: Image, *, density: bool = False, samples: int = 4096, random_state: Seed = 0
    ) -> list[Detection]:
        """Detects the objects in an RGB image (height, width, 3) of uint8, best first.

        `density` asks for p(y | x) of each, from at least 64 `samples` that `random_state` seeds.
        """
        count, seed = samples_of(density, samples), seed_of(random_state)
        return [Detection(**_made(found)) for found in self._native.detect(picture(image), count, seed)]


class BoxRefiner:
    """A refiner of any detector's boxes by gradient ascent on f(x, y) of an image x and a box y, on the CPU.

    All boxes are x0, y0, x1, y1 (left, top, right, bottom) in pixels from the upper left corner of the image, as in
    torchvision, Ultralytics and supervision. `weights` is a file of `ebm train refiner`; None is the bundled refiner of
    persons.
    """

    def __init__(self, weights: Path | None = None) -> None:
        self._native = _native.BoxRefiner(existing(weights, "weights"))

    @property
    def classes(self) -> list[str]:
        """Names of the classes whose boxes the refiner was trained on."""
        return self._native.classes()

    def refine(
        self,
        image: Image,
        boxes: ArrayLike,
        scores: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        *,
        min_score: float = 0.0,
        density: bool = False,
        samples: int = 1024,
        random_state: Seed = 0,
    ) -> list[RefinedBox]:
        """Refines boxes (n, 4), x0, y0, x1, y1, in an RGB image (height, width, 3) of uint8. Entry i is of box i.

        `labels` are names of classes: boxes of classes that are not in `classes` stay as they are. Without labels all
        are refined. Boxes with `scores` below `min_score` stay as they are. `density` asks for p(y | x) of the refined,
        from at least 64 `samples` that `random_state` seeds.
        """
        pixels, given = picture(image), boxes_of(boxes)
        check_inside(given, image)
        for name, values in {"scores": scores, "labels": labels}.items():
            if values is not None and len(values) != len(given):
                raise ValueError(f"there are {len(values)} {name} for {len(given)} boxes; give one for each box")
        if labels is not None and (isinstance(labels, str) or not all(isinstance(label, str) for label in labels)):
            raise TypeError("labels are names of classes; give a list of str, such as names[k] for each number k")
        if scores is None and min_score > 0:
            raise ValueError(f"min_score={min_score!r} needs scores; give them")
        chosen = [scores is None or scores[place] >= min_score for place in range(len(given))]
        names = None if labels is None else [label for label, is_chosen in zip(labels, chosen) if is_chosen]
        count, seed = samples_of(density, samples), seed_of(random_state)
        refined = iter(self._native.refined(pixels, given[np.array(chosen, dtype=bool)].tolist(), names, count, seed))
        made = []
        for place, before in enumerate(given):
            found = next(refined) if chosen[place] else None
            score = None if scores is None else float(scores[place])
            label = None if labels is None else labels[place]
            new = _made(found or {"box": before.copy(), "f": None, "density": None})
            made.append(RefinedBox(**new, box_before=before, refined=found is not None, score=score, label=label))
        return made

    def refine_results(
        self,
        image: Image,
        results: Results,
        *,
        classes: Sequence[str] | Mapping[int, str] | None = None,
        min_score: float = 0.0,
    ) -> Results:
        """Refines the boxes x0, y0, x1, y1 in one image's results of torchvision, Ultralytics or supervision.

        Returns a copy of the dict, Results or Detections with new boxes. Boxes of other classes, below `min_score`,
        without an extent or outside the image stay as they are. `classes` are the names by number, of torchvision
        `weights.meta["categories"]`; Results of Ultralytics have names, and so have Detections made from them. The
        RGB image of Ultralytics is `results.orig_img[..., ::-1]`.
        """
        picture(image)
        found = found_in(results, classes)
        boxes = boxes_of(found.boxes)
        usable = inside(boxes, image)
        scores = None if found.scores is None else found.scores[usable]
        labels = None if found.labels is None else [found.labels[place] for place in np.flatnonzero(usable)]
        refined = self.refine(image, boxes[usable], scores, labels, min_score=min_score)
        boxes[usable] = boxes_of([one.box for one in refined])
        return found.replaced(boxes)


def _made(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the compiled module has found, with arrays and a BoxDensity."""
    density = found["density"] and BoxDensity(**arrays(found["density"]))
    return {**arrays(found), "density": density}
