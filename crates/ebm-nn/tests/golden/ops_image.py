"""Makes ops_image.safetensors: convolution, max pooling and nearest resizing with their gradients, from PyTorch in f64.

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
save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))
