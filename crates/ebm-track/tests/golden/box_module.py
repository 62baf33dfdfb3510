"""Golden values of the box module, from torch in float64.

Run: python box_module.py (writes beside itself). A small module of two targets with five boxes each, its own
formulation: PrRoIPool is the closed form with tents' integrals, autograd goes through all of it.
"""

import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
BACKBONE, REFERENCE, HIDDEN, INPUT, INTER = (6, 8), 5, 7, (6, 9), (4, 5)
SHAPES = {
    "conv3_1r": (REFERENCE, BACKBONE[0], 3, 3),
    "conv4_1r": (HIDDEN, BACKBONE[1], 3, 3),
    "fc3_1r": (HIDDEN, REFERENCE, 3, 3),
    "fc34_3r": (INPUT[0], 2 * HIDDEN, 1, 1),
    "fc34_4r": (INPUT[1], 2 * HIDDEN, 1, 1),
    "conv3_1t": (HIDDEN, BACKBONE[0], 3, 3),
    "conv3_2t": (INPUT[0], HIDDEN, 3, 3),
    "conv4_1t": (HIDDEN, BACKBONE[1], 3, 3),
    "conv4_2t": (INPUT[1], HIDDEN, 3, 3),
    "fc3_rt": (INTER[0], INPUT[0] * 25),
    "fc4_rt": (INTER[1], INPUT[1] * 9),
    "iou_predictor": (1, sum(INTER)),
}


def parameters():
    p = {}
    for name, shape in SHAPES.items():
        conv = len(shape) == 4
        inner, norm = (".0", ".1") if conv else ("", "") if name == "iou_predictor" else (".linear", ".bn")
        fan_in = torch.tensor(shape[1:]).prod().item()
        p[name + inner + ".weight"] = torch.randn(shape) * (2 / fan_in) ** 0.5
        p[name + inner + ".bias"] = 0.2 * torch.randn(shape[0])
        if norm:
            p[name + norm + ".weight"] = 0.5 + torch.rand(shape[0])
            p[name + norm + ".bias"] = 0.3 + 0.2 * torch.randn(shape[0])
            p[name + norm + ".running_mean"] = 0.2 * torch.randn(shape[0])
            p[name + norm + ".running_var"] = 0.5 + torch.rand(shape[0])
    return p


def integral(t):
    t = t.clamp(-1, 1)
    return 0.5 + t - 0.5 * t * t.abs()


def axis(low, high, bins, size):
    """(R, bins, size): the means of the pixels' tents over the bins."""
    edges = low[:, None] + (high - low)[:, None] * torch.arange(bins + 1) / bins
    up_to = integral(edges[:, :, None] - torch.arange(size))
    return (up_to[:, 1:] - up_to[:, :-1]) * (bins / (high - low))[:, None, None]


def prroi_pool(features, corners, bins, scale):
    """Corners (B, M, 4) on the maps (B, C, H, W): (B M, C, bins, bins)."""
    count = corners.shape[1]
    x0, y0, x1, y1 = (corners.flatten(0, 1) * scale).unbind(1)
    maps = features.repeat_interleave(count, 0)
    wy, wx = axis(y0, y1, bins, features.shape[2]), axis(x0, x1, bins, features.shape[3])
    return torch.einsum("rpy,rcyx,rqx->rcpq", wy, maps, wx)


def corners_of(boxes):
    return torch.cat([boxes[..., :2], boxes[..., :2] + boxes[..., 2:]], -1)


