"""Alternates linear.rs with torch.nn.functional.linear in one run; see that file for the command."""

import os
import subprocess
import sys
import time

import torch
from torch.nn.functional import linear

ROUNDS = 15
THREADS = 2
# Seconds after which torch's threads have stopped waiting busily.
PAUSE = 0.1

# N, I, H, O
CASES = [(100, 12544, 1024, 91), (1000, 12544, 1024, 91)]


def timed(f):
    start = time.perf_counter()
    result = f()
    elapsed = time.perf_counter() - start
    del result
    return elapsed * 1e3


class Torch:
    def __init__(self, n, i, h, o):
        sizes = [(h, i), (h, h), (o, h)]
        self.w = [torch.randn(*s) / s[1] ** 0.5 for s in sizes]
        self.b = [0.1 * torch.randn(s[0]) for s in sizes]
        self.x = torch.randn(n, i)

    @torch.inference_mode()
    def forward(self):
        w, b = self.w, self.b
        x = linear(self.x, w[0], b[0]).relu_()
        return linear(linear(x, w[1], b[1]).relu_(), w[2], b[2])

    def gradient(self):
        """To the input alone, of two layers."""
        x = self.x.detach().requires_grad_()
        w, b = self.w, self.b
        y = linear(linear(x, w[0], b[0]).relu_(), w[1], b[1]).relu_()
        y.backward(y.detach())
        return x.grad

    def training(self, with_input=False):
        w, b = ([p.detach().requires_grad_() for p in ps] for ps in (self.w, self.b))
        x = self.x.detach().requires_grad_(with_input)
        y = linear(linear(x, w[0], b[0]).relu_(), w[1], b[1]).relu_()
        linear(y, w[2], b[2]).sum().backward()
        return [p.grad for p in w]

    def training_with_input(self):
        return self.training(True)


PAIRS = [
    ("packed forward", "forward"),
    ("packed gradient", "gradient"),
    ("forward", "forward"),
    ("training", "training"),
    ("training with input", "training_with_input"),
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

    print(f"minimum (median) of {ROUNDS} alternating rounds, ms")
    for case in CASES:
        assert ask("setup " + " ".join(map(str, case))) == "ready"
        theirs = Torch(*case)
        n, i, h, o = case
        print(f"{n} rows of {i} -> {h} -> {h} -> {o}")
        for ours_name, theirs_name in PAIRS:
            a, b = [], []
            for _ in range(ROUNDS):
                time.sleep(PAUSE)
                a.append(float(ask(ours_name)))
                b.append(timed(getattr(theirs, theirs_name)))
            a.sort()
            b.sort()
            print(
                f"  {ours_name:20} {a[0]:8.2f} ({a[ROUNDS // 2]:.2f})   torch {b[0]:8.2f} ({b[ROUNDS // 2]:.2f})"
                f"   ratio {a[0] / b[0]:.3f}", flush=True,
            )


main()
