"""Makes patch.json beside it: python make_patch.py (numpy, torch).

samples   squares of the fixed picture: subsampled, padded by replication, resized bilinearly by torch
views     the middle of a patch after blurs (torch's conv2d) and rotations (torch's grid_sample)
"""

import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from make_goldens import picture

HERE = Path(__file__).parent
FAR = 400


def sample(width, height, center, size, output):
    image = torch.from_numpy(picture(width, height).astype(np.float32)).permute(2, 0, 1)[None]
    df = max(int(size / output - 0.1), 1)
    side = max(round(size / df), 1)
    row, column = (int(c) for c in center)
    # Of the grid through the centre, that inside the image.
    image = image[..., row % df::df, column % df::df]
    top, left = row // df - (side - 1) // 2, column // df - (side - 1) // 2
    padded = F.pad(image, (FAR, FAR, FAR, FAR), mode="replicate")
    patch = padded[..., FAR + top:FAR + top + side, FAR + left:FAR + left + side]
    assert patch.shape[-2:] == (side, side)
    patch = F.interpolate(patch, size=(output, output), mode="bilinear", align_corners=False)
    return {"image": [width, height], "center": center, "size": size, "output": output, "data": numbers(patch)}


def blurred(patch, sigma):
    for axis, s in zip((2, 3), sigma):
        reach = math.ceil(2 * s)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=torch.float64) / s) ** 2)
        kernel = (kernel / kernel.sum()).reshape([1, 1] + ([-1, 1] if axis == 2 else [1, -1]))
        pad = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
        patch = F.conv2d(F.pad(patch, pad, mode="replicate").transpose(0, 1), kernel).transpose(0, 1)
    return patch


def rotated(patch, degrees):
    a = math.radians(degrees)
    matrix = torch.tensor([[[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0]]], dtype=torch.float64)
    grid = F.affine_grid(matrix, patch.shape, align_corners=True)
    return F.grid_sample(patch, grid, mode="bilinear", padding_mode="border", align_corners=True)


def view(side, output, transform, shift):
    patch = torch.from_numpy(picture(side, side).astype(np.float64)).permute(2, 0, 1)[None]
    kind, *arguments = transform
    if kind == "flip":
        patch = patch.flip(3)
    elif kind == "blur":
        patch = blurred(patch, arguments)
    elif kind == "rotate":
        patch = rotated(patch, *arguments)
    down, right = shift
    start = (side - output) // 2
    patch = F.pad(patch, (FAR,) * 4, mode="replicate")
    top, left = FAR + start - down, FAR + start - right
    patch = patch[..., top:top + output, left:left + output]
    return {"side": side, "output": output, "transform": [kind, *arguments], "shift": shift, "data": numbers(patch)}


def numbers(planes):
    return [round(float(v), 3) for v in planes.flatten()]


SAMPLES = [
    (31, 23, (11.9, 15.2), 7, 7),
    (31, 23, (11.0, 15.0), 8, 8),
    (31, 23, (11.0, 15.0), 5, 9),
    (31, 23, (11.4, 15.9), 12, 7),
    (31, 23, (11.0, 15.0), 13, 6),   # 2.17: every second pixel
    (31, 23, (10.0, 16.0), 13, 6),
    (31, 23, (9.0, 14.0), 22, 7),    # 3.14: every third
    (31, 23, (1.0, 29.0), 17, 8),
    (31, 23, (-4.0, -7.0), 6, 6),
    (31, 23, (60.0, 80.0), 26, 6),
    (2, 1, (0.0, 0.0), 30, 5),
]
VIEWS = [
    (17, 8, ("identity",), (0, 0)),
    (17, 8, ("identity",), (3, -9)),
    (16, 8, ("flip",), (-2, 1)),
    (16, 8, ("blur", 2.0, 0.2), (1, 2)),
    (16, 8, ("blur", 0.7, 3.0), (-6, 5)),
    (16, 8, ("rotate", 20.0), (0, 0)),
    (17, 9, ("rotate", -60.0), (2, -5)),
    (8, 8, ("rotate", 45.0), (0, 0)),
]

if __name__ == "__main__":
    content = {"samples": [sample(*s) for s in SAMPLES], "views": [view(*v) for v in VIEWS]}
    (HERE / "patch.json").write_text(json.dumps(content, separators=(",", ":")))
