"""Losses, their gradients, means and log-densities of the parametric models, by PyTorch in float64.

Writes parametric.toml beside this file:  /path/to/python parametric.py
"""

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Independent, Laplace, MixtureSameFamily, Normal, kl_divergence

torch.set_default_dtype(torch.float64)


def waves(*shape, phase=0.0, scale=1.0):
    count = math.prod(shape)
    return (scale * torch.sin(0.7 * torch.arange(count) + phase)).reshape(shape)


def normal(mean, log_variance):
    return Independent(Normal(mean, torch.exp(0.5 * log_variance)), 1)


def halves(outputs):
    return outputs.chunk(2, dim=-1)


def l2(outputs, y):
    return ((outputs - y) ** 2).sum(1).mean(), outputs, None


def l1(outputs, y):
    return (outputs - y).abs().sum(1).mean(), outputs, None


def huber(beta):
    def model(outputs, y):
        return F.smooth_l1_loss(outputs, y, beta=beta, reduction="none").sum(1).mean(), outputs, None

    return model


def gaussian(outputs, y):
    mean, s = halves(outputs)
    loss = ((y - mean) ** 2 * torch.exp(-s) + s).sum(1).mean()
    return loss, mean, lambda at: normal(mean[:, None], s[:, None]).log_prob(at)


def laplace(outputs, y):
    mean, s = halves(outputs)
    loss = ((y - mean).abs() / s.exp() + s).sum(1).mean()
    return loss, mean, lambda at: Laplace(mean[:, None], s.exp()[:, None]).log_prob(at).sum(-1)


def joint_laplace(outputs, y):
    mean, s = halves(outputs)
    dim = mean.shape[1]
    sphere = 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)
    log_constant = math.log(sphere * 2**dim * math.gamma(dim))

    def log_prob(at):
        r = (((at - mean[:, None]) ** 2) / s.exp()[:, None]).sum(-1).sqrt()
        return -0.5 * r - 0.5 * s.sum(1, keepdim=True) - log_constant

    loss = ((((y - mean) ** 2) / s.exp()).sum(1).sqrt() + s.sum(1)).mean()
    return loss, mean, log_prob


def mixture(components):
    def model(outputs, y):
        batch, dim = y.shape
        logits, rest = outputs[:, :components], outputs[:, components:]
        means, s = (part.reshape(batch, components, dim) for part in halves(rest))
        density = MixtureSameFamily(Categorical(logits=logits), normal(means, s))

        def log_prob(at):
            return torch.stack([density.log_prob(at[:, m]) for m in range(at.shape[1])], dim=1)

        return -density.log_prob(y).mean(), density.mean, log_prob

    return model


def conditional_vae(latent, samples):
    def model(outputs, y):
        batch, dim = y.shape
        prior, posterior, decoded = outputs.split([2 * latent, 2 * latent, 2 * dim * samples], dim=1)
        means, s = halves(decoded.reshape(batch, samples, 2 * dim))
        kl = kl_divergence(normal(*halves(posterior)), normal(*halves(prior)))
        loss = (kl - normal(means, s).log_prob(y[:, None]).mean(1)).mean()
        density = MixtureSameFamily(Categorical(logits=torch.zeros(batch, samples)), normal(means, s))

        def log_prob(at):
            return torch.stack([density.log_prob(at[:, m]) for m in range(at.shape[1])], dim=1)

        return loss, means.mean(1), log_prob

    return model


def softmax(centers, l2_weight, variance_weight):
    centers = torch.tensor(centers)

    def model(outputs, y):
        batch, dim = y.shape
        logits = outputs.reshape(batch, dim, len(centers))
        labels = (y[:, :, None] - centers).abs().argmin(2)
        p = logits.softmax(2)
        expectation = (p * centers).sum(2)
        variance = (p * (centers - expectation[:, :, None]) ** 2).sum(2)
        ce = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").reshape(batch, dim)
        loss = ce + l2_weight * (expectation - y) ** 2 + variance_weight * variance

        def log_prob(at):  # the bins here have the width 1, and the candidates lie inside them
            bins = (at[:, :, :, None] - centers).abs().argmin(3)
            return logits.log_softmax(2)[:, None].expand(-1, at.shape[1], -1, -1).gather(3, bins[..., None]).sum((2, 3))

        return loss.sum(1).mean(), expectation, log_prob

    return model


def levels(y, ranks):
    index = (y - ranks).abs().argmin(1, keepdim=True)
    return (index > torch.arange(len(ranks) - 1)).double()


