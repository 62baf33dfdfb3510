"""Alternates roi_pooling.rs with torchvision.ops.roi_align in one run; see that file for the command."""

import os
import subprocess
import sys
import time

import torch
from torchvision.ops import nms, roi_align

ROUNDS = 9
THREADS = 2


def boxes_and_scores(h, w, count):
    """The generator of the Rust side."""
    state = 1

    def noise():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 40) / 2**24

    rows = []
    for _ in range(count):
        x, y, bw, bh = noise(), noise(), noise(), noise()
        bw, bh = 7 + 21 * bw, 7 + 21 * bh
        x, y = x * (w - bw), y * (h - bh)
        rows.append([0.0, x, y, x + bw, y + bh])
    return torch.tensor(rows), torch.tensor([noise() for _ in range(count)])


def milliseconds(f):
    start = time.perf_counter()
    result = f()
    elapsed = time.perf_counter() - start
    del result
    return elapsed * 1e3


def torch_side(features, rois, scores):
    def forward():
        return milliseconds(lambda: roi_align(features, rois, (7, 7), 1.0, 2, False))

    def backward():
        f = features.clone().requires_grad_()
        loss = roi_align(f, rois, (7, 7), 1.0, 2, False).sum()
        return milliseconds(loss.backward)

    return {
        "forward": forward,
        "backward": backward,
        "nms": lambda: milliseconds(lambda: nms(rois[:, 1:], scores, 0.7)),
    }


PAIRS = [
    ("prroi forward", "forward"),
    ("prroi forward channels_last", "forward"),
    ("prroi backward both", "backward"),
    ("prroi backward features", "backward"),
    ("prroi backward boxes", "backward"),
    ("roi_align forward", "forward"),
    ("roi_align backward", "backward"),
    ("channels_last", None),
    ("nms", "nms"),
]


def main():
    torch.set_num_threads(THREADS)
    ours = subprocess.Popen(
        [sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"RAYON_NUM_THREADS": str(THREADS)},
    )

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return ours.stdout.readline().strip()

    for c, h, w, count in [(256, 100, 136, 1000), (64, 40, 40, 2000)]:
        assert ask(f"setup {c} {h} {w} {count}") == "ready"
        rois, scores = boxes_and_scores(h, w, count)
        theirs = torch_side(torch.randn(1, c, h, w), rois, scores)
        print(f"{count} boxes, {c}x{h}x{w}, minimum (median) of {ROUNDS} alternating rounds, ms")
        for ours_name, theirs_name in PAIRS:
            a, b = [], []
            for _ in range(ROUNDS):
                a.append(float(ask(ours_name)))
                if theirs_name:
                    b.append(theirs[theirs_name]())
            a.sort()
            b.sort()
            line = f"  {ours_name:30} {a[0]:8.2f} ({a[ROUNDS // 2]:.2f})"
            if b:
                line += f"   torchvision {theirs_name:10} {b[0]:8.2f} ({b[ROUNDS // 2]:.2f})   ratio {a[0] / b[0]:.3f}"
            print(line, flush=True)


main()
