"""Makes face_augment.json beside it: python make_face_augment.py (numpy, Pillow, torch).

The paper's augmentation of faces with everything that is random given: mirror, resize, pad, crop, normalise.
"""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from make_goldens import picture

HERE = Path(__file__).parent
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
SIZE = 10


def augment(pixels, flipped, side, row, column):
    if flipped:
        pixels = pixels[:, ::-1]
    planes = torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1)[None]
    planes = torch.nn.functional.interpolate(planes, size=(side, side), mode="bilinear", align_corners=False)
    missing = max(0, SIZE - side)
    planes = torch.nn.functional.pad(planes, (0, missing, 0, missing))
    planes = planes[0, :, row:row + SIZE, column:column + SIZE].numpy()
    return (planes / 255 - MEAN[:, None, None]) / STD[:, None, None]


def case(width, height, placement):
    pixels = picture(width, height)
    if (width, height) != (SIZE, SIZE):
        # Columns first, as Pillow did before version 13, which at times takes the rows first and rounds in another place.
        wide = Image.fromarray(pixels).resize((SIZE, height), Image.BILINEAR)
        pixels = np.asarray(wide.resize((SIZE, SIZE), Image.BILINEAR))
    planes = augment(pixels, *(placement or (False, SIZE, 0, 0)))
    assert planes.shape == (3, SIZE, SIZE)
    return {"from": [width, height], "placement": placement, "data": [round(float(v), 6) for v in planes.flatten()]}


CASES = [
    (10, 10, None),
    (23, 14, None),
    (10, 10, (False, 10, 0, 0)),
    (10, 10, (True, 7, 0, 0)),
    (10, 10, (False, 14, 4, 0)),
    (10, 10, (True, 13, 1, 3)),
    (17, 31, (True, 12, 0, 1)),
    (6, 5, (False, 8, 0, 0)),
]

if __name__ == "__main__":
    (HERE / "face_augment.json").write_text(json.dumps([case(*c) for c in CASES], separators=(",", ":")))
