"""Alternates box_refinement.rs with the same in torch in one run; see that file for the command.

torch has no PrRoIPool on a CPU; here it is the closed form as two products for all boxes at once over the map's region
that holds them, differentiated by autograd. Parameters without gradients, normalisations unfolded (`plain`) and folded
into the weights (`folded`); torch's boxes take T gradient steps, ours T and a last f.
"""

import os
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file
from torch.nn.functional import batch_norm, conv2d, linear

ROUNDS = 15
THREADS = 2
# Seconds after which torch's threads have stopped waiting busily.
PAUSE = 0.1
BOXES = 10
STEPS = 10
STEP_LENGTH = torch.tensor([2e-4, 2e-4, 1e-3, 1e-3])


def integral(t):
    """Of the tent max(0, 1 - |t|), up to t."""
    t = t.clamp(-1, 1)
    return 0.5 + t - 0.5 * t * t.abs()


def axis_weights(low, high, bins, first, length):
    """(R, bins, length): means of the tents of pixels first.. over the bins between low and high."""
    edges = low[:, None] + (high - low)[:, None] * (torch.arange(bins + 1) / bins)
    up_to = integral(edges[:, :, None] - (first + torch.arange(length)))
    return (up_to[:, 1:] - up_to[:, :-1]) * (bins / (high - low))[:, None, None]


def pool(features, low, high, bins):
    """(R, C, bins, bins) of the map (C, H, W)."""
    with torch.no_grad():
        x0, y0 = low.amin(0).floor().clamp(min=0).int().tolist()
        x1, y1 = (high.amax(0).ceil() + 1).int().tolist()
    crop = features[:, y0:y1, x0:x1]
    wy = axis_weights(low[:, 1], high[:, 1], bins, y0, crop.shape[1])
    wx = axis_weights(low[:, 0], high[:, 0], bins, x0, crop.shape[2])
    lines = torch.matmul(crop, wx.transpose(1, 2)[:, None])  # (R, C, h, bins)
    return torch.matmul(wy[:, None], lines)


class Torch:
    def __init__(self, path, folded):
        self.t, self.folded = load_file(path), folded
        self.maps = [self.t["map3"][0], self.t["map4"][0]]
        boxes = self.t["boxes"][0]
        self.size = boxes[:1, 2:]
        self.y0 = torch.cat([(boxes[:, :2] + boxes[:, 2:] / 2) / self.size, boxes[:, 2:].log()], 1)
        if folded:
            for name, inner, norm in [(n, ".0", ".1") for n in ("conv3_1t", "conv3_2t", "conv4_1t", "conv4_2t")] + [
                ("fc3_rt", ".linear", ".bn"), ("fc4_rt", ".linear", ".bn")
            ]:
                n = [self.t[f"{name}{norm}.{p}"] for p in ("weight", "bias", "running_mean", "running_var")]
                scale = n[0] / (n[3] + 1e-5).sqrt()
                weight, bias = self.t[f"{name}{inner}.weight"], self.t[f"{name}{inner}.bias"]
                self.t[f"{name}{inner}.weight"] = weight * scale.view(-1, *[1] * (weight.ndim - 1))
                self.t[f"{name}{inner}.bias"] = (bias - n[2]) * scale + n[1]

    def norm(self, x, name):
        if self.folded:
            return x
        t = self.t
        return batch_norm(x, t[name + ".running_mean"], t[name + ".running_var"], t[name + ".weight"], t[name + ".bias"])

    def dense(self, x, name):
        x = linear(x.flatten(1), self.t[name + ".linear.weight"], self.t[name + ".linear.bias"])
        return self.norm(x, name + ".bn").relu()

    def conv(self, x, name):
        x = conv2d(x, self.t[name + ".0.weight"], self.t[name + ".0.bias"], 1, 1)
        return self.norm(x, name + ".1").relu()

    def f(self, y):
        center, half = y[:, :2] * self.size, y[:, 2:].exp() / 2
        low, high = center - half, center + half
        third = self.dense(pool(self.maps[0], low / 8, high / 8, 5), "fc3_rt")
        fourth = self.dense(pool(self.maps[1], low / 16, high / 16, 3), "fc4_rt")
        return linear(torch.cat([third, fourth], 1), self.t["iou_predictor.weight"], self.t["iou_predictor.bias"])

    def refine(self, steps):
        y = self.y0
        for _ in range(steps):
            y = y.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.f(y).sum(), y)
            y = y.detach() + STEP_LENGTH * gradient
        return y

    def test(self):
        with torch.no_grad():
            third = self.conv(self.conv(self.t["layer2"], "conv3_1t"), "conv3_2t") * self.t["vector3"][..., None, None]
            fourth = self.conv(self.conv(self.t["layer3"], "conv4_1t"), "conv4_2t") * self.t["vector4"][..., None, None]
            return third, fourth


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
        forms = {"plain": Torch(path, False), "folded": Torch(path, True)}
        ask(f"refine {STEPS} {folder}/y.safetensors")
        y = load_file(f"{folder}/y.safetensors")["y"][0]
    for name, theirs in forms.items():
        other = theirs.refine(STEPS)
        print(
            f"{name}: {BOXES} boxes, T = {STEPS}; y moved by up to {(y - theirs.y0).abs().max():.4f}; the two"
            f" results differ by at most {(y - other).abs().max():.2g}, the maps by at most"
            f" {max((a - b).abs().max() for a, b in zip(theirs.test(), theirs.maps)):.2g}"
        )
    print(f"minimum (median) of {ROUNDS} alternating rounds, ms")
    for what, run in [(f"refine {STEPS}", lambda t: t.refine(STEPS)), ("test", lambda t: t.test())]:
        times = {"ours": []} | {name: [] for name in forms}
        for _ in range(ROUNDS):
            time.sleep(PAUSE)
            times["ours"].append(float(ask(what)))
            for name, theirs in forms.items():
                times[name].append(milliseconds(lambda: run(theirs)))
        for values in times.values():
            values.sort()
        line = "   ".join(f"{name} {v[0]:7.2f} ({v[ROUNDS // 2]:.2f})" for name, v in times.items())
        ratios = ", ".join(f"{times[name][0] / times['ours'][0]:.2f}" for name in forms)
        print(f"  {what:12} {line}   torch / ours {ratios}", flush=True)


if __name__ == "__main__":
    main()
