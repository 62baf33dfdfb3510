"""Alternates convolution.rs with torch's conv2d in one run; see that file for the command."""

import os
import subprocess
import sys
import time

import torch
from torch.nn.functional import conv2d

ROUNDS = 15
THREADS = 2

# N, C, H, W, O, K, stride, padding
CASES = [
    (1, 256, 100, 136, 256, 3, 1, 1),
    (1, 256, 56, 56, 64, 1, 1, 0),
    (1, 64, 56, 56, 256, 1, 1, 0),
    (1, 3, 224, 224, 64, 7, 2, 3),
    (1, 64, 56, 56, 64, 3, 1, 1),
    (1, 256, 14, 14, 256, 3, 1, 1),
    (1, 512, 7, 7, 512, 3, 1, 1),
]


def torch_side(n, c, h, w, o, k, stride, padding):
    x = torch.randn(n, c, h, w).to(memory_format=torch.channels_last)
    weight = torch.randn(o, c, k, k).to(memory_format=torch.channels_last)
    bias = torch.randn(o)

    def forward():
        start = time.perf_counter()
        # ReLU in place is what a network adds; ours has it fused.
        y = conv2d(x, weight, bias, stride, padding).relu_()
        elapsed = time.perf_counter() - start
        del y
        return elapsed * 1e3

    return forward


@torch.inference_mode()
def main():
    torch.set_num_threads(THREADS)
    ours = subprocess.Popen(
        [sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"RAYON_NUM_THREADS": str(THREADS)},
    )

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return ours.stdout.readline().strip()

    print(f"minimum (median) of {ROUNDS} alternating rounds, ms; convolution, bias and ReLU")
    for case in CASES:
        assert ask("setup " + " ".join(map(str, case))) == "ready"
        theirs, a, b = torch_side(*case), [], []
        for _ in range(ROUNDS):
            a.append(float(ask("forward")))
            b.append(theirs())
        a.sort()
        b.sort()
        n, c, h, w, o, k, stride, _ = case
        name = f"{k}x{k}/{stride} {c}->{o} on {n}x{h}x{w}"
        print(
            f"  {name:32} {a[0]:8.2f} ({a[ROUNDS // 2]:.2f})   torch {b[0]:8.2f} ({b[ROUNDS // 2]:.2f})"
            f"   ratio {a[0] / b[0]:.3f}", flush=True,
        )


main()
