"""Writes coco_tables_golden.json: one random detection problem with pycocotools' average precision by category.

    python make_coco_tables_golden.py        (pycocotools 2.0, numpy)
"""

import contextlib
import io
import json
import pathlib

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from make_coco_golden import random_problem

HERE = pathlib.Path(__file__).parent


def mean(values):
    values = values[values > -1]
    return float(values.mean()) if values.size else -1.0


def main():
    truth, results = random_problem(np.random.default_rng(5), 9, 4, 5, 1, 0.1, False)
    for category, name in zip(truth["categories"], ["kite", "dog", "|pipe|", "zebra"]):
        category["name"] = name
    # The last category has no object.
    empty = truth["categories"][-1]["id"]
    truth["annotations"] = [a for a in truth["annotations"] if a["category_id"] != empty]
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO()
        gt.dataset = truth
        gt.createIndex()
        evaluation = COCOeval(gt, gt.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    precision = evaluation.eval["precision"]
    objects = [a for a in truth["annotations"] if not a["iscrowd"]]
    categories = []
    for k, category in enumerate(int(i) for i in evaluation.params.catIds):
        at = lambda t: mean(precision[t, :, k, 0, 2])
        categories.append({
            "id": category, "objects": sum(a["category_id"] == category for a in objects),
            "ap": at(slice(None)), "ap50": at(0), "ap75": at(5),
        })
    golden = {"truth": truth, "results": results, "categories": categories}
    (HERE / "coco_tables_golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
