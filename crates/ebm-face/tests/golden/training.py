"""Losses, gradients and Adam's steps of every head, and of a small network end to end, by PyTorch in float64.

Run: python training.py (writes training.safetensors beside itself). The losses are those of the paper and its supplement, written
out; tests/suite/torch.rs compares. A case's settings are in the file's metadata, under its name.
"""

import json
import math
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torchvision.models.resnet import Bottleneck

torch.set_default_dtype(torch.float64)
HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, FEATURES, HIDDEN, STEPS = 4, 5, 6, 5


def branch(outputs, bias=True):
    return nn.ModuleDict({"fc1": nn.Linear(FEATURES, HIDDEN), "fc2": nn.Linear(HIDDEN, outputs, bias=bias)})


def through(layers, g_x):
    return layers["fc2"](layers["fc1"](g_x).relu())


class Baseline(nn.Module):
    """Branches side by side; CORAL has one score and a bias for each rank."""

    def __init__(self, branches, loss, ranks=0):
        super().__init__()
        for name, outputs in branches:
            self.add_module(name, branch(outputs, bias=not ranks))
        self.names, self.objective = [name for name, _ in branches], loss
        if ranks:
            self.ranks = nn.Module()
            self.ranks.bias = nn.Parameter(torch.linspace(0.9, -0.8, ranks))

    def forward(self, g_x, y):
        outputs = [through(getattr(self, name), g_x) for name in self.names]
        if hasattr(self, "ranks"):
            outputs = [outputs[0] + self.ranks.bias]
        return self.objective(*outputs, y)


class Logits(nn.Module):
    """A softmax of its own for each coordinate."""

    def __init__(self, dim, centers, variance_weight):
        super().__init__()
        self.logits = nn.ModuleList([branch(len(centers)) for _ in range(dim)])
        self.centers, self.variance_weight = torch.tensor(centers), variance_weight

    def forward(self, g_x, y):
        loss = 0
        for layers, target in zip(self.logits, y.T):
            logits = through(layers, g_x)
            p = logits.softmax(1)
            mean = p @ self.centers
            variance = (p * (self.centers - mean[:, None]) ** 2).sum(1)
            label = (target[:, None] - self.centers).abs().argmin(1)
            loss = loss + F.cross_entropy(logits, label, reduction="none") + 0.1 * (mean - target) ** 2
            loss = loss + self.variance_weight * variance
        return loss.mean()


class Energy(nn.Module):
    """Eq. 4 with given samples: f of the concatenation of g_x and g_y for each of them."""

    def __init__(self, dim, sigmas):
        super().__init__()
        self.fc1_y, self.fc2_y = nn.Linear(dim, 7), nn.Linear(7, 8)
        self.fc1_xy, self.fc2_xy = nn.Linear(FEATURES + 8, HIDDEN), nn.Linear(HIDDEN, 1)
        self.sigmas = sigmas
        count = 16
        pick = torch.tensor(sigmas)[torch.arange(count) % len(sigmas)]
        self.offsets = pick[None, :, None] * torch.randn(BATCH, count, dim)

    def f(self, g_x, y):
        g_y = self.fc2_y(self.fc1_y(y).relu()).relu()
        g_x = g_x[:, None].expand(-1, y.shape[1], -1)
        return self.fc2_xy(self.fc1_xy(torch.cat([g_x, g_y], 2)).relu())[:, :, 0]

    def forward(self, g_x, y):
        samples = y[:, None] + self.offsets
        dim = y.shape[1]
        parts = [
            -0.5 * (self.offsets**2).sum(2) / s**2 - dim * math.log(s * math.sqrt(2 * math.pi)) for s in self.sigmas
        ]
        log_q = torch.stack(parts).logsumexp(0) - math.log(len(self.sigmas))
        log_z = (self.f(g_x, samples) - log_q).logsumexp(1) - math.log(samples.shape[1])
        return (log_z - self.f(g_x, y[:, None])[:, 0]).mean()


def l2(mean, y):
    return ((mean - y) ** 2).sum(1).mean()


def huber(mean, y):
    d = (mean - y).abs()
    return torch.where(d < 1, 0.5 * d**2, d - 0.5).sum(1).mean()


def gaussian(mean, s, y):
    return ((y - mean) ** 2 * torch.exp(-s) + s).sum(1).mean()


def laplace(mean, s, y):
    return ((y - mean).abs() * torch.exp(-s) + s).sum(1).mean()


def joint_laplace(mean, s, y):
    return (((y - mean) ** 2 * torch.exp(-s)).sum(1).sqrt() + s.sum(1)).mean()


def above(y, ranks):
    """Whether y's rank, the nearest, is above each rank but the last."""
    return ((y - ranks).abs().argmin(1)[:, None] > torch.arange(len(ranks) - 1)).double()


def niu(logits, y):
    answers = above(y, torch.tensor(CENTERS)).long()
    return F.cross_entropy(logits.reshape(len(y), -1, 2).flatten(0, 1), answers.flatten(), reduction="sum") / len(y)


def coral(logits, y):
    return F.binary_cross_entropy_with_logits(logits, above(y, torch.tensor(CENTERS)), reduction="sum") / len(y)


CENTERS = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
UNIFORM = {"uniform": {"first": -3.0, "step": 1.0, "count": 7}}


def softmax(dim, variance_weight):
    kind = {"kind": "softmax", "dim": dim, "l2_weight": 0.1, "variance_weight": variance_weight, "bins": UNIFORM}
    return kind, lambda: Logits(dim, CENTERS, variance_weight)


