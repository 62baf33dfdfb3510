#!/usr/bin/env python3
"""Times conv2d of ebm-ops, candle and PyTorch on eight shapes, in turn, and writes docs/results/ops_speed.csv.

    cargo build --release -p ebm-ops --example speed
    python3 crates/ebm-ops/examples/speed.py [ROUNDS]

A time is the shortest of all rounds, in milliseconds. The number of threads is the machine's, or RAYON_NUM_THREADS'.
"""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples/speed"
PASSES = 7
SIDES = ["ours", "candle", "ours_gradient", "candle_gradient", "torch", "torch_gradient"]


def shortest(work):
    work()
    times = []
    for _ in range(PASSES):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def of_torch(shape):
    """The shortest times in the faster of torch's two memory formats."""
    n, c, h, w, o, k, stride = shape
    times = []
    for form in (torch.contiguous_format, torch.channels_last):
        tensors = [torch.randn(n, c, h, w).to(memory_format=form), torch.randn(o, c, k, k).to(memory_format=form), torch.randn(o)]
        leaves = [tensor.requires_grad_() for tensor in tensors]

        def forward():
            return torch.nn.functional.conv2d(*leaves, stride=stride, padding=k // 2)

        def inference():
            with torch.inference_mode():
                forward()

        times.append((shortest(inference), shortest(lambda: torch.autograd.grad(forward().sum(), leaves))))
    return [min(column) for column in zip(*times)]


def main():
    threads = int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count()))
    torch.set_num_threads(threads)
    best = {}
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        lines = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout.splitlines()
        for line in map(json.loads, lines):
            times = line["milliseconds"] + of_torch(line["shape"])
            before = best.get(tuple(line["shape"]), times)
            best[tuple(line["shape"])] = [min(pair) for pair in zip(before, times)]
    with open(ROOT / "docs/results/ops_speed.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["map", "weight", "stride", "threads", *SIDES])
        for (n, c, h, w, o, k, stride), times in best.items():
            table.writerow([f"{n}x{c}x{h}x{w}", f"{o}x{c}x{k}x{k}", stride, threads, *(f"{value:.3f}" for value in times)])
            print(f"{n}x{c}x{h}x{w} {o}x{c}x{k}x{k} /{stride}", " ".join(f"{side} {value:.2f}" for side, value in zip(SIDES, times)))


if __name__ == "__main__":
    main()
