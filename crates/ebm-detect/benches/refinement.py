"""Alternates refinement.rs with the published scheme in torch in one run; see that file for the command.

The scheme is Algorithm S1 as printed: in each step f with its gradient at y, and f once more at the new y, all
classes' outputs, of which the box's own is taken. torch has no PrRoIPool on a CPU; here it is two products with a view
of the map for each box (`Wy · F · Wxᵀ`, no copies), the weights made for all boxes at once, autograd through all of it.
fc6's columns are in the order (bins, C), maps channels-last, parameters without gradients.
"""

import os
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file
from torch.nn.functional import linear

ROUNDS = 7
THREADS = 2
# Seconds after which torch's threads have stopped waiting busily.
PAUSE = 0.1
BOXES = 100
STEPS = 10
BINS = 7
STEP_LENGTH = torch.tensor([1e-3, 1e-3, 4e-3, 4e-3])
DECAY = 0.5


def integral(t):
    """Of the tent max(0, 1 - |t|), up to t."""
    t = t.clamp(-1, 1)
    return 0.5 + t - 0.5 * t * t.abs()


def axis_weights(low, high, first, length):
    """(R, BINS, length): means of the tents of pixels first.. over the bins between low and high."""
    edges = low[:, None] + (high - low)[:, None] * torch.linspace(0, 1, BINS + 1)
    pixels = first[:, None] + torch.arange(length)
    up_to = integral(edges[:, :, None] - pixels[:, None, :])
    return (up_to[:, 1:] - up_to[:, :-1]) * (BINS / (high - low))[:, None, None]


class Torch:
    def __init__(self, path):
        t = load_file(path)
        c = t["p2"].shape[1]
        self.maps = [t[f"p{i}"][0].permute(1, 2, 0).contiguous() for i in range(2, 6)]
        self.sizes = torch.tensor([m.shape[1::-1] for m in self.maps])
        fc6 = t["energy_head.fc6.weight"]
        fc6 = fc6.view(-1, c, BINS * BINS).transpose(1, 2).reshape(fc6.shape).contiguous()
        self.w = [fc6, t["energy_head.fc7.weight"], t["energy_predictor.weight"]]
        self.b = [t["energy_head.fc6.bias"], t["energy_head.fc7.bias"], t["energy_predictor.bias"]]
        boxes = t["boxes"]
        self.labels = t["labels"].long()[:, None]
        self.size = boxes[:, 2:] - boxes[:, :2]
        self.y0 = torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2 / self.size, self.size.log()], 1)
        self.pooled = torch.randn(len(boxes), fc6.shape[1])

    def pool(self, y):
        center, half = y[:, :2] * self.size, y[:, 2:].exp() / 2
        low, high = center - half, center + half
        with torch.no_grad():
            level = (4 + ((high - low).prod(1).sqrt() / 224 + 1e-6).log2()).floor().clamp(2, 5) - 2
            scale = 0.25 / 2**level[:, None]
            first = (low * scale).floor().clamp(min=0)
            last = torch.minimum((high * scale).ceil() + 1, self.sizes[level.long()])
            counts = (last - first).clamp(min=1)
            widest, highest = counts.max(0).values.int().tolist()
            places = torch.cat([level[:, None], first, counts], 1).int().tolist()
        low, high = low * scale, high * scale
        wx = axis_weights(low[:, 0], high[:, 0], first[:, 0], widest)
        wy = axis_weights(low[:, 1], high[:, 1], first[:, 1], highest)
        tiles = []
        for (l, x, top, w, h), wx, wy in zip(places, wx.unbind(), wy.unbind()):
            crop = self.maps[l][top:top + h, x:x + w]
            lines = torch.matmul(wx[:, :w], crop)
            tiles.append(torch.mm(wy[:, :h], lines.view(h, -1)))
        return torch.stack(tiles).flatten(1)

    def head(self, pooled):
        x = linear(pooled, self.w[0], self.b[0]).relu_()
        x = linear(x, self.w[1], self.b[1]).relu_()
        return linear(x, self.w[2], self.b[2]).gather(1, self.labels)

    def refine(self, steps):
        y, scale = self.y0, torch.ones(len(self.y0), 1)
        for _ in range(steps):
            y = y.detach().requires_grad_()
            f = self.head(self.pool(y))
            (gradient,) = torch.autograd.grad(f.sum(), y)
            with torch.no_grad():
                moved = y + scale * STEP_LENGTH * gradient
                better = self.head(self.pool(moved)) > f
                y = torch.where(better, moved, y)
                scale = torch.where(better, scale, scale * DECAY)
        return y

    def heads(self, steps):
        """The fully-connected layers alone."""
        for _ in range(steps):
            x = self.pooled.detach().requires_grad_()
            torch.autograd.grad(self.head(x).sum(), x)
            with torch.no_grad():
                self.head(self.pooled)


def milliseconds(f):
    start = time.perf_counter()
    result = f()
    elapsed = time.perf_counter() - start
    del result
    return elapsed * 1e3


def main():
    torch.set_num_threads(THREADS)
    ours = subprocess.Popen(
        [sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"RAYON_NUM_THREADS": str(THREADS)},
    )

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return ours.stdout.readline().strip()

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/case.safetensors"
        assert ask(f"setup {BOXES} {path}") == "ready"
        theirs = Torch(path)
        ask(f"refine {STEPS} {folder}/y.safetensors")
        y = load_file(f"{folder}/y.safetensors")["y"][:, 0]
    other = theirs.refine(STEPS)
    print(
        f"{BOXES} boxes, T = {STEPS}; y moved by up to {(y - theirs.y0).abs().max():.4f}, on average"
        f" {(y - theirs.y0).abs().mean():.5f}; the two results differ by more than 1e-5 in"
        f" {((y - other).abs().amax(1) > 1e-5).sum()} boxes, by at most"
        f" {(y - other).abs().max():.2g}"
    )
    print(f"minimum (median) of {ROUNDS} alternating rounds, ms; ours evaluates f T + 1 times, torch 2 T times")
    for name, what, run in [
        ("refinement", f"refine {STEPS}", lambda: theirs.refine(STEPS)),
        ("its fully-connected layers", f"heads {STEPS}", lambda: theirs.heads(STEPS)),
    ]:
        a, b = [], []
        for _ in range(ROUNDS):
            time.sleep(PAUSE)
            a.append(float(ask(what)))
            b.append(milliseconds(run))
        a.sort()
        b.sort()
        print(
            f"  {name:28} {a[0]:8.1f} ({a[ROUNDS // 2]:.1f})   torch {b[0]:8.1f} ({b[ROUNDS // 2]:.1f})"
            f"   ratio {a[0] / b[0]:.3f}", flush=True,
        )


if __name__ == "__main__":
    main()
