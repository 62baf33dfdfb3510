"""Golden features of the folded 8-bit ResNet-50, from torch in float64.

Run: python resnet50_folded.py FILE (the weight file; writes beside itself). The images are a formula of the index, repeated in
tests/suite/resnet_file.rs, so that the file holds the features only.
"""

import os
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = (2, 3, 97, 64)


def images():
    i = torch.arange(torch.tensor(SHAPE).prod().item(), dtype=torch.int64)
    return torch.sin((i * 7919 % 1000003).double() * 0.1).reshape(SHAPE)


def decoded(path):
    with safe_open(path, "pt") as file:
        meta = file.metadata()
        return {k: file.get_tensor(k).double() * 2.0 ** -int(meta[k + ".frac"]) for k in file.keys()}


def main(path):
    w = decoded(path)

    def conv(x, name, stride=1, padding=0):
        return F.conv2d(x, w[name + ".weight"], w[name + ".bias"], stride, padding)

    x = F.max_pool2d(conv(images(), "conv1", 2, 3).relu(), 3, 2, 1)
    for stage, blocks in enumerate([3, 4, 6, 3], 1):
        for i in range(blocks):
            name = f"layer{stage}.{i}."
            stride = 2 if stage > 1 and i == 0 else 1
            y = conv(x, name + "conv1", stride).relu()
            y = conv(y, name + "conv2", 1, 1).relu()
            y = conv(y, name + "conv3")
            x = (y + (conv(x, name + "downsample.0", stride) if i == 0 else x)).relu()
    features = x.mean((2, 3))
    print(features.shape, features.abs().max(), features.std())
    save_file({"features": features.float()}, os.path.join(HERE, "resnet50_folded.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1])