class Module:
    def __init__(self, p, train):
        self.p, self.train = p, train

    def norm(self, x, name):
        p = self.p
        running = p[name + ".running_mean"], p[name + ".running_var"]
        return F.batch_norm(x, *running, p[name + ".weight"], p[name + ".bias"], self.train)

    def conv(self, x, name, padding=1):
        p = self.p
        return self.norm(F.conv2d(x, p[name + ".0.weight"], p[name + ".0.bias"], 1, padding), name + ".1").relu()

    def dense(self, x, name):
        p = self.p
        x = F.linear(x.flatten(1), p[name + ".linear.weight"], p[name + ".linear.bias"])
        return self.norm(x, name + ".bn").relu()

    def modulation(self, layer2, layer3, boxes):
        corners = corners_of(boxes)[:, None]
        third = self.conv(prroi_pool(self.conv(layer2, "conv3_1r"), corners, 3, 1 / 8), "fc3_1r", 0)
        fourth = prroi_pool(self.conv(layer3, "conv4_1r"), corners, 1, 1 / 16)
        both = torch.cat([third, fourth], 1)
        return self.conv(both, "fc34_3r", 0), self.conv(both, "fc34_4r", 0)

    def test(self, layer2, layer3, vectors):
        third = self.conv(self.conv(layer2, "conv3_1t"), "conv3_2t") * vectors[0]
        fourth = self.conv(self.conv(layer3, "conv4_1t"), "conv4_2t") * vectors[1]
        return third, fourth

    def f(self, maps, corners):
        third = prroi_pool(maps[0], corners, 5, 1 / 8)
        fourth = prroi_pool(maps[1], corners, 3, 1 / 16)
        both = torch.cat([self.dense(third, "fc3_rt"), self.dense(fourth, "fc4_rt")], 1)
        p = self.p
        f = F.linear(both, p["iou_predictor.weight"], p["iou_predictor.bias"])
        return f.view(corners.shape[:2]), third, fourth


def main():
    torch.manual_seed(2)
    torch.set_default_dtype(torch.float64)
    p = parameters()
    out = {"net." + k: v.clone() for k, v in p.items()}
    x = {}
    for part in ("reference", "test"):
        x[part + "_layer2"] = torch.randn(2, BACKBONE[0], 9, 9).relu()
        x[part + "_layer3"] = torch.randn(2, BACKBONE[1], 5, 5).relu()
    x["reference_boxes"] = torch.tensor([[20.3, 18.2, 31.0, 24.5], [8.4, 30.1, 22.7, 35.9]])
    x["test_boxes"] = torch.tensor([[17.0, 21.5, 28.3, 26.0], [12.2, 24.8, 25.1, 33.3]])
    jitter = torch.randn(2, 5, 4) * torch.tensor([4.0, 4.0, 3.0, 3.0])
    x["boxes"] = x["test_boxes"][:, None] + jitter
    out |= {k: v.clone() for k, v in x.items()}

    for mode in ("frozen", "train"):
        p = {k: v.clone() for k, v in p.items()}
        learned = [k for k in p if "running" not in k]
        for k in learned:
            p[k].requires_grad_()
        net = Module(p, mode == "train")
        vectors = net.modulation(x["reference_layer2"], x["reference_layer3"], x["reference_boxes"])
        maps = net.test(x["test_layer2"], x["test_layer3"], vectors)
        boxes = x["boxes"].clone().requires_grad_()
        f, third, fourth = net.f(maps, corners_of(boxes))
        out |= {f"{mode}.vector3": vectors[0].flatten(1), f"{mode}.vector4": vectors[1].flatten(1),
                f"{mode}.map3": maps[0], f"{mode}.map4": maps[1], f"{mode}.f": f}
        if mode == "frozen":
            out |= {"pooled3": third, "pooled4": fourth}
            # In the boxes themselves, and in (cx/w0, cy/h0, log w, log h) with the sizes of the test boxes.
            out["frozen.gradient"] = torch.autograd.grad(f.sum(), boxes, retain_graph=True)[0]
            size = x["test_boxes"][:, None, 2:]
            y = torch.cat([(boxes[..., :2] + boxes[..., 2:] / 2) / size, boxes[..., 2:].log()], -1)
            y = y.detach().requires_grad_()
            half = y[..., 2:].exp() / 2
            center = y[..., :2] * size
            again = net.f(maps, torch.cat([center - half, center + half], -1))[0]
            out["frozen.y"] = y
            out["frozen.y_gradient"] = torch.autograd.grad(again.sum(), y, retain_graph=True)[0]
        else:
            weights = torch.cos(torch.arange(f.numel()).double()).view_as(f)
            gradients = torch.autograd.grad((f * weights).sum(), [p[k] for k in learned])
            out |= {"gradient." + k: g for k, g in zip(learned, gradients)}
            out |= {"after." + k: v for k, v in p.items() if "running" in k}
    save_file({k: v.detach().contiguous() for k, v in out.items()}, os.path.join(HERE, "box_module.safetensors"))
    print(out["frozen.f"], out["train.f"], out["frozen.gradient"][0])
    print([(out[f"{m}.vector{i}"] > 0).double().mean().item() for m in ("frozen", "train") for i in (3, 4)])


if __name__ == "__main__":
    main()
