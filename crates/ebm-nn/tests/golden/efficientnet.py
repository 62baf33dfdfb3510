"""Makes efficientnet.safetensors: maps, gradients and running statistics of EfficientNet-Lite0 from PyTorch in f64.

The network is written out here with torch's layers, by the published file's names.
Run: python efficientnet.py   (beside the file it writes)
"""
import torch
import torch.nn.functional as F
from torch import nn

from networks import fill, formula, save, summary

# expansion, kernel, stride, channels, blocks
STAGES = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]
MAPS = [0, 2, 4, 10, 15]


def same(x, conv):
    """TensorFlow's SAME: the output has ceil(size / stride) pixels, and the odd zero lies behind."""
    k, s = conv.kernel_size[0], conv.stride[0]
    pads = []
    for size in (x.shape[3], x.shape[2]):
        total = max((-(-size // s) - 1) * s + k - size, 0)
        pads += [total // 2, total - total // 2]
    return conv(F.pad(x, pads))


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class Block(nn.Module):
    def __init__(self, expansion, kernel, stride, inputs, outputs):
        super().__init__()
        inner = inputs * expansion
        if expansion > 1:
            self._expand_conv, self._bn0 = nn.Conv2d(inputs, inner, 1, bias=False), norm(inner)
        self._depthwise_conv, self._bn1 = nn.Conv2d(inner, inner, kernel, stride, groups=inner, bias=False), norm(inner)
        self._project_conv, self._bn2 = nn.Conv2d(inner, outputs, 1, bias=False), norm(outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = F.relu6(self._bn0(self._expand_conv(x))) if hasattr(self, "_expand_conv") else x
        y = F.relu6(self._bn1(same(y, self._depthwise_conv)))
        y = self._bn2(self._project_conv(y))
        return y + x if self.residual else y


class Lite0(nn.Module):
    def __init__(self):
        super().__init__()
        self._conv_stem, self._bn0 = nn.Conv2d(3, 32, 3, 2, bias=False), norm(32)
        blocks, inputs = [], 32
        for expansion, kernel, stride, channels, count in STAGES:
            for i in range(count):
                blocks.append(Block(expansion, kernel, stride if i == 0 else 1, inputs, channels))
                inputs = channels
        self._blocks = nn.ModuleList(blocks)

    def forward(self, x):
        x, maps = F.relu6(self._bn0(same(x, self._conv_stem))), []
        for i, block in enumerate(self._blocks):
            x = block(x)
            if i in MAPS:
                maps.append(x)
        return maps


def main():
    out = {}
    net = Lite0().double()
    fill(net)
    net.eval()
    with torch.no_grad():
        for name, shape in {"odd": (2, 3, 65, 97), "even": (1, 3, 64, 96)}.items():
            for i, m in enumerate(net(5 * formula("input", shape))):
                out[f"{name}.shape{i}"] = torch.tensor(m.shape)
                out[f"{name}.map{i}"] = summary(m)
    net.train()
    maps = net(5 * formula("input", (2, 3, 33, 52)))
    loss = sum((m * formula(f"out{i}", tuple(m.shape))).sum() for i, m in enumerate(maps))
    loss.backward()
    out["train.loss"] = loss.detach().reshape(1)
    for name, p in net.named_parameters():
        out[f"train.grad.{name}"] = summary(p.grad)
    for name, b in net.named_buffers():
        if not name.endswith("num_batches_tracked"):
            out[f"train.buffer.{name}"] = summary(b)
    save("efficientnet", out)


if __name__ == "__main__":
    main()
