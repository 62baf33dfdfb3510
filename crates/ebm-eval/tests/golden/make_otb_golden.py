"""Writes otb_golden.json: the figures of two trackers on the sequences among the fixtures of ebm-testing by four conventions,
computed with arrays instead of frame by frame: AUC, OP50, OP75, precision, normalised precision.

    python make_otb_golden.py [OTB]        (numpy; with a folder of all 100 sequences it prints their figures instead)
"""

import json
import pathlib
import re
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
FIXTURES = HERE / "../../../ebm-testing/fixtures/otb"
CONVENTIONS = {
    "pytracking": {},
    "otb": {"invalid_center": -1.0},
    "pytracking, without invalid frames": {"exclude": True},
    "got10k_otb": {"all_positive": False},
}


def read(path):
    return np.array([[float(word) for word in re.split(r"[,\s]+", line)] for line in path.read_text().split()])


def key(name):
    return name.lower().replace("-", "_")


def figures(annotations, results, invalid_center=np.inf, exclude=False, all_positive=True):
    curves, rows = [], []
    for name, truth in annotations.items():
        found = results[name].copy()
        found[0] = truth[0]
        low = np.maximum(truth[:, :2], found[:, :2])
        high = np.minimum(truth[:, :2] + truth[:, 2:], found[:, :2] + found[:, 2:])
        common = np.clip(high - low, 0, None).prod(1)
        overlap = common / (truth[:, 2:].prod(1) + found[:, 2:].prod(1) - common)
        offset = found[:, :2] - truth[:, :2] + (found[:, 2:] - truth[:, 2:]) / 2
        center = np.hypot(*offset.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            normalized = np.hypot(*(offset / truth[:, 2:]).T)
        valid = (truth > 0).all(1) | (not all_positive)
        overlap[~valid], center[~valid], normalized[~valid] = -1, invalid_center, -1
        if exclude:
            overlap, center, normalized = overlap[valid], center[valid], normalized[valid]
        curves.append([(overlap > threshold).mean() for threshold in np.linspace(0, 1, 21)])
        rows.append([(overlap > 0.5).mean(), (overlap > 0.75).mean(), (center <= 20).mean(), (normalized <= 0.2).mean()])
    return [100 * np.mean(curves), *(100 * np.mean(rows, axis=0))]


def main(data):
    annotations = {key(path.parent.name): read(path) for path in data.glob("annotations/*/groundtruth_rect.txt")}
    golden = {}
    for tracker in ("ATOM", "SiamFC"):
        results = {key(path.stem): read(path) for path in (data / "results" / tracker).glob("*.txt")}
        golden[tracker] = {name: figures(annotations, results, **how) for name, how in CONVENTIONS.items()}
    return json.dumps(golden, indent=1)


if len(sys.argv) > 1:
    print(main(pathlib.Path(sys.argv[1])))
else:
    (HERE / "otb_golden.json").write_text(main(FIXTURES) + "\n")