def baseline(kind, branches, loss, **more):
    return kind, lambda: Baseline(branches, loss, **more)


def energy(dim, sigmas):
    return {"kind": "energy", "dim": dim, "sigmas": sigmas}, lambda: Energy(dim, sigmas)


def direct(dim, loss, objective):
    return baseline({"kind": "direct", "dim": dim, "loss": loss}, [("mean", dim)], objective)


def two(kind, dim, names, loss):
    return baseline({"kind": kind, "dim": dim}, [(name, dim) for name in names], loss)


def ordinal(head, branches, loss, **more):
    return baseline({"kind": "ordinal", "head": head, "ranks": UNIFORM}, branches, loss, **more)


LAPLACE = ["mean", "log_scale"]
CASES = {
    "direct_l2": direct(1, "l2", l2),
    "direct_l2_of_a_pose": direct(3, "l2", l2),
    "direct_huber_of_a_pose": direct(3, {"huber": {"beta": 1.0}}, huber),
    "gaussian": two("gaussian", 1, ["mean", "log_variance"], gaussian),
    "gaussian_of_a_pose": two("gaussian", 3, ["mean", "log_variance"], gaussian),
    "laplace": two("laplace", 1, LAPLACE, laplace),
    "laplace_of_a_pose": two("joint_laplace", 3, LAPLACE, joint_laplace),
    "softmax_ce_l2": softmax(1, 0.0),
    "softmax_ce_l2_var_of_a_pose": softmax(3, 0.05),
    "niu": ordinal("niu", [("logits", 12)], niu),
    "cao": ordinal("coral", [("score", 1)], coral, ranks=6),
    "energy": energy(1, [0.1, 2.0]),
    "energy_of_a_pose": energy(3, [1.0, 4.0]),
}


def heads(out, settings):
    for number, (name, (kind, build)) in enumerate(CASES.items()):
        torch.manual_seed(number)
        net = build()
        g_x = (2 * torch.randn(BATCH, FEATURES)).requires_grad_()
        y = 3 * torch.rand(BATCH, kind.get("dim", 1)) - 1.5
        settings[name] = json.dumps(kind)
        out |= {f"{name}/g_x": g_x.detach().clone(), f"{name}/y": y}
        if hasattr(net, "offsets"):
            out[f"{name}/samples"] = y[:, None] + net.offsets
        initial = {key: p.detach().clone() for key, p in net.named_parameters()}
        loss = net(g_x, y)
        loss.backward()
        out |= {f"{name}/loss": loss.detach().reshape(1), f"{name}/gradient/g_x": g_x.grad}
        for key, p in net.named_parameters():
            out |= {f"{name}/initial/{key}": initial[key], f"{name}/gradient/{key}": p.grad.clone()}
        # Coupled weight decay, and a tenth of the learning rate from the fourth step on.
        adam = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.001)
        schedule = torch.optim.lr_scheduler.MultiStepLR(adam, [3], 0.1)
        losses = []
        for _ in range(STEPS):
            adam.zero_grad()
            loss = net(g_x.detach(), y)
            loss.backward()
            losses.append(loss.item())
            adam.step()
            schedule.step()
        out[f"{name}/losses"] = torch.tensor(losses)
        out |= {f"{name}/after/{key}": p.detach().clone() for key, p in net.named_parameters()}


class Trunk(nn.Module):
    """A ResNet of one bottleneck a stage, with torchvision's names, and the mean of its last map."""

    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        channels = width
        for stage in range(4):
            planes, stride = width * 2**stage, 1 if stage == 0 else 2
            down = nn.Sequential(
                nn.Conv2d(channels, 4 * planes, 1, stride, bias=False), nn.BatchNorm2d(4 * planes)
            )
            self.add_module(f"layer{stage + 1}", nn.Sequential(Bottleneck(channels, planes, stride, down)))
            channels = 4 * planes

    def forward(self, x):
        x = F.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3))


def end_to_end(out):
    torch.manual_seed(100)
    trunk, fc1, fc2 = Trunk(2), nn.Linear(64, HIDDEN), nn.Linear(HIDDEN, 1)
    images, y = torch.randn(3, 3, 33, 33), 30 + 5 * torch.randn(3, 1)
    layers = {"trunk": trunk, "head.mean.fc1": fc1, "head.mean.fc2": fc2}
    parameters = {f"{prefix}.{key}": p for prefix, part in layers.items() for key, p in part.named_parameters()}
    out |= {f"end_to_end/initial/{key}": p.detach().clone().float() for key, p in parameters.items()}
    for key, p in parameters.items():
        p.data = out[f"end_to_end/initial/{key}"].double()
    images = images.float().double()
    loss = l2(fc2(fc1(trunk(images)).relu()), y)
    loss.backward()
    out |= {f"end_to_end/gradient/{key}": p.grad.float() for key, p in parameters.items()}
    buffers = {key: b.float() for key, b in trunk.named_buffers() if "running" in key}
    out |= {f"end_to_end/after/trunk.{key}": b for key, b in buffers.items()}
    out |= {"end_to_end/images": images.float(), "end_to_end/y": y, "end_to_end/loss": loss.detach().reshape(1)}


if __name__ == "__main__":
    tensors, settings = {}, {}
    heads(tensors, settings)
    end_to_end(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, os.path.join(HERE, "training.safetensors"), settings)
    for name in settings:
        print(name, tensors[f"{name}/losses"].tolist())
