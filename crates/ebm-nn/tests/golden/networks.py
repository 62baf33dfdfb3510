"""Golden values of ResNet, FPN and .pth files, from torch and torchvision.

Run: python networks.py (writes beside itself). Weights and inputs are formulas of the index and of the
parameter's name (formulas.py of ebm-ops), so that the files hold results only.
"""

import os
import sys

import torch
import torchvision
from safetensors.torch import save_file
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.ops import FeaturePyramidNetwork
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../ebm-ops/tests/golden"))
from formulas import fill, formula, path, save, summary, value

torch.set_num_threads(2)


def stages(net, x):
    x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
    maps = []
    for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
        x = layer(x)
        maps.append(x)
    return maps


def resnets():
    out = {}
    cases = {
        "resnet18": (lambda: torchvision.models.resnet18(weights=None), (2, 3, 65, 97)),
        "resnet34": (lambda: torchvision.models.resnet34(weights=None), (1, 3, 70, 45)),
        "resnet50": (lambda: torchvision.models.resnet50(weights=None), (1, 3, 65, 97)),
        "narrow": (lambda: narrow(), (2, 3, 65, 97)),
    }
    for name, (make, shape) in cases.items():
        net = make().eval()
        fill(net)
        x = formula("input", shape).float()
        with torch.no_grad():
            for i, m in enumerate(stages(net, x)):
                out[f"{name}.shape{i}"] = torch.tensor(m.shape)
                out[f"{name}.c{i + 2}"] = summary(m)
    # torchvision's ResNet-50 with the stride moved to the first 1x1.
    net = torchvision.models.resnet50(weights=None).eval()
    for layer in (net.layer2, net.layer3, net.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    fill(net)
    with torch.no_grad():
        for i, m in enumerate(stages(net, formula("input", (1, 3, 65, 97)).float())):
            out[f"msra.c{i + 2}"] = summary(m)
    # One training step of the narrow network in float64: running statistics and gradients.
    net = narrow().double().train()
    fill(net)
    loss = sum((m * formula(f"out{i}", tuple(m.shape))).sum() for i, m in enumerate(stages(net, formula("input", (2, 3, 65, 97)))))
    loss.backward()
    out["train.loss"] = loss.detach().reshape(1)
    for name, p in net.named_parameters():
        if not name.startswith("fc"):
            out[f"train.grad.{name}"] = summary(p.grad)
    for name, b in net.named_buffers():
        if not name.endswith("num_batches_tracked"):
            out[f"train.buffer.{name}"] = summary(b)
    save("resnet", out)


class Narrow(ResNet):
    """ResNet-18 of width 16: torchvision's constructor hard-codes 64, so the stages are made again."""

    def __init__(self, layers):
        super().__init__(BasicBlock, layers)
        self.inplanes = 16
        self.conv1 = torch.nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        for i in range(4):
            setattr(self, f"layer{i + 1}", self._make_layer(BasicBlock, 16 << i, layers[i], stride=1 if i == 0 else 2))


def narrow():
    return Narrow([2, 2, 2, 2])


def fpn():
    out = {}
    net = FeaturePyramidNetwork([8, 12, 16, 20], 10, extra_blocks=LastLevelMaxPool()).double()
    fill(net)
    sizes = [(17, 25), (9, 13), (5, 7), (3, 4)]
    maps = {
        str(i): formula(f"map{i}", (2, c, h, w)).requires_grad_()
        for i, (c, (h, w)) in enumerate(zip([8, 12, 16, 20], sizes))
    }
    levels = net(dict(maps))
    for i, m in enumerate(levels.values()):
        out[f"shape{i}"] = torch.tensor(m.shape)
        out[f"p{i + 2}"] = summary(m)
    sum((m * formula(f"out{i}", tuple(m.shape))).sum() for i, m in enumerate(levels.values())).backward()
    for i, m in maps.items():
        out[f"grad.map{i}"] = summary(m.grad)
    for name, p in net.named_parameters():
        out[f"grad.{name}"] = summary(p.grad)
    save("fpn", out)


def files():
    tensors = {
        "conv.weight": formula("conv.weight", (2, 3, 1, 1)).float(),
        "conv.bias": formula("conv.bias", (2,)).half(),
        "fc.weight": formula("fc.weight", (4, 3)).double().t(),  # not contiguous, column-major
        "view": formula("view", (4, 6)).float()[1:3, ::2],  # not contiguous, offset, strided
        "flag": torch.tensor([True, False, True]),
        "count": torch.tensor(7),
    }
    flat = torch.nn.Module()
    flat.fc = torch.nn.Linear(3, 2)
    torch.save(tensors, path("flat.pth"))
    torch.save({"epoch": 3, "model": {k: torch.nn.Parameter(v) if v.is_floating_point() else v for k, v in tensors.items()}}, path("nested.pth"))
    torch.save({"epoch": 3, "weights": {"inner": tensors}}, path("deep.pth"))
    torch.save(flat.state_dict(), path("state_dict.pth"))
    torch.save({"epoch": 3}, path("empty.pth"))
    torch.save(tensors, path("legacy.pth"), _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), path("script.pth"))
    save_file({k: v.contiguous() for k, v in tensors.items() if k != "flag"}, path("pth.safetensors"))


if __name__ == "__main__":
    torch.manual_seed(0)
    for part in (resnets, fpn, files):
        part()
    print(torch.__version__, torchvision.__version__, file=sys.stderr)
