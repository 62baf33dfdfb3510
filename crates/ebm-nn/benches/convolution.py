"""Alternates convolution.rs with torch's conv2d in one run; see that file for the command."""

import os
import subprocess
import sys
import time

import torch
from torch.nn.functional import conv2d

ROUNDS = 9
THREADS = 2
PAUSE = 0.1
# Works are repeated for about so long in a round.
ROUND_MS = 60

# N, C, H, W, O, K, stride, padding
CASES = [
    (1, 256, 100, 136, 256, 3, 1, 1),
    (1, 256, 56, 56, 64, 1, 1, 0),
    (1, 64, 56, 56, 256, 1, 1, 0),
    (1, 3, 224, 224, 64, 7, 2, 3),
    (1, 64, 56, 56, 64, 3, 1, 1),
    (1, 256, 14, 14, 256, 3, 1, 1),
    (1, 512, 7, 7, 512, 3, 1, 1),
    (8, 64, 16, 16, 64, 3, 1, 1),
    (8, 128, 8, 8, 128, 3, 1, 1),
    (8, 128, 16, 16, 128, 3, 2, 1),
    (8, 256, 4, 4, 1024, 1, 1, 0),
    (8, 512, 2, 2, 512, 3, 1, 1),
    (8, 1024, 4, 4, 2048, 1, 2, 0),
]


def torch_side(n, c, h, w, o, k, stride, padding):
    x = torch.randn(n, c, h, w).to(memory_format=torch.channels_last)
    weight = torch.randn(o, c, k, k).to(memory_format=torch.channels_last)
    bias = torch.randn(o)

    @torch.inference_mode()
    def forward():
        start = time.perf_counter()
        # ReLU in place is what a network adds; ours has it fused.
        y = conv2d(x, weight, bias, stride, padding).relu_()
        elapsed = time.perf_counter() - start
        del y
        return elapsed * 1e3

    variables = [t.clone().requires_grad_() for t in (x, weight, bias)]
    g = torch.randn_like(conv2d(x, weight, bias, stride, padding))

    def train():
        for variable in variables:
            variable.grad = None
        start = time.perf_counter()
        conv2d(*variables, stride, padding).backward(g)
        return (time.perf_counter() - start) * 1e3

    return {"forward": forward, "train": train}


def main():
    torch.set_num_threads(THREADS)
    ours = subprocess.Popen(
        [sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"RAYON_NUM_THREADS": str(THREADS)},
    )

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return ours.stdout.readline().strip()

    print(f"minimum (median) of {ROUNDS} alternating rounds, ms; convolution, bias and ReLU, or forward and backward")
    for case, work in [(case, work) for work in ("forward", "train") for case in CASES]:
        assert ask("setup " + " ".join(map(str, case))) == "ready"
        theirs, a, b = torch_side(*case)[work], [], []
        theirs()
        times = int(max(1, ROUND_MS / theirs()))
        for _ in range(ROUNDS):
            # torch's worker threads spin for a while after their work.
            time.sleep(PAUSE)
            a.append(float(ask(f"{work} {times}")))
            b.append(sum(theirs() for _ in range(times)) / times)
        a.sort()
        b.sort()
        n, c, h, w, o, k, stride, _ = case
        name = f"{work} {k}x{k}/{stride} {c}->{o} on {n}x{h}x{w}"
        print(
            f"  {name:40} {a[0]:8.2f} ({a[ROUNDS // 2]:.2f})   torch {b[0]:8.2f} ({b[ROUNDS // 2]:.2f})"
            f"   ratio {a[0] / b[0]:.3f}", flush=True,
        )


main()
