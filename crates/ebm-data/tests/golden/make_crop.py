"""Makes crop.json beside it, crops around targets: python make_crop.py (numpy, Pillow, torch, opencv-python-headless)."""

import json
import math
from pathlib import Path

import cv2
import numpy as np
import torch

from make_goldens import picture


HERE = Path(__file__).parent


def case(width, height, around, factor, size):
    x, y, w, h = around
    side = math.ceil(factor * math.sqrt(w * h))
    left, top = round(x + 0.5 * w - 0.5 * side), round(y + 0.5 * h - 0.5 * side)
    image = picture(width, height)
    columns = np.clip(np.arange(left, left + side), 0, width - 1)
    rows = np.clip(np.arange(top, top + side), 0, height - 1)
    patch = np.ascontiguousarray(image[rows][:, columns])
    planes = torch.from_numpy(patch).permute(2, 0, 1)[None].double()
    resized = torch.nn.functional.interpolate(planes, (size, size), mode="bilinear", align_corners=False, antialias=False)
    exact = resized[0].permute(1, 2, 0)
    opencv = cv2.resize(patch, (size, size), interpolation=cv2.INTER_LINEAR)
    return {
        "image": [width, height],
        "around": around,
        "factor": factor,
        "size": size,
        "window": [left, top, side],
        "torch": [round(value, 3) for value in exact.flatten().tolist()],
        "opencv": opencv.flatten().tolist(),
    }


CASES = [
    case(40, 30, [12.0, 9.0, 7.0, 5.0], 5.0, 12),
    case(40, 30, [12.25, 9.5, 4.0, 4.0], 5.0, 11),
    case(33, 47, [-3.0, 40.0, 9.0, 16.0], 5.0, 12),
    case(21, 17, [5.0, 5.0, 2.0, 3.0], 2.0, 16),
    case(60, 50, [20.0, 20.0, 4.8, 4.8], 5.0, 12),
    case(9, 8, [30.0, -20.0, 3.0, 2.0], 1.5, 6),
]
(HERE / "crop.json").write_text(json.dumps(CASES) + "\n")
