"""Alternates mobilefacenet.rs with torch in one run; see that file for the command. Prints the least of each side."""

import os
import subprocess
import sys
import time

import torch
from torch import nn

ROUNDS = int(os.environ.get("ROUNDS", "5"))
THREADS = 1
CASES = ["infer 1 112", "infer 32 112", "step 32 112 18", "step 32 112 11", "step 32 112 4", "frozen 32 112 18", "frozen 32 112 4",
         "depthwise 32 64 56 1", "depthwise 32 128 56 2", "depthwise 32 128 28 1", "depthwise 32 256 14 1",
         "depthwise 32 512 14 2"]


def layer(inputs, outputs, kernel=1, stride=1, groups=1, prelu=True):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs, eps=1e-3)] + ([nn.PReLU(outputs)] if prelu else [])


class Inverted(nn.Module):
    def __init__(self, inputs, inner, outputs, stride):
        super().__init__()
        self.residual = stride == 1
        self.layers = nn.Sequential(*layer(inputs, inner), *layer(inner, inner, 3, stride, inner), *layer(inner, outputs, prelu=False))

    def forward(self, x):
        y = self.layers(x)
        return y + x if self.residual else y


def blocks():
    found = [nn.Sequential(*layer(3, 64, 3, 2)), nn.Sequential(*layer(64, 64, 3, 1, 64))]
    inputs = 64
    for first, inner, outputs, count in ((128, 128, 64, 4), (256, 256, 128, 6), (512, 256, 128, 2)):
        found.append(Inverted(inputs, first, outputs, 2))
        found += [Inverted(outputs, inner, outputs, 1) for _ in range(count)]
        inputs = outputs
    return found + [nn.Sequential(*layer(128, 512))]


def step(form, n, side, count, frozen=False):
    net = nn.Sequential(*blocks())
    net = net.to(memory_format=torch.channels_last) if form == "channels_last" else net
    x = torch.randn(n, 3, side, side)
    x = x.to(memory_format=torch.channels_last) if form == "channels_last" else x
    first = len(net) - count
    with torch.no_grad():
        maps = net[:first].eval()(x)
    rest = net[first:].eval() if frozen else net[first:].train()
    if frozen:
        for module in rest.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.requires_grad_(False)
    leaves = [p for p in rest.parameters() if p.requires_grad]
    return lambda: torch.autograd.grad(rest(maps).square().mean(), leaves)


def infer(form, n, side):
    net = nn.Sequential(*blocks()).eval()
    net = net.to(memory_format=torch.channels_last) if form != "eager" else net
    x = torch.randn(n, 3, side, side)
    x = x.to(memory_format=torch.channels_last) if form != "eager" else x
    if form == "script":
        net = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, x)))

    def work():
        with torch.no_grad():
            return net(x)

    return work


def depthwise(form, n, c, side, stride):
    conv = nn.Conv2d(c, c, 3, stride, 1, groups=c, bias=False)
    x = torch.randn(n, c, side, side)
    if form == "channels_last":
        conv, x = conv.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    x = x.requires_grad_()
    ones = torch.ones_like(conv(x))
    return lambda: torch.autograd.grad(conv(x), [x, conv.weight], ones)


def timed(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def main():
    torch.set_num_threads(THREADS)
    environment = dict(os.environ, RAYON_NUM_THREADS=str(THREADS))
    ours = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    for case in [case for case in CASES if not sys.argv[2:] or any(case.startswith(name) for name in sys.argv[2:])]:
        name, *sizes = case.split()
        sizes = [int(size) for size in sizes]
        makes = {"depthwise": depthwise, "infer": infer, "step": step, "frozen": lambda *given: step(*given, True)}
        forms = ["eager", "channels_last"] + ["script"] * (name == "infer")
        works = {form: makes[name](form, *sizes) for form in forms}
        for work in list(works.values()) * 3:
            work()
        times = {form: [] for form in ["ours", *works]}
        for _ in range(ROUNDS):
            ours.stdin.write(case + "\n")
            ours.stdin.flush()
            times["ours"].append(float(ours.stdout.readline()))
            for form, work in works.items():
                times[form].append(timed(work))
        least = {form: min(found) for form, found in times.items()}
        best = min(least[form] for form in works)
        print(case, {form: round(t, 2) for form, t in least.items()}, f"ratio {least['ours'] / best:.2f}", flush=True)


if __name__ == "__main__":
    main()