def niu(ranks):
    ranks = torch.tensor(ranks)

    def model(outputs, y):
        pairs = outputs.reshape(len(y), -1, 2).log_softmax(2)
        answers = levels(y, ranks)
        loss = -(pairs[:, :, 1] * answers + pairs[:, :, 0] * (1 - answers)).sum(1).mean()
        return loss, ranks[0] + (pairs[:, :, 1].exp() * ranks.diff()).sum(1, keepdim=True), None

    return model


def coral(ranks):
    ranks = torch.tensor(ranks)

    def model(outputs, y):
        loss = F.binary_cross_entropy_with_logits(outputs, levels(y, ranks), reduction="none").sum(1).mean()
        above = outputs.sigmoid()
        ones = torch.ones(len(y), 1)
        p = torch.cat([ones, above], 1) - torch.cat([above, 0 * ones], 1)

        def log_prob(at):  # ranks one apart
            return p.log().gather(1, (at - ranks).abs().argmin(2))

        return loss, ranks[0] + (above * ranks.diff()).sum(1, keepdim=True), log_prob

    return model


CENTERS = [-1.0, 0.0, 1.0, 2.0]
BINS = f"bins.centers = {CENTERS}"
DESCENDING = torch.tensor([[1.2, 0.4, -0.9], [0.3, 0.1, 0.097]])

# name, settings in TOML, model, outputs, targets
CASES = [
    ("l2", 'kind = "direct"\ndim = 2\nloss = "l2"', l2, waves(3, 2), 2),
    ("l1", 'kind = "direct"\ndim = 2\nloss = "l1"', l1, waves(3, 2), 2),
    ("huber", 'kind = "direct"\ndim = 2\nloss.huber.beta = 1.0', huber(1.0), waves(3, 2, scale=2.0), 2),
    ("huber_half", 'kind = "direct"\ndim = 2\nloss.huber.beta = 0.5', huber(0.5), waves(3, 2), 2),
    ("gaussian", 'kind = "gaussian"\ndim = 2', gaussian, waves(3, 4), 2),
    ("laplace", 'kind = "laplace"\ndim = 2', laplace, waves(3, 4, phase=0.2), 2),
    ("joint_laplace", 'kind = "joint_laplace"\ndim = 3', joint_laplace, waves(3, 6), 3),
    ("mixture", 'kind = "mixture_of_gaussians"\ndim = 2\ncomponents = 3', mixture(3), waves(3, 15), 2),
    (
        "conditional_vae",
        'kind = "conditional_vae"\ndim = 2\nlatent_dim = 2\nnum_samples = 3',
        conditional_vae(2, 3),
        waves(3, 20),
        2,
    ),
    (
        "softmax_ce_l2",
        f'kind = "softmax"\ndim = 2\nl2_weight = 0.1\nvariance_weight = 0.0\n{BINS}',
        softmax(CENTERS, 0.1, 0.0),
        waves(3, 8, scale=2.0),
        2,
    ),
    (
        "softmax_ce_l2_var",
        f'kind = "softmax"\ndim = 2\nl2_weight = 0.1\nvariance_weight = 0.05\n{BINS}',
        softmax(CENTERS, 0.1, 0.05),
        waves(3, 8, scale=2.0),
        2,
    ),
    ("niu", f'kind = "ordinal"\nhead = "niu"\nranks.centers = {CENTERS}', niu(CENTERS), waves(2, 6, scale=2.0), 1),
    ("coral", f'kind = "ordinal"\nhead = "coral"\nranks.centers = {CENTERS}', coral(CENTERS), DESCENDING, 1),
]


def toml(tensor):
    return repr(tensor.detach().tolist())


def main():
    lines = ["# By parametric.py, with torch " + torch.__version__.split("+")[0]]
    for name, settings, model, outputs, dim in CASES:
        outputs = outputs.clone().requires_grad_()
        y = waves(len(outputs), dim, phase=1.5, scale=1.3)
        at = waves(len(outputs), 2, dim, phase=0.4, scale=1.3)
        loss, mean, log_prob = model(outputs, y)
        loss.backward()
        lines += ["", "[[case]]", f'name = "{name}"', f"outputs = {toml(outputs)}", f"y = {toml(y)}"]
        lines += [f"at = {toml(at)}", f"loss = {loss.item()!r}", f"gradient = {toml(outputs.grad)}"]
        lines += [f"mean = {toml(mean)}"]
        if log_prob is not None:
            lines += [f"log_prob = {toml(log_prob(at))}"]
        lines += ["[case.baseline]", settings]
    Path(__file__).with_suffix(".toml").write_text("\n".join(lines) + "\n")


main()
