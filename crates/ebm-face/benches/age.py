"""Alternates the requests of age.rs, and torch on the same training step, in one run; see that file for the command."""

import os
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn.functional import linear, relu

ROUNDS = 15
TRAINING_ROUNDS = 3
THREADS = 2
IMAGES, SAMPLES, FEATURES = 32, 1024, 2048
STEP_IMAGES, STEP_ROUNDS = 32, 3


class EnergyHead(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [1, 16, 32, 64, 128]
        layers = [[nn.Linear(a, b), nn.ReLU()] for a, b in zip(widths, widths[1:])]
        self.y_layers = nn.Sequential(*[module for pair in layers for module in pair])
        self.join = nn.Linear(FEATURES + widths[-1], FEATURES)
        self.out = nn.Linear(FEATURES, 1)

    def published(self, g_x, y):
        """Repeats g_x for every sample and concatenates."""
        batch, count, dim = y.shape
        repeated = g_x.unsqueeze(1).expand(-1, count, -1).reshape(batch * count, -1)
        g_y = self.y_layers(y.reshape(batch * count, dim))
        return self.out(relu(self.join(torch.cat([repeated, g_y], 1)))).view(batch, count)

    def late(self, g_x, y):
        """W_x g_x once for each image."""
        batch, count, dim = y.shape
        a = linear(g_x, self.join.weight[:, :FEATURES], self.join.bias)
        g_y = self.y_layers(y.reshape(batch * count, dim))
        z = linear(g_y, self.join.weight[:, FEATURES:]).view(batch, count, -1)
        return self.out(relu(z + a.unsqueeze(1))).squeeze(2)


def torch_step(head, form):
    g_x = torch.randn(IMAGES, FEATURES, requires_grad=True)
    y = 35 + 10 * torch.randn(IMAGES, SAMPLES, 1)
    slopes = 1e-3 * torch.randn(IMAGES, SAMPLES)
    for parameter in head.parameters():
        parameter.grad = None
    start = time.perf_counter()
    (getattr(head, form)(g_x, y) * slopes).sum().backward()
    return (time.perf_counter() - start) * 1e3


def alternate(rounds, measurements):
    times = {name: [] for name in measurements}
    for _ in range(rounds):
        for name, measure in measurements.items():
            times[name].append(measure())
    return {name: (min(all_), sorted(all_)[rounds // 2]) for name, all_ in times.items()}


def show(found):
    first = next(iter(found.values()))
    for name, (least, median) in found.items():
        print(f"  {name:24} {least:9.2f} ({median:.2f})   first / this: {first[0] / least:.3f} ({first[1] / median:.3f})", flush=True)


def main():
    torch.set_num_threads(THREADS)
    ours = subprocess.Popen(
        [sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"RAYON_NUM_THREADS": str(THREADS)},
    )

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return ours.stdout.readline().strip()

    only = sys.argv[2:] or ["predict", "train", "step"]
    if "predict" in only:
        for batch in [1, 8]:
            assert ask(f"setup {batch}") == "ready"
            rounds = 2 * ROUNDS if batch == 1 else ROUNDS
            print(f"prediction, {batch} image(s) of 200x200: minimum (median) of {rounds} alternating rounds, ms")
            requests = ["direct", "refined", "features", "refine"]
            ask("refined")
            show(alternate(rounds, {name: lambda name=name: float(ask(name)) for name in requests}))
    if "train" in only:
        head = EnergyHead()
        print(f"training step of the energy head, B={IMAGES}, M={SAMPLES}, minimum (median) of {TRAINING_ROUNDS}, ms")
        show(alternate(TRAINING_ROUNDS, {
            "ours": lambda: float(ask(f"train {IMAGES} {SAMPLES}")),
            "torch, late fusion": lambda: torch_step(head, "late"),
            "torch, published": lambda: torch_step(head, "published"),
        }))
    if "step" in only:
        print(f"training step at paper scale, B={STEP_IMAGES}, M={SAMPLES}, minimum (median) of {STEP_ROUNDS}, ms")
        ask(f"step direct_l2 {STEP_IMAGES} {SAMPLES}")
        ask(f"step ebm {STEP_IMAGES} {SAMPLES}")
        keys = ["direct_l2", "ebm"]
        show(alternate(STEP_ROUNDS, {key: lambda key=key: float(ask(f"step {key} {STEP_IMAGES} {SAMPLES}")) for key in keys}))


main()
