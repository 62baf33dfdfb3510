"""Golden values of a narrow ResNet-18 with a pyramid on its maps whose maps are bf16, from torch and torchvision: the summaries of levels and
gradients in double precision, and how far torch's own with maps in bf16 are from these, relative to their norm.

Run: python bf16.py (writes beside itself). Parameters and inputs are the formulas of networks.py.
"""

import torch
import torchvision
from torch.nn.functional import conv2d, max_pool2d
from torchvision.ops import FeaturePyramidNetwork
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

from networks import formula, save, summary, value

WIDTH, LEVEL = 8, 6


class Net:
    """The maps are of type `maps`, the parameters and all sums of a normalisation of type `dtype`; the normalisation is frozen."""

    def __init__(self, dtype, maps):
        self.dtype, self.maps, self.params = dtype, maps, {}

    def p(self, name, shape):
        t = value(name, shape).to(self.dtype)
        return self.params.setdefault(name, t.requires_grad_())

    def conv(self, x, name, out, size, stride=1, bias=False):
        weight = self.p(name + ".weight", (out, x.shape[1], size, size)).to(self.maps)
        bias = self.p(name + ".bias", (out,)).to(self.maps) if bias else None
        return conv2d(x, weight, bias, stride, size // 2)

    def norm(self, x, name):
        w, b, mean, var = (value(f"{name}.{key}", (x.shape[1],)).to(self.dtype)[:, None, None]
                           for key in ("weight", "bias", "running_mean", "running_var"))
        scale = w / (var + 1e-5).sqrt()
        return x.to(self.dtype) * scale + (b - mean * scale)

    def block(self, x, name, out, stride):
        y = self.norm(self.conv(x, name + "conv1", out, 3, stride), name + "bn1").relu().to(self.maps)
        y = self.norm(self.conv(y, name + "conv2", out, 3), name + "bn2")
        if stride != 1:
            x = self.norm(self.conv(x, name + "downsample.0", out, 1, stride), name + "downsample.1").to(self.maps)
        return (y + x.to(self.dtype)).relu().to(self.maps)

    def levels(self, x):
        x = self.norm(self.conv(x.to(self.maps), "body.conv1", WIDTH, 7, 2), "body.bn1").relu().to(self.maps)
        x = max_pool2d(x, 3, 2, 1)
        maps = {}
        for stage in range(4):
            for i in range(2):
                x = self.block(x, f"body.layer{stage + 1}.{i}.", WIDTH << stage, 2 if stage > 0 and i == 0 else 1)
            maps[str(stage)] = x
        fpn = FeaturePyramidNetwork([WIDTH << i for i in range(4)], LEVEL, extra_blocks=LastLevelMaxPool())
        named = {name: self.p("fpn." + name, tuple(p.shape)).to(self.maps) for name, p in fpn.named_parameters()}
        return list(torch.func.functional_call(fpn.to(self.maps), named, (maps,)).values())


def run(dtype, maps):
    net = Net(dtype, maps)
    levels = [level.to(dtype) for level in net.levels(formula("input", (2, 3, 173, 234)).to(dtype))]
    sum((level * formula(f"out{i}", tuple(level.shape)).to(dtype)).sum() for i, level in enumerate(levels)).backward()
    found = {f"level {i}": level.detach() for i, level in enumerate(levels)}
    return found | {name: p.grad for name, p in net.params.items()}


exact, rounded = run(torch.float64, torch.float64), run(torch.float32, torch.bfloat16)
out = {}
for name, t in exact.items():
    out[name] = summary(t)
    out[name + ": bf16"] = ((rounded[name].double() - t).norm() / t.norm()).reshape(1)
    print(name, tuple(t.shape), float(out[name + ": bf16"]))
save("bf16", out)
