"""Objectives of a small network and their gradients in its parameters, by PyTorch in float64.

The samples and their densities are given, as a proposal would draw them. Score matching differentiates twice.
Writes objectives.toml beside this file:  /path/to/python objectives.py
"""

import math
from pathlib import Path

import torch

torch.set_default_dtype(torch.float64)

B, M, D = 2, 3, 2


def waves(*shape, phase, scale=1.0):
    return (scale * torch.sin(0.7 * torch.arange(math.prod(shape)) + phase)).reshape(shape)


parameters = {
    "w": waves(4, 3, phase=0.3),
    "b": waves(1, 3, phase=1.0),
    "v": waves(3, 1, phase=2.0),
    "u": waves(2, 1, phase=0.5),
}
x = torch.tensor([[0.4, -0.6], [1.2, 0.1]])
y = torch.tensor([[0.3, -0.2], [-1.0, 0.8]])
samples = y[:, None] + waves(B, M, D, phase=0.2, scale=0.9)
log_q = waves(B, M, phase=1.7) - 1.0
log_q_target = waves(B, 1, phase=0.1) + 0.5
log_label = waves(B, M, phase=2.5) - 1.0


def f(p, y):  # (B, M, D) -> (B, M)
    inputs = torch.cat([x[:, None].expand(-1, y.shape[1], -1), y], 2)
    return (torch.tanh(inputs @ p["w"] + p["b"]) @ p["v"])[:, :, 0]


def log_mean_exp(t):
    return torch.logsumexp(t, 1) - math.log(t.shape[1])


def ml_is(p):
    return (log_mean_exp(f(p, samples) - log_q) - f(p, y[:, None])[:, 0]).mean()


def kld_is(normalize):
    def loss(p):
        weights = torch.exp(log_label - log_q)
        if normalize:
            weights = weights / weights.mean(1, keepdim=True)
        return (log_mean_exp(f(p, samples) - log_q) - (weights * f(p, samples)).mean(1)).mean()

    return loss


def ranking(target, rivals):
    return -torch.log_softmax(torch.cat([target, rivals], 1), 1)[:, 0].mean()


def nce(p):
    return ranking(f(p, y[:, None]) - log_q_target, f(p, samples) - log_q)


def info_nce(temperature):
    return lambda p: ranking(f(p, y[:, None]) / temperature, f(p, samples) / temperature)


def snl(p):
    b = x @ p["u"]
    target = f(p, y[:, None])[:, 0]
    mass = torch.exp(f(p, samples) - b - log_q).mean(1)
    return (b[:, 0] - target + mass - 1).mean()


def score_matching(p):
    at = y[:, None].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(f(p, at).sum(), at, create_graph=True)
    trace = sum(torch.autograd.grad(gradient[..., d].sum(), at, create_graph=True)[0][..., d] for d in range(D))
    return (trace + 0.5 * (gradient**2).sum(2)).mean()


cases = {
    "ml_is": ml_is,
    "kld_is": kld_is(False),
    "kld_is_normalized": kld_is(True),
    "nce": nce,
    "info_nce": info_nce(1.0),
    "info_nce_temperature": info_nce(0.3),
    "snl": snl,
    "sm": score_matching,
}

lines = [f"# By objectives.py, with torch {torch.__version__.split('+')[0]}", ""]
inputs = {"x": x, "y": y, "samples": samples, "log_q": log_q, "log_q_target": log_q_target, "log_label": log_label}
for name, value in {**inputs, **parameters}.items():
    lines.append(f"{name} = {value.tolist()}")
for name, loss in cases.items():
    p = {key: value.clone().requires_grad_() for key, value in parameters.items()}
    value = loss(p)
    gradients = torch.autograd.grad(value, list(p.values()), allow_unused=True)
    lines += ["", f"[{name}]", f"loss = {value.item()!r}"]
    lines += [f"{key} = {g.flatten().tolist()}" for key, g in zip(p, gradients) if g is not None]
Path(__file__).with_suffix(".toml").write_text("\n".join(lines) + "\n")
