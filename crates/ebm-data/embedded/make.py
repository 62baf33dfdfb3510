"""Makes the files beside it, which datasets/coco-person.toml names: lists as sha256sum writes them, and boxes alone.

    make.py PERSON

PERSON holds {train_many,train_single,val,test}.json, and their images in images/{train2017,val2017}.
"""
import gzip
import hashlib
import json
import os
import sys

OUT = os.path.dirname(os.path.abspath(__file__))
(PERSON,) = sys.argv[1:]


def pack(name, document):
    text = json.dumps(document, separators=(",", ":")).encode()
    with open(f"{OUT}/{name}.gz", "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=9) as packed:
            packed.write(text)
    print(f'"{name}"', len(text), os.path.getsize(f"{OUT}/{name}.gz"), hashlib.sha256(text).hexdigest())


def listed(name, files):
    with open(f"{OUT}/{name}", "w") as out:
        for relative, path in files:
            out.write(f"{hashlib.sha256(open(path, 'rb').read()).hexdigest()}  {relative}\n")
    print(name, len(files), os.path.getsize(f"{OUT}/{name}"))


names, worst = {}, 0
for part in ["train_many", "train_single", "val", "test"]:
    known = json.load(open(f"{PERSON}/{part}.json"))
    folder = "train2017" if part == "train_many" else "val2017"
    for image in known["images"]:
        names[image["file_name"]] = f"{PERSON}/images/{folder}/{image['file_name']}"
    keep = lambda image: {key: image[key] for key in ("id", "file_name", "width", "height")}
    def box(own):
        global worst
        bbox = [round(v, 2) for v in own["bbox"]]
        worst = max(worst, *(abs(a - b) for a, b in zip(bbox, own["bbox"])))
        area = round(own["area"], 2)
        return dict(id=own["id"], image_id=own["image_id"], category_id=1, iscrowd=own["iscrowd"], area=area, bbox=bbox)
    pack(f"coco-person/{part}.json", dict(images=[keep(i) for i in known["images"]],
        annotations=[box(a) for a in known["annotations"]], categories=[dict(id=1, name="person")]))
print("largest rounding", worst)
listed("coco-person/images.sha256", sorted(names.items()))
