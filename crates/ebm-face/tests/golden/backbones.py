"""Golden features of ConvNeXt, in float64, from torchvision.

Run: python backbones.py (writes beside itself). Weights and images are formulas of the index and of the name, repeated in
tests/suite/backbones.rs, so that the file holds the features only.
"""

import os
import zlib

import torch
from safetensors.torch import save_file
from torchvision.models.convnext import CNBlockConfig, ConvNeXt

HERE = os.path.dirname(os.path.abspath(__file__))


def formula(name, shape):
    """sin of a scrambled index, as float64: a hash of the name shifts it."""
    n = int(torch.tensor(shape).prod())
    phase = zlib.crc32(name.encode()) % 1000
    i = torch.arange(n, dtype=torch.int64)
    return torch.sin(((i * 7919 + phase * 104729) % 1000003).double() * 0.1).reshape(shape)


def value(name, shape):
    """The value of a parameter: with the variance of common initial values."""
    v = formula(name, shape)
    last = name.rsplit(".", 1)[-1]
    if last == "gamma":
        return 0.5 + 0.2 * v
    if len(shape) > 1:
        fan_in = int(torch.tensor(shape[1:]).prod())
        return v * (2.0 / fan_in) ** 0.5
    return 1.0 + 0.2 * v if last == "weight" else 0.1 * v


def timm_name(name):
    """timm's name of a parameter of torchvision's ConvNeXt."""
    parts = name.split(".")
    if parts[0] == "classifier":
        return ".".join(["head.norm", parts[2]])
    place = int(parts[1])
    if place == 0:
        return ".".join(["stem", parts[2], parts[3]])
    stage, block = (place - 1) // 2, parts[2]
    if place % 2 == 0:
        return f"stages.{place // 2}.downsample.{block}.{parts[3]}"
    inner = {"0": "conv_dw", "2": "norm", "3": "mlp.fc1", "5": "mlp.fc2"}
    tail = "gamma" if parts[3] == "layer_scale" else f"{inner[parts[4]]}.{parts[5]}"
    return f"stages.{stage}.blocks.{block}.{tail}"


def convnext_atto():
    channels, depths = [40, 80, 160, 320], [2, 2, 6, 2]
    after = channels[1:] + [None]
    setting = [CNBlockConfig(c, n, d) for c, n, d in zip(channels, after, depths)]
    net = ConvNeXt(setting, stochastic_depth_prob=0.0).double().eval()
    state = {}
    for name, t in net.state_dict().items():
        if name.startswith("classifier.2"):
            state[name] = t
        else:
            timm = timm_name(name)
            state[name] = value(timm, tuple(t.shape) if not timm.endswith("gamma") else (t.shape[0],)).reshape(t.shape)
    net.load_state_dict(state)
    net.classifier[2] = torch.nn.Identity()
    return net(formula("images", (2, 3, 96, 64)))


if __name__ == "__main__":
    with torch.no_grad():
        out = {"convnext_atto": convnext_atto()}
    for name, t in out.items():
        print(name, tuple(t.shape), float(t.abs().max()), float(t.std()))
    save_file(out, os.path.join(HERE, "backbones.safetensors"))
