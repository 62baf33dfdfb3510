"""Golden features of ConvNeXt and DINOv2, in float64, from torchvision and from torch's layers.

Run: python backbones.py (writes beside itself). Weights and images are formulas of the index and of the name, repeated in
tests/suite/backbones.rs, so that the file holds the features only.
"""

import os
import zlib

import torch
import torch.nn.functional as F
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
    if last in ("cls_token", "pos_embed"):
        return 0.5 * v
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


def dinov2(depth, width, heads):
    """The published network: exact GELU, epsilon 1e-6, no interpolation at 518 x 518."""
    side, patch = 518, 14

    def get(name, *shape):
        return value(name, shape)

    def linear(x, name, i, o):
        return F.linear(x, get(name + ".weight", o, i), get(name + ".bias", o))

    def norm(x, name):
        return F.layer_norm(x, (width,), get(name + ".weight", width), get(name + ".bias", width), 1e-6)

    x = formula("images", (1, 3, side, side))
    w, b = get("patch_embed.proj.weight", width, 3, patch, patch), get("patch_embed.proj.bias", width)
    x = F.conv2d(x, w, b, patch).flatten(2).transpose(1, 2)
    x = torch.cat([get("cls_token", 1, 1, width), x], 1) + get("pos_embed", 1, (side // patch) ** 2 + 1, width)
    for i in range(depth):
        name = f"blocks.{i}."
        y = linear(norm(x, name + "norm1"), name + "attn.qkv", width, 3 * width)
        q, k, v = y.reshape(1, -1, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, -1, width)
        x = x + get(name + "ls1.gamma", width) * linear(y, name + "attn.proj", width, width)
        y = F.gelu(linear(norm(x, name + "norm2"), name + "mlp.fc1", width, 4 * width))
        x = x + get(name + "ls2.gamma", width) * linear(y, name + "mlp.fc2", 4 * width, width)
    return norm(x, "norm")[:, 0]


if __name__ == "__main__":
    with torch.no_grad():
        out = {"convnext_atto": convnext_atto(), "dinov2": dinov2(2, 12, 3)}
    for name, t in out.items():
        print(name, tuple(t.shape), float(t.abs().max()), float(t.std()))
    save_file(out, os.path.join(HERE, "backbones.safetensors"))
