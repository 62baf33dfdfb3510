"""Golden losses and gradients of the heads of Table 2, from tests/suite/heads.rs's formulas and draws.

    EBM_WRITE_NOISE=heads_noise.safetensors cargo test -p ebm-detect --test heads the_draws
    python make_heads.py heads_noise.safetensors heads.safetensors

Written from the definitions: the heads as torch modules, PrRoIPool as two dense products, float64 throughout.
"""
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file

from formula import hashed

CLASSES, WIDTH, CHANNELS, BINS = 7, 16, 4, 7
BOXES = torch.tensor([[5.0, 8, 120, 90], [20, 30, 40, 52], [11, 70, 90, 140]], dtype=torch.float64)
IMAGES, LABELS = [0, 1, 1], torch.tensor([2, 1, 5])
SIGMAS = [0.0375, 0.075, 0.15]
ROWS, TOTAL = 5, 12
ROW_LABELS = torch.tensor([1, 6, 3, 3, 2])


def values(name, shape, bound):
    numbers = (bound * (2 * hashed(name, int(np.prod(shape))) - 1)).astype(np.float32)
    return torch.from_numpy(numbers.astype(np.float64)).reshape(shape)


def parameter(name, shape):
    bound = 0.1 if name.endswith("bias") else 0.5
    return values(name, shape, bound).requires_grad_()


def linear(prefix, inputs, outputs, parameters):
    for name, shape in [("weight", (outputs, inputs)), ("bias", (outputs,))]:
        parameters[f"{prefix}.{name}"] = parameter(f"{prefix}.{name}", shape)
    return lambda x: F.linear(x, parameters[f"{prefix}.weight"], parameters[f"{prefix}.bias"])


def integral(t):
    t = t.clamp(-1, 1)
    return 0.5 + t - 0.5 * t * t.abs()


def tents(low, high, length):
    edges = low + (high - low) * torch.linspace(0, 1, BINS + 1, dtype=torch.float64)
    up_to = integral(edges[:, None] - torch.arange(length)[None, :])
    return (up_to[1:] - up_to[:-1]) * BINS / (high - low)


def pool(pyramid, box, image):
    side = ((box[2] - box[0]) * (box[3] - box[1])).clamp(min=0).sqrt()
    level = int(min(max(math.floor(4 + math.log2(float(side) / 112 + 1e-6)), 2), 5))
    x0, y0, x1, y1 = box / 2**level
    feature = pyramid[level - 2][image]
    wx, wy = tents(x0, x1, feature.shape[2]), tents(y0, y1, feature.shape[1])
    return torch.einsum("ih,chw,jw->cij", wy, feature, wx).flatten()


def confidence(method, noise):
    parameters = {}
    fc6 = linear("roi_heads.energy_head.fc6", CHANNELS * BINS * BINS, WIDTH, parameters)
    fc7 = linear("roi_heads.energy_head.fc7", WIDTH, WIDTH, parameters)
    last = linear("roi_heads.energy_predictor", WIDTH, CLASSES, parameters)
    pyramid = [values(f"p{i}", (2, CHANNELS, s, s), 1.0) for i, s in zip(range(2, 6), [40, 20, 10, 5])]
    size = (BOXES[:, 2:] - BOXES[:, :2])[:, None]
    centre = (BOXES[:, 2:] + BOXES[:, :2])[:, None] / 2
    y_i = torch.cat([centre / size, size.log()], 2)
    samples = torch.from_numpy(noise[method].astype(np.float64))
    y = torch.cat([y_i, samples], 1)
    half = y[..., 2:].exp() / 2
    boxes = torch.cat([y[..., :2] * size - half, y[..., :2] * size + half], 2)
    rows = [pool(pyramid, b, IMAGES[i]) for i in range(len(boxes)) for b in boxes[i]]
    f = last(fc7(fc6(torch.stack(rows)).relu()).relu()).reshape(*y.shape[:2], CLASSES)
    f = f.gather(2, LABELS[:, None, None].expand(-1, y.shape[1], 1))[..., 0]
    if method == "ebm":
        normal = [
            (-((samples - y_i) ** 2) / (2 * s * s) - math.log(s * math.sqrt(2 * math.pi))).sum(2) for s in SIGMAS
        ]
        log_q = torch.stack(normal).logsumexp(0) - math.log(len(SIGMAS))
        log_z = (f[:, 1:] - log_q).logsumexp(1) - math.log(samples.shape[1])
        return (log_z - f[:, 0]).mean(), parameters
    true = BOXES[:, None]
    low, high = torch.maximum(boxes[..., :2], true[..., :2]), torch.minimum(boxes[..., 2:], true[..., 2:])
    shared = (high - low).clamp(min=0).prod(2)
    area = lambda b: (b[..., 2:] - b[..., :2]).prod(-1)
    target = 2 * shared / (area(boxes) + area(true) - shared) - 1
    if method == "iou_net":
        f, target = f[:, 1:], target[:, 1:]
    return F.smooth_l1_loss(f, target, beta=1.0), parameters


