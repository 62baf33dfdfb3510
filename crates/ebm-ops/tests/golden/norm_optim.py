"""Golden values of batch normalisation and optimisers, from torch.

Run: python norm_optim.py (writes norm.safetensors and optim.safetensors beside itself).
"""

import torch

from formulas import fill, formula, save

torch.set_num_threads(2)


def batch_norm():
    out = {}
    for name, shape in {"flat": (5, 3), "maps": (3, 4, 5, 7)}.items():
        bn = (torch.nn.BatchNorm1d if len(shape) == 2 else torch.nn.BatchNorm2d)(shape[1]).double()
        fill(bn)
        x = (formula("x", shape) * 2 + 3).requires_grad_()
        for step in range(2):
            y = bn(x)
        (y * formula("out", shape)).sum().backward()
        out[f"{name}.y"], out[f"{name}.dx"] = y.detach(), x.grad
        out[f"{name}.dweight"], out[f"{name}.dbias"] = bn.weight.grad, bn.bias.grad
        out[f"{name}.running_mean"], out[f"{name}.running_var"] = bn.running_mean.clone(), bn.running_var.clone()
        out[f"{name}.eval"] = bn.eval()(x).detach()
    save("norm", out)


def optimisers():
    out = {}
    shapes = {"a.weight": (5, 7), "a.bias": (5,), "b.weight": (3, 2, 3, 3)}
    make = {
        "sgd": lambda groups: torch.optim.SGD(groups, lr=0.01, momentum=0.9),
        "adam": lambda groups: torch.optim.Adam(groups, lr=0.01),
    }
    for name, optimiser in make.items():
        params = {k: torch.nn.Parameter(formula(k, s)) for k, s in shapes.items()}
        groups = [
            {"params": [p], "lr": 0.02, "weight_decay": 0.0} if k.endswith("bias") else {"params": [p], "weight_decay": 0.05}
            for k, p in params.items()
        ]
        opt = optimiser(groups)
        for step in range(10):
            for k, p in params.items():
                # b.weight has no gradient in the first three steps.
                p.grad = None if k == "b.weight" and step < 3 else formula(f"{k}.grad{step}", shapes[k])
            opt.step()
        for k, p in params.items():
            out[f"{name}.{k}"] = p.detach()
    p = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    q = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    p.grad, q.grad = formula("p", (4,)) * 5, formula("q", (3,)) * 5
    out["clip.norm"] = torch.nn.utils.clip_grad_norm_([p, q], 2.0).reshape(1)
    out["clip.p"], out["clip.q"] = p.grad, q.grad
    save("optim", out)


if __name__ == "__main__":
    batch_norm()
    optimisers()
    for make, gradients in [
        (lambda p: torch.optim.Adam(p, 1e-3), [0.5, -0.2, 0.1]),
        (lambda p: torch.optim.Adam(p, 1e-3, weight_decay=1e-3), [0.5, -0.2, 0.1]),
        (lambda p: torch.optim.SGD(p, 1e-3, 0.9, weight_decay=1e-4), [0.5, 0.5]),
    ]:
        p = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimiser = make([p])
        for gradient in gradients:
            p.grad = torch.full_like(p, gradient)
            optimiser.step()
        print(p.item())
