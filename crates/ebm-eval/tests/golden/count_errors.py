"""Counts the errors of published results by the definitions of TIDE (Bolya et al., ECCV 2020), for tests/suite/error_breakdown.rs.

    python count_errors.py        (numpy)
"""

import collections
import json
import pathlib

import numpy as np

FIXTURES = pathlib.Path(__file__).parent / "../../../ebm-testing/fixtures/coco_eval"


def iou(a, b, crowd=False):
    a, b = np.array(a, float), np.array(b, float)
    common = np.clip(np.minimum(a[:2] + a[2:], b[:2] + b[2:]) - np.maximum(a[:2], b[:2]), 0, None).prod()
    return common / (a[2:].prod() + (0 if crowd else b[2:].prod() - common))


truth = json.load(open(FIXTURES / "instances_val2014_100.json"))
results = json.load(open(FIXTURES / "instances_val2014_fakebbox100_results.json"))
counts = collections.Counter()
for image in truth["images"]:
    of_image = [a for a in truth["annotations"] if a["image_id"] == image["id"]]
    objects, crowds = [a for a in of_image if not a["iscrowd"]], [a for a in of_image if a["iscrowd"]]
    taken, excused, seen = set(), set(), collections.Counter()
    wrong = []
    for found in sorted((r for r in results if r["image_id"] == image["id"]), key=lambda r: -r["score"]):
        category, box = found["category_id"], found["bbox"]
        seen[category] += 1
        overlaps = [(iou(box, o["bbox"]), k) for k, o in enumerate(objects) if o["category_id"] == category]
        free = max(((v, k) for v, k in overlaps if k not in taken), default=(0, None))
        if seen[category] > 100:
            continue
        if free[0] >= 0.5:
            taken.add(free[1])
        elif not any(c["category_id"] == category and iou(box, c["bbox"], True) >= 0.5 for c in crowds):
            wrong.append((box, category, max(overlaps, default=(0, None))))
    for box, category, same in wrong:
        others = [(iou(box, o["bbox"]), k) for k, o in enumerate(objects) if o["category_id"] != category]
        other = max(others, default=(0, None))
        if 0.1 <= same[0] < 0.5:
            counts["localization"] += 1
            excused.add(same[1])
        elif other[0] >= 0.5:
            counts["classification"] += 1
            excused.add(other[1])
        elif same[0] >= 0.5:
            counts["duplicate"] += 1
        else:
            counts["both" if other[0] >= 0.1 else "background"] += 1
    counts["correct"] += len(taken)
    counts["missed"] += len(set(range(len(objects))) - taken - excused)
print([counts[k] for k in ["classification", "localization", "both", "duplicate", "background", "missed"]], counts["correct"])