def own_class(out, labels, n):
    return out.reshape(len(labels), -1, n)[torch.arange(len(labels)), labels]


def density(method, noise):
    parameters, prefix = {}, "roi_heads.box_density"
    hidden, targets = values("hidden", (ROWS, WIDTH), 1.0), values("targets", (ROWS, 4), 2.0)
    if method == "cvae":
        prior = linear(f"{prefix}.prior", WIDTH, 20, parameters)(hidden)
        posterior = linear(f"{prefix}.posterior", WIDTH + 4, 20, parameters)(torch.cat([hidden, targets], 1))
        mean = own_class(linear(f"{prefix}.mean", WIDTH, 4 * CLASSES, parameters)(hidden), ROW_LABELS, 4)
        log_variance = own_class(
            linear(f"{prefix}.log_variance", WIDTH, 4 * CLASSES, parameters)(hidden), ROW_LABELS, 4
        )
        parameters[f"{prefix}.from_z"] = parameter(f"{prefix}.from_z", (CLASSES, 80))
        from_z = parameters[f"{prefix}.from_z"][ROW_LABELS].reshape(ROWS, 10, 8)
        eps = torch.from_numpy(noise["cvae"].astype(np.float64))
        z = posterior[:, None, :10] + (posterior[:, None, 10:] / 2).exp() * eps
        out = torch.cat([mean, log_variance], 1)[:, None] + z @ from_z
        likelihood = torch.distributions.Normal(out[..., :4], (out[..., 4:] / 2).exp())
        log_p = likelihood.log_prob(targets[:, None]).sum(2).mean(1)
        gaussian = lambda g: torch.distributions.Normal(g[:, :10], (g[:, 10:] / 2).exp())
        kl = torch.distributions.kl_divergence(gaussian(posterior), gaussian(prior)).sum(1)
        return (kl - log_p).sum() / TOTAL, parameters
    k = {"mixture2": 2, "mixture4": 4, "mixture8": 8}.get(method, 1)
    mean = linear(f"{prefix}.mean", WIDTH, 4 * CLASSES * k, parameters)(hidden)
    log_variance = linear(f"{prefix}.log_variance", WIDTH, 4 * CLASSES * k, parameters)(hidden)
    mean, log_variance = (own_class(t, ROW_LABELS, 4 * k).reshape(ROWS, k, 4) for t in (mean, log_variance))
    d = targets[:, None] - mean
    if method == "gaussian":
        loss = (d**2 / log_variance.exp() + log_variance).sum((1, 2))
    elif method == "laplace":
        loss = LAPLACE(d, log_variance)
    else:
        weights = linear(f"{prefix}.weights", WIDTH, k, parameters)(hidden)
        components = torch.distributions.Independent(torch.distributions.Normal(mean, (log_variance / 2).exp()), 1)
        mixture = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=weights), components)
        loss = -mixture.log_prob(targets)
    return loss.sum() / TOTAL, parameters


def LAPLACE(d, s):
    """|d| / e^s + s, the published code's form."""
    return (d.abs() / s.exp() + s).sum((1, 2))


noise = load_file(sys.argv[1])
golden = {}
for method in ["gaussian", "mixture2", "mixture4", "mixture8", "cvae", "laplace", "iou_net", "iou_net_star", "ebm"]:
    make = confidence if method in ("iou_net", "iou_net_star", "ebm") else density
    loss, parameters = make(method, noise)
    loss.backward()
    golden[f"{method}/loss"] = np.array([loss.item()], dtype=np.float32)
    for name, tensor in parameters.items():
        golden[f"{method}/{name}"] = tensor.grad.numpy().astype(np.float32)
save_file(golden, sys.argv[2])
print({name: float(value[0]) for name, value in golden.items() if name.endswith("/loss")})
