"""Makes ops_image.safetensors: convolution, max pooling, nearest resizing and depthwise convolution with their gradients, from PyTorch in f64.

Run: python ops_image.py   (beside the file it writes)
"""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(0)
out = {}


def record(name, fn, **inputs):
    inputs = {k: v.clone().requires_grad_() for k, v in inputs.items()}
    y = fn(**inputs)
    g = torch.randn_like(y)
    y.backward(g)
    out[f"{name}.y"], out[f"{name}.g"] = y.detach(), g
    for k, v in inputs.items():
        out[f"{name}.{k}"], out[f"{name}.d{k}"] = v.detach(), v.grad


def rand(*shape):
    return torch.randn(*shape, dtype=torch.float64)


# The name carries stride and padding.
for n, c, h, w, o, k, s, p in [
    (2, 3, 7, 8, 5, 3, 1, 1),
    (2, 3, 8, 7, 5, 3, 2, 1),
    (1, 3, 11, 12, 4, 7, 2, 3),
    (1, 5, 6, 5, 3, 1, 1, 0),
    (2, 5, 7, 6, 3, 1, 2, 0),
    (1, 2, 4, 5, 3, 3, 1, 3),
]:
    record(
        f"conv2d_k{k}_s{s}_p{p}",
        lambda x, w, b, s=s, p=p: F.conv2d(x, w, b, s, p),
        x=rand(n, c, h, w), w=rand(o, c, k, k), b=rand(o),
    )
for k, s, p, h, w in [(3, 2, 1, 9, 10), (1, 2, 0, 7, 8), (2, 2, 0, 5, 6)]:
    # Few distinct values, so that there are ties.
    record(f"max_pool2d_k{k}_s{s}_p{p}", lambda x, k=k, s=s, p=p: F.max_pool2d(x, k, s, p), x=rand(2, 3, h, w).mul(1.5).round())
for h, w, oh, ow in [(3, 4, 6, 8), (4, 5, 7, 9), (5, 7, 3, 4), (1, 62, 1, 14)]:
    record(f"upsample_{oh}_{ow}", lambda x, oh=oh, ow=ow: F.interpolate(x, size=(oh, ow), mode="nearest"), x=rand(1, 2, h, w))


def depthwise(x, w, b, s, p):
    """With p zeros on each side, or TensorFlow's SAME: ceil(size / s) outputs, the odd zero behind."""
    pads = [p] * 4
    if p is None:
        pads = []
        for size, k in zip(reversed(x.shape[2:]), reversed(w.shape[2:])):
            total = max((-(-size // s) - 1) * s + k - size, 0)
            pads += [total // 2, total - total // 2]
    return F.conv2d(F.pad(x, pads), w, b, s, groups=w.shape[0])


# A name without padding means SAME.
for n, c, h, w, k, s, p in [
    (2, 18, 7, 8, 3, 1, 1),
    (2, 5, 8, 7, 3, 2, 1),
    (1, 17, 9, 10, 5, 1, 2),
    (2, 3, 11, 12, 5, 2, 2),
    (2, 18, 7, 8, 3, 2, None),
    (1, 5, 12, 9, 5, 2, None),
]:
    record(
        f"depthwise_k{k}_s{s}" + ("" if p is None else f"_p{p}"),
        lambda x, w, b, s=s, p=p: depthwise(x, w, b, s, p),
        x=rand(n, c, h, w), w=rand(c, 1, k, k), b=rand(c),
    )
save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))
