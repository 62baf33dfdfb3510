"""Boxes in the results of torchvision, Ultralytics and supervision, which are told apart by their attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._density import Floats

Classes = Sequence[str] | Mapping[int, str]


class Found(NamedTuple):
    """Boxes of n objects with what else is known of them. `replaced` returns a copy of the results with other boxes."""

    boxes: Floats
    scores: Floats | None
    labels: list[str] | None
    replaced: Callable[[Floats], Any]


def found_in(results: Any, classes: Classes | None) -> Found:
    """Returns the boxes in results of any of the three kinds."""
    made: Any = copy.copy(results)
    if isinstance(results, Mapping) and "boxes" in results:
        boxes, scores, numbers = results["boxes"], results.get("scores"), results.get("labels")

        def replaced(new: Floats) -> Any:
            made["boxes"] = _like(new, boxes)
            return made

        return Found(_array(boxes), _array(scores), _names(numbers, classes), replaced)
    if hasattr(results, "names") and getattr(results, "boxes", None) is not None:
        boxes = results.boxes

        def replaced(new: Floats) -> Any:
            rows, made.boxes = _array(boxes.data), copy.copy(boxes)
            rows[:, :4] = new
            made.boxes.data = _like(rows, boxes.data)
            return made

        return Found(_array(boxes.xyxy), _array(boxes.conf), _names(boxes.cls, classes or results.names), replaced)
    if hasattr(results, "xyxy") and hasattr(results, "class_id"):
        names = results.data.get("class_name")

        def replaced(new: Floats) -> Any:
            made.xyxy = _like(new, results.xyxy)
            return made

        labels = _names(results.class_id, classes) if names is None else [str(name) for name in names]
        return Found(_array(results.xyxy), _array(results.confidence), labels, replaced)
    raise TypeError(
        f"results are a {type(results).__name__}; give one image's dict with boxes (torchvision), Results with boxes "
        "(Ultralytics; not a list of them) or Detections (supervision), or call refine with the boxes"
    )


def _array(values: Any) -> Any:
    """Returns a new array of f64 with the numbers of an array, or of a tensor on any device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return None if values is None else np.array(values, dtype=np.float64)


def _like(values: Floats, given: Any) -> Any:
    """Returns numbers as a tensor like the given one, or as an array of its type; whole numbers become f64."""
    if hasattr(given, "new_tensor"):
        return given.new_tensor(values)
    kind = np.asarray(given).dtype
    return values.astype(kind if kind.kind == "f" else np.float64)


def _names(numbers: Any, classes: Classes | None) -> list[str] | None:
    """Returns the names of numbered classes."""
    if numbers is None:
        return None
    if classes is None:
        raise ValueError('labels are numbers; give classes, their names: of torchvision weights.meta["categories"]')
    try:
        return [str(classes[int(number)]) for number in _array(numbers)]
    except (IndexError, KeyError):
        raise ValueError(f"a label of the results is none of the {len(classes)} classes") from None
