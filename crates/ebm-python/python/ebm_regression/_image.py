"""Images, boxes and paths, as the compiled module takes them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from ._density import Floats

Image = NDArray[np.uint8]
Path = str | os.PathLike[str]


def read_image(path: Path) -> Image:
    """Reads a JPEG, PNG, BMP or WebP file as an RGB image (height, width, 3) of uint8, as `ebm` reads it.

    The image is turned as its orientation tag (EXIF) says.
    """
    height, width, samples = _native.read_image(existing(path, "path"))
    return np.frombuffer(samples, dtype=np.uint8).reshape(height, width, 3).copy()


def picture(image: Image) -> tuple[int, int, bytes]:
    """Returns rows, columns and samples of an image, or an error that says how to convert it."""
    if not isinstance(image, np.ndarray):
        raise TypeError(f"image is a {type(image).__name__}; give read_image(path), or numpy.asarray of an RGB picture")
    shape = image.shape
    if len(shape) == 3 and shape[2] == 3 and image.size and image.dtype == np.uint8:
        return shape[0], shape[1], image.tobytes()
    remedies = [
        (len(shape) == 2 or shape[-1:] == (1,), "RGB from grey is numpy.stack([image.squeeze()] * 3, axis=-1)"),
        (len(shape) == 4, "give one image at a time, image[0]"),
        (len(shape) == 3 and shape[2] == 4, "leave out the alpha channel, image[..., :3]"),
        (len(shape) == 3 and shape[0] == 3 != shape[2], "put the channels last, image.transpose(1, 2, 0)"),
        (len(shape) != 3 or shape[2] != 3 or not image.size, "give an RGB image with at least one pixel"),
        (image.dtype.kind == "f", "numbers from 0 to 1 become uint8 by (image * 255).round().astype(numpy.uint8)"),
        (True, "scale its numbers to 0 to 255, and convert them by image.astype(numpy.uint8)"),
    ]
    remedy = next(remedy for is_it, remedy in remedies if is_it)
    raise ValueError(f"image is {shape} of {image.dtype}, not (height, width, 3) of uint8; {remedy}")


def boxes_of(boxes: ArrayLike) -> Floats:
    """Returns boxes x0, y0, x1, y1 as a new array (n, 4)."""
    found = np.array(boxes, dtype=np.float64)
    if found.size and (found.ndim != 2 or found.shape[1] != 4):
        raise ValueError(f"boxes have the shape {found.shape}, not (n, 4); give x0, y0, x1, y1 for each of n boxes")
    return found.reshape(-1, 4)


def inside(boxes: Floats, image: Image) -> NDArray[np.bool_]:
    """Returns for each box whether it has an extent and a part inside the image."""
    x0, y0, x1, y1 = boxes.T
    height, width = image.shape[:2]
    has_part = (x0 < width) & (y0 < height) & (x1 > 0) & (y1 > 0)
    return has_part & (x0 < x1) & (y0 < y1) & np.isfinite(boxes).all(axis=1)


def check_inside(boxes: Floats, image: Image) -> None:
    """Raises an error that names the first box without an extent or outside the image."""
    for place in np.flatnonzero(~inside(boxes, image)):
        raise ValueError(
            f"box {place} is {boxes[place].tolist()} in an image {image.shape[1]} wide and {image.shape[0]} high; give "
            "x0 < x1 and y0 < y1 with a part inside it. A box x, y, width, height is x, y, x + width, y + height"
        )


def box_of(box: ArrayLike, image: Image) -> list[float]:
    """Returns one box, after a check that it has an extent and a part inside the image."""
    found = boxes_of([box])
    check_inside(found, image)
    return found[0].tolist()


def existing(path: Path | None, name: str, *, is_folder: bool = False) -> Path | None:
    """Returns the path of a file, or of a folder if it may be one, after a check that there is one."""
    if path is not None and not os.path.exists(os.fspath(path)):
        raise FileNotFoundError(f"{name}: there is no {os.fspath(path)!r}")
    if path is not None and not is_folder and os.path.isdir(path):
        raise IsADirectoryError(f"{name}: {os.fspath(path)!r} is a folder; give a file")
    return path


def samples_of(density: bool, samples: int) -> int | None:
    """Returns the number of samples of a density, or None for no density."""
    if not isinstance(samples, (int, np.integer)) or not 64 <= samples < 2**32:
        raise ValueError(f"samples={samples!r}: give a whole number from 64 on")
    return int(samples) if density else None


def arrays(found: dict[str, Any]) -> dict[str, Any]:
    """Returns what the compiled module has found, with arrays in place of lists."""
    made = {name: np.array(value) if isinstance(value, list) else value for name, value in found.items()}
    if edges := found.get("edges"):
        made["edges"] = tuple(np.array(edge) for edge in edges)
    return made
