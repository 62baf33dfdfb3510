"""Golden values of the backbone, from torch and torchvision in float64.

Run: python backbone.py FOLDED (the folded ResNet-18 of the real data; writes beside itself). Images are a formula of
the index, repeated in tests/suite/backbone.rs.
"""

import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision.models.resnet import BasicBlock

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH = 4
BLOCKS = [1, 2, 1]


def images(shape):
    i = torch.arange(torch.tensor(shape).prod().item(), dtype=torch.int64)
    return torch.sin((i * 7919 % 1000003).double() * 0.1).reshape(shape)


def folded(path):
    w = {k: v.double() for k, v in load_file(path).items()}

    def conv(x, name, stride=1, padding=0):
        return F.conv2d(x, w[name + ".weight"], w[name + ".bias"], stride, padding)

    x = F.max_pool2d(conv(images((1, 3, 40, 48)), "conv1", 2, 3).relu(), 3, 2, 1)
    maps = []
    for stage in range(1, 4):
        for i in range(2):
            name = f"layer{stage}.{i}."
            stride = 2 if stage > 1 and i == 0 else 1
            y = conv(conv(x, name + "conv1", stride, 1).relu(), name + "conv2", 1, 1)
            down = name + "downsample.0"
            x = (y + (conv(x, down, stride) if down + ".weight" in w else x)).relu()
        maps.append(x)
    return {"layer2": maps[1].float(), "layer3": maps[2].float()}


def small():
    """torchvision's blocks with its names, four channels wide, with statistics that are not 0 and 1."""
    torch.manual_seed(1)
    net = nn.Module()
    net.conv1 = nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False)
    net.bn1 = nn.BatchNorm2d(WIDTH)
    channels = WIDTH
    for stage, count in enumerate(BLOCKS):
        blocks, out = [], WIDTH << stage
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            down = None
            if stride > 1:
                down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            blocks.append(BasicBlock(channels, out, stride, down))
            channels = out
        setattr(net, f"layer{stage + 1}", nn.Sequential(*blocks))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for t, low, high in [(module.weight, 0.5, 1.5), (module.bias, -0.3, 0.3),
                                 (module.running_mean, -0.3, 0.3), (module.running_var, 0.5, 1.5)]:
                t.data.uniform_(low, high)
    out = {"net." + k: v.clone() for k, v in net.state_dict().items()}
    net.double().eval()
    with torch.no_grad():
        x = F.max_pool2d(net.bn1(net.conv1(images((2, 3, 41, 48)))).relu(), 3, 2, 1)
        layer2 = net.layer2(net.layer1(x))
        out |= {"layer2": layer2.float(), "layer3": net.layer3(layer2).float()}
    return out


if __name__ == "__main__":
    save_file(folded(sys.argv[1]), os.path.join(HERE, "resnet18_folded.safetensors"))
    save_file({k: v.contiguous() for k, v in small().items()}, os.path.join(HERE, "backbone_small.safetensors"))
