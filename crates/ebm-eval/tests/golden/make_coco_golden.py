"""Writes coco_golden.json: random detection problems with pycocotools' twelve figures and its AP at IoU
0.90, and those of the real sets among the fixtures of ebm-testing.

    python make_coco_golden.py        (pycocotools 2.0, numpy)
"""

import contextlib
import io
import json
import pathlib

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

HERE = pathlib.Path(__file__).parent
FIXTURES = HERE / "../../../ebm-testing/fixtures"


def figures(truth, results):
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO()
        gt.dataset = truth
        gt.createIndex()
        evaluation = COCOeval(gt, gt.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    # (IoU, recall, category, all sizes, at most 100 detections)
    tight = evaluation.eval["precision"][np.isclose(evaluation.params.iouThrs, 0.9), :, :, 0, -1]
    tight = tight[tight > -1]
    return [*evaluation.stats.tolist(), float(tight.mean()) if tight.size else -1.0]


def random_box(rng, scale):
    x, y = rng.integers(0, 200, 2)
    w, h = np.maximum(1, rng.exponential(scale, 2)).astype(int)
    return [int(v) for v in (x, y, w, h)]


def random_problem(rng, images, categories, boxes, extra, crowd, tied):
    """Jittered copies of the boxes plus random ones; scores on a coarse grid when tied."""
    annotations, results = [], []
    score = lambda: float(rng.integers(1, 6) / 5 if tied else round(rng.uniform(), 4))
    for image in range(1, images + 1):
        for _ in range(rng.poisson(boxes)):
            box, category = random_box(rng, rng.choice([15, 60, 150])), int(rng.integers(1, categories + 1)) * 3
            annotations.append({
                "id": len(annotations) + 1, "image_id": image, "category_id": category, "bbox": box,
                "area": round(box[2] * box[3] * float(rng.uniform(0.4, 1.0)), 2),
                "iscrowd": int(rng.uniform() < crowd),
            })
            for _ in range(rng.integers(0, 3)):
                jitter = np.asarray(box) + rng.normal(0, 0.05 * max(box[2:]), 4)
                moved = [round(float(v), 1) for v in (*jitter[:2], *np.maximum(jitter[2:], 1))]
                results.append({"image_id": image, "category_id": category, "bbox": moved, "score": score()})
        for _ in range(rng.poisson(extra)):
            results.append({"image_id": image, "category_id": int(rng.integers(1, categories + 1)) * 3,
                            "bbox": random_box(rng, 60), "score": score()})
    truth = {
        "images": [{"id": i} for i in range(1, images + 1)],
        "categories": [{"id": 3 * c, "name": f"c{c}"} for c in range(1, categories + 1)],
        "annotations": annotations,
    }
    return truth, results


def synthetic_results(truth):
    """Detections from annotations by integer arithmetic alone: the Rust test repeats it exactly."""
    results = []
    for k, a in enumerate(truth["annotations"]):
        if k % 5 == 4:
            continue
        x, y, w, h = a["bbox"]
        results.append({"image_id": a["image_id"], "category_id": a["category_id"],
                        "bbox": [x + k % 7 * 0.5, y - k % 3, w * (1 + k % 4 / 16), h],
                        "score": ((k * 37) % 101) / 128})
    return results


def main():
    rng = np.random.default_rng(0)
    shapes = [  # images, categories, boxes, extra, crowd, tied
        (4, 2, 3, 1, 0.0, False), (4, 3, 4, 2, 0.3, False), (6, 1, 2, 2, 0.2, True), (3, 2, 5, 0.3, 1.0, False),
        (1, 1, 8, 130, 0.1, True), (8, 4, 1, 1, 0.1, True), (5, 2, 0, 1, 0.0, False),
    ]
    problems = []
    for shape in shapes:
        truth, results = random_problem(rng, *shape)
        problems.append({"truth": truth, "results": results, "figures": figures(truth, results)})
    read = lambda path: json.loads((FIXTURES / path).read_text())
    published = read("coco_eval/instances_val2014_fakebbox100_results.json")
    real = {"coco_eval": figures(read("coco_eval/instances_val2014_100.json"), published)}
    for split in ("train2017", "val2017"):
        truth = read(f"coco/annotations/instances_{split}.json")
        real[split] = figures(truth, synthetic_results(truth))
    text = json.dumps({"problems": problems, "real": real}, separators=(",", ":"))
    (HERE / "coco_golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
