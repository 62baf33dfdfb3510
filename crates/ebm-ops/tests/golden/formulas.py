"""Weights and inputs of golden values as formulas of the index and of the parameter's name, which tests/common/mod.rs repeats."""

import os
import sys
import zlib

import torch
from safetensors.torch import save_file


def formula(name, shape):
    """sin of a scrambled index, as float64: a hash of the name shifts it."""
    n = int(torch.tensor(shape).prod()) if len(shape) else 1
    phase = zlib.crc32(name.encode()) % 1000
    i = torch.arange(n, dtype=torch.int64)
    return torch.sin(((i * 7919 + phase * 104729) % 1000003).double() * 0.1).reshape(shape)


def value(name, shape):
    """The value of a parameter: convolution weights have the variance of Kaiming's initial values."""
    v = formula(name, shape)
    last = name.rsplit(".", 1)[-1]
    if last == "running_var":
        return 1.0 + 0.3 * v
    if last == "running_mean":
        return 0.1 * v
    if len(shape) == 4:
        fan_in = shape[1] * shape[2] * shape[3]
        return v * (2.0 / fan_in * 2.0) ** 0.5
    if last == "weight":
        return 0.5 + 0.2 * v
    return 0.1 * v


def fill(module):
    state = module.state_dict()
    for name, t in state.items():
        if not name.endswith("num_batches_tracked"):
            state[name] = value(name, tuple(t.shape)).to(t.dtype)
    module.load_state_dict(state)


def summary(t):
    """32 evenly spread elements, the sum and the sum of squares (float64)."""
    flat = t.detach().flatten().double()
    at = (torch.arange(32) * (flat.numel() - 1)) // 31
    return torch.cat([flat[at], flat.sum().reshape(1), (flat**2).sum().reshape(1)])


def path(name):
    """Beside the script that runs."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), name)


def save(name, tensors):
    save_file({k: v.contiguous() for k, v in tensors.items()}, path(f"{name}.safetensors"))
