"""The peers' side of `compare.py`, which runs one process of this script for each work and form:

    python peer.py probe                     versions, as JSON
    python peer.py TASK FORM THREADS DEVICE [PICTURES]
                                             TASK is JSON: {"task": NAME, sizes …}. NAME is a function below, which also
                                             takes the folder PICTURES if it is given

After its set-up a work prints `ready`. Then it answers lines on standard input: `run` does the work once and prints
its seconds. The process ends with its input.

Every form of inference runs in inference_mode with batch norm folded into the convolutions:
    eager           as written
    channels_last   weights and maps stored with the channels innermost
    compile         channels_last through torch.compile; for inference with frozen weights, which are packed once
    onnxruntime     exported by PyTorch, which needs onnxscript, and run by ONNX Runtime; inference on a CPU
    openvino        the same file by OpenVINO, in f32
"""

import importlib.metadata
import json
import math
import os
import platform
import sys
import time

import torch
from torch import nn
from torch.nn.functional import interpolate, linear, max_pool2d
from torch.nn.utils.fusion import fuse_conv_bn_eval

# Libraries print to standard error, so that their output does not reach the protocol.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


class ConvNorm(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        super().__init__(conv, nn.BatchNorm2d(outputs))


def folded(net):
    """Returns the network for inference, with batch norm folded."""
    net.eval()
    for module in net.modules():
        if isinstance(module, ConvNorm):
            module[0], module[1] = fuse_conv_bn_eval(module[0], module[1]), nn.Identity()
    return net


class Residual(nn.Module):
    def __init__(self, inputs, inner, stride, bottleneck):
        super().__init__()
        outputs = 4 * inner if bottleneck else inner
        relu = nn.ReLU(inplace=True)
        if bottleneck:
            convs = [ConvNorm(inputs, inner, 1, 1), relu, ConvNorm(inner, inner, 3, stride), relu,
                     ConvNorm(inner, outputs, 1, 1)]
        else:
            convs = [ConvNorm(inputs, inner, 3, stride), relu, ConvNorm(inner, inner, 3, 1)]
        self.branch, self.relu, self.outputs = nn.Sequential(*convs), relu, outputs
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else ConvNorm(inputs, outputs, 1, stride)

    def forward(self, x):
        y = self.branch(x)
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    """ResNet that returns the outputs of its first stages, without a classifier."""

    def __init__(self, depth, stages=4):
        super().__init__()
        blocks, bottleneck = {18: ([2, 2, 2, 2], False), 50: ([3, 4, 6, 3], True)}[depth]
        self.stem = nn.Sequential(ConvNorm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.stages, inputs = nn.ModuleList(), 64
        for stage, count in enumerate(blocks[:stages]):
            layers = []
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Residual(inputs, 64 << stage, stride, bottleneck))
                inputs = layers[-1].outputs
            self.stages.append(nn.Sequential(*layers))

    def forward(self, x):
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class Fpn(nn.Module):
    """Feature pyramid over maps with these numbers of channels."""

    def __init__(self, inputs, channels):
        super().__init__()
        self.laterals = nn.ModuleList(nn.Conv2d(i, channels, 1) for i in inputs)
        self.outputs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in inputs)

    def forward(self, maps):
        levels, above = [], None
        for m, lateral, output in reversed(list(zip(maps, self.laterals, self.outputs))):
            merged = lateral(m)
            if above is not None:
                merged = merged + interpolate(above, size=merged.shape[-2:], mode="nearest")
            levels.insert(0, output(merged))
            above = merged
        return levels


class ResNetFpn(nn.Module):
    """Feature pyramid P2 to P6 over a ResNet-50."""

    def __init__(self, channels):
        super().__init__()
        self.body, self.fpn = ResNet(50), Fpn([256 << i for i in range(4)], channels)

    def forward(self, x):
        levels = self.fpn(self.body(x))
        return levels + [max_pool2d(levels[-1], 1, 2, 0)]


def formed(net, form, freeze):
    """Returns the network in this form, and a function that brings its input into the form's layout."""
    if form == "eager":
        return net, lambda x: x

    def layout(x):
        return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x

    net = net.to(memory_format=torch.channels_last)
    if form == "compile":
        from torch._inductor import config

        config.freezing = freeze
        net = torch.compile(net)
    return net, layout


def exported(net, x):
    """Returns the network as ONNX."""
    if x.device.type != "cpu":
        sys.exit("this form is measured on a CPU")
    return torch.onnx.export(net, (x,), dynamo=True, verbose=False).model_proto.SerializeToString()


def by_onnxruntime(net, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(exported(net, x), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, feed)


def by_openvino(net, x):
    import openvino

    hints = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(exported(net, x)), "CPU", hints)
    request, feed = compiled.create_infer_request(), x.numpy()
    return lambda: request.infer(feed)


RUNTIMES = {"onnxruntime": by_onnxruntime, "openvino": by_openvino}


def checked(run, net, x):
    """Returns `run` after checking that its result equals the network's."""
    with torch.inference_mode():
        expected = net(x)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    found = run()
    found = list(found.values()) if hasattr(found, "values") else list(found)
    for own, other in zip(expected, found, strict=True):
        torch.testing.assert_close(torch.as_tensor(other), own, rtol=1e-3, atol=1e-3 * own.abs().max().item())
    return run


def inference(net, x, form):
    if form in RUNTIMES:
        net = folded(net)
        return checked(RUNTIMES[form](net, x), net, x)
    net, layout = formed(folded(net), form, freeze=True)
    x = layout(x)

    @torch.inference_mode()
    def run():
        return net(x)

    return run


def gradients(net, x, form):
    """Returns a function that computes the gradients of the output's sum in x and in every parameter."""
    net, layout = formed(net, form, freeze=False)
    x = layout(x).requires_grad_()
    leaves = [x, *net.parameters()]
    with torch.no_grad():
        ones = torch.ones_like(net(x))
    return lambda: torch.autograd.grad(net(x), leaves, ones)


def resnet(form, depth, batch, height, width):
    return inference(ResNet(depth), torch.randn(batch, 3, height, width), form)


def resnet_fpn(form, channels, batch, height, width):
    return inference(ResNetFpn(channels), torch.randn(batch, 3, height, width), form)


def resnet_step(form, depth, batch, height, width):
    net, layout = formed(ResNet(depth).train(), form, freeze=False)
    x, leaves = layout(torch.randn(batch, 3, height, width)), list(net.parameters())
    return lambda: torch.autograd.grad(net(x)[-1].square().mean(), leaves)


class ConvNormPrelu(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride=1, groups=1, prelu=True):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outputs, 1e-3), *([nn.PReLU(outputs)] if prelu else []))


class Inverted(nn.Module):
    def __init__(self, inputs, inner, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(ConvNormPrelu(inputs, inner, 1), ConvNormPrelu(inner, inner, 3, stride, inner),
                                  ConvNormPrelu(inner, outputs, 1, prelu=False))
        self.adds = stride == 1

    def forward(self, x):
        y = self.body(x)
        return x + y if self.adds else y


def mobile_face_net_step(form, batch, height, width):
    layers = [ConvNormPrelu(3, 64, 3, 2), ConvNormPrelu(64, 64, 3, groups=64), Inverted(64, 128, 64, 2)]
    layers += [Inverted(64, 128, 64, 1) for _ in range(4)] + [Inverted(64, 256, 128, 2)]
    layers += [Inverted(128, 256, 128, 1) for _ in range(6)] + [Inverted(128, 512, 128, 2)]
    layers += [Inverted(128, 256, 128, 1) for _ in range(2)] + [ConvNormPrelu(128, 512, 1)]
    net, layout = formed(nn.Sequential(*layers).train(), form, freeze=False)
    x, leaves = layout(torch.randn(batch, 3, height, width)), list(net.parameters())
    return lambda: torch.autograd.grad(net(x).square().mean(), leaves)


def conv(form, channels, height, width, backward):
    net, x = nn.Conv2d(channels, channels, 3, padding=1), torch.randn(1, channels, height, width)
    return (gradients if backward else inference)(net, x, form)


def head(form, inputs, hidden, classes, rows, backward):
    relu = nn.ReLU(inplace=True)
    layers = [nn.Linear(inputs, hidden), relu, nn.Linear(hidden, hidden), relu, nn.Linear(hidden, classes)]
    return (gradients if backward else inference)(nn.Sequential(*layers), torch.randn(rows, inputs), form)


def integral(t):
    """Returns the integral of the tent max(0, 1 - |t|) up to t."""
    t = t.clamp(-1, 1)
    return 0.5 + t - 0.5 * t * t.abs()


BINS = 7


def axis_weights(low, high, first, length, bins=BINS):
    """Returns weights (R, bins, length): means of the pixels' tents, from pixel `first` on, over the bins between low and high."""
    edges = low[:, None] + (high - low)[:, None] * torch.linspace(0, 1, bins + 1)
    pixels = first[:, None] + torch.arange(length)
    up_to = integral(edges[:, :, None] - pixels[:, None, :])
    return (up_to[:, 1:] - up_to[:, :-1]) * (bins / (high - low))[:, None, None]


def tiles(maps, level, low, high):
    """Yields the PrRoIPool of each box on its level among the maps (H, W, C), which torch does not have on a CPU: two
    products with a view of the map (Wy F Wx', without copies). The weights are made for all boxes at once."""
    with torch.no_grad():
        sides = torch.tensor([m.shape[1::-1] for m in maps])
        first = low.floor().clamp(min=0)
        counts = (torch.minimum(high.ceil() + 1, sides[level]) - first).clamp(min=1)
        widest, highest = counts.max(0).values.int().tolist()
        places = torch.cat([level[:, None], first, counts], 1).int().tolist()
    wx = axis_weights(low[:, 0], high[:, 0], first[:, 0], widest)
    wy = axis_weights(low[:, 1], high[:, 1], first[:, 1], highest)
    for (m, x, top, w, h), wx, wy in zip(places, wx.unbind(), wy.unbind()):
        lines = torch.matmul(wx[:, :w], maps[m][top:top + h, x:x + w])
        yield torch.mm(wy[:, :h], lines.view(h, -1))


class Refinement:
    """Algorithm S1 as printed: each step computes f with its gradient at y, and f again at the new y. The outputs of all
    classes are computed, and the box's own is taken."""

    classes, decay = 91, 0.5

    def __init__(self, boxes, channels, hidden, height, width):
        self.step_length = torch.tensor([1e-3, 1e-3, 4e-3, 4e-3])
        sides = [(-(-height // stride), -(-width // stride)) for stride in (4, 8, 16, 32)]
        self.maps = [torch.randn(h, w, channels) for h, w in sides]
        widths = [(hidden, channels * BINS * BINS), (hidden, hidden), (self.classes, hidden)]
        self.w = [torch.randn(o, i) * (2 / i) ** 0.5 for o, i in widths]
        self.b = [torch.randn(o) * 0.1 for o, _ in widths]
        self.labels = torch.randint(1, self.classes, (boxes, 1))
        image = torch.tensor([width, height])
        self.size = (0.02 + 0.48 * torch.rand(boxes, 2)) * image
        low = torch.rand(boxes, 2) * (image - self.size)
        self.y0 = torch.cat([(low + self.size / 2) / self.size, self.size.log()], 1)

    def pool(self, y):
        center, half = y[:, :2] * self.size, y[:, 2:].exp() / 2
        low, high = center - half, center + half
        with torch.no_grad():
            level = (4 + ((high - low).prod(1).sqrt() / 224 + 1e-6).log2()).floor().clamp(2, 5) - 2
            scale = 0.25 / 2**level[:, None]
        return torch.stack(list(tiles(self.maps, level.long(), low * scale, high * scale))).flatten(1)

    def f(self, y):
        x = self.pool(y)
        for w, b in zip(self.w[:2], self.b):
            x = linear(x, w, b).relu_()
        return linear(x, self.w[2], self.b[2]).gather(1, self.labels)

    def run(self, steps):
        y, scale = self.y0, torch.ones(len(self.y0), 1)
        for _ in range(steps):
            y = y.detach().requires_grad_()
            f = self.f(y)
            (gradient,) = torch.autograd.grad(f.sum(), y)
            with torch.no_grad():
                moved = y + scale * self.step_length * gradient
                better = self.f(moved) > f
                y = torch.where(better, moved, y)
                scale = torch.where(better, scale, scale * self.decay)
        return y


def refinement(form, boxes, steps, channels, hidden, height, width):
    scheme = Refinement(boxes, channels, hidden, height, width)
    return lambda: scheme.run(steps)


class HeadStep:
    """Eq. 4 on given pyramids. torch has no PrRoIPool on a GPU, so it uses torchvision's RoIAlign, which does less work."""

    classes, sigmas = 91, (0.0375, 0.075, 0.15)

    def __init__(self, images, objects, samples, channels, hidden, height, width):
        sides = [(-(-height // stride), -(-width // stride)) for stride in (4, 8, 16, 32)]
        layout = torch.channels_last
        self.maps = [torch.randn(images, channels, h, w).to(memory_format=layout) for h, w in sides]
        self.prepare(images, objects, samples, channels * BINS * BINS, hidden, height, width)

    def prepare(self, images, objects, samples, pooled, hidden, height, width):
        widths = [(hidden, pooled), (hidden, hidden), (self.classes, hidden)]
        self.w = [(torch.randn(o, i) * (2 / i) ** 0.5).requires_grad_() for o, i in widths]
        self.b = [torch.zeros(o).requires_grad_() for o, _ in widths]
        self.leaves = [*self.w, *self.b]
        count = images * objects
        labels = torch.randint(min(1, self.classes - 1), self.classes, (count, 1, 1))
        self.labels = labels.expand(-1, samples + 1, -1).reshape(-1, 1)
        self.image = torch.arange(images).repeat_interleave(objects * (samples + 1)).float()[:, None]
        self.samples, image = samples, torch.tensor([width, height])
        self.size = (0.02 + 0.48 * torch.rand(count, 1, 2)) * image
        low = torch.rand(count, 1, 2) * (image - self.size)
        self.y0 = torch.cat([(low + self.size / 2) / self.size, self.size.log()], 2)

    def log_q(self, noise):
        terms = [-0.5 * (noise / s).square().sum(2) - 4 * math.log(s * math.sqrt(2 * math.pi)) for s in self.sigmas]
        return torch.stack(terms).logsumexp(0) - math.log(len(self.sigmas))

    def boxes(self, y, context=1.0):
        """Returns rows (image, x0, y0, x1, y1) of the boxes, enlarged about their centres by `context`."""
        center, half = y[..., :2] * self.size, y[..., 2:].exp() * (context / 2)
        return torch.cat([self.image, (center - half).flatten(0, 1), (center + half).flatten(0, 1)], 1)

    def pool(self, y):
        from torchvision.ops import roi_align

        boxes = self.boxes(y)
        sides = boxes[:, 3:] - boxes[:, 1:3]
        level = (4 + (sides.prod(1).sqrt() / 224 + 1e-6).log2()).floor().clamp(2, 5) - 2
        pooled = y.new_empty(len(boxes), self.maps[0].shape[1], BINS, BINS)
        for i, m in enumerate(self.maps):
            rows = (level == i).nonzero()[:, 0]
            pooled[rows] = roi_align(m, boxes[rows], BINS, 0.25 / 2**i, sampling_ratio=2, aligned=True)
        return pooled.flatten(1)

    def run(self):
        count = len(self.y0)
        sigma = torch.tensor(self.sigmas)[torch.randint(0, len(self.sigmas), (count, self.samples, 1))]
        noise = sigma * torch.randn(count, self.samples, 4)
        noise = torch.cat([torch.zeros(count, 1, 4), noise], 1)
        x = self.pool(self.y0 + noise)
        for w, b in zip(self.w[:2], self.b):
            x = linear(x, w, b).relu_()
        f = linear(x, self.w[2], self.b[2]).gather(1, self.labels).view(count, -1)
        loss = ((f - self.log_q(noise)).logsumexp(1) - math.log(self.samples + 1) - f[:, 0]).mean()
        return torch.autograd.grad(loss, self.leaves)


def head_step(form, images, objects, samples, channels, hidden, height, width):
    return HeadStep(images, objects, samples, channels, hidden, height, width).run


class RefinerStep(HeadStep):
    """Training step of the box refiner: every box is pooled from each of three levels over a frozen ResNet-18. All images
    form one batch."""

    classes, channels, hidden, contexts = 1, 32, 256, (1.0, 1.0, 1.5)

    def __init__(self, form, images, objects, samples, height, width):
        self.body, layout = formed(folded(ResNet(18, stages=3)), form, freeze=True)
        self.fpn, _ = formed(Fpn([64, 128, 256], self.channels), form, freeze=False)
        self.pixels = layout(torch.randn(images, 3, height, width))
        pooled = len(self.contexts) * self.channels * BINS * BINS
        self.prepare(images, objects, samples, pooled, self.hidden, height, width)
        self.leaves += self.fpn.parameters()

    def pool(self, y):
        from torchvision.ops import roi_align

        with torch.no_grad():
            maps = self.body(self.pixels)
        pooled = []
        for i, (level, context) in enumerate(zip(self.fpn(maps), self.contexts)):
            boxes = self.boxes(y, context)
            pooled.append(roi_align(level.relu(), boxes, BINS, 0.25 / 2**i, sampling_ratio=2, aligned=True).flatten(1))
        return torch.cat(pooled, 1)


def refiner_step(form, images, objects, samples, height, width):
    return RefinerStep(form, images, objects, samples, height, width).run


class Tracked(nn.Module):
    """Network of a tracker's frame before its boxes: the features of a ResNet-18, the classifier's scores, and the two maps
    that boxes are pooled from, multiplied by the target's vectors."""

    def __init__(self):
        super().__init__()
        self.body, relu = ResNet(18, stages=3), nn.ReLU(inplace=True)
        self.project, self.filter = nn.Conv2d(256, 64, 1, bias=False), nn.Conv2d(64, 1, 4, padding=2, bias=False)
        self.convs = nn.ModuleList(
            nn.Sequential(ConvNorm(inputs, 256, 3, 1), relu, ConvNorm(256, 256, 3, 1), relu) for inputs in (128, 256))
        self.vectors = nn.ParameterList(torch.rand(1, 256, 1, 1) for _ in self.convs)

    def forward(self, x):
        maps = self.body(x)[1:]
        scores = self.filter(self.project(maps[1] / maps[1].square().mean().sqrt()))
        return scores, *(conv(m) * vector for conv, m, vector in zip(self.convs, maps, self.vectors))


def tracker_frame(form, side, boxes, steps):
    """Returns a function that computes a tracker's frame. The maps are small, so all boxes are pooled in one product for each axis."""
    net, layout = formed(folded(Tracked()), form, freeze=True)
    crop, bins = layout(torch.randn(1, 3, side, side)), (5, 3)
    w = [torch.randn(256, 256 * b * b) * (2 / (256 * b * b)) ** 0.5 for b in bins]
    last, biases = torch.randn(1, 512) * (2 / 512) ** 0.5, [torch.randn(256) * 0.1 for _ in bins]
    size, step_length = side / 5, torch.tensor([2e-4, 2e-4, 1e-3, 1e-3])
    y0 = torch.cat([torch.full((boxes, 2), side / 2 / size), torch.full((boxes, 2), math.log(size))], 1)
    y0 = y0 + 0.05 * torch.randn(boxes, 4)

    def pooled(features, low, high, bins):
        h, w, channels = features.shape
        zero = torch.zeros(boxes)
        wx = axis_weights(low[:, 0], high[:, 0], zero, w, bins)
        wy = axis_weights(low[:, 1], high[:, 1], zero, h, bins)
        lines = (wy.flatten(0, 1) @ features.flatten(1)).view(boxes, bins, w, channels)
        return (wx[:, None] @ lines).flatten(1)

    def f(maps, y):
        center, half = y[:, :2] * size, y[:, 2:].exp() / 2
        low, high, hidden = center - half, center + half, []
        for i, features in enumerate(maps):
            scale = 0.125 / 2**i
            x = pooled(features, low * scale, high * scale, bins[i])
            hidden.append(linear(x, w[i], biases[i]).relu_())
        return linear(torch.cat(hidden, 1), last)

    def run():
        with torch.no_grad():
            scores, *maps = net(crop)
            maps = [m[0].permute(1, 2, 0).contiguous() for m in maps]
        y = y0
        for _ in range(steps):
            y = y.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(f(maps, y).sum(), y)
            y = y + step_length * gradient
        with torch.no_grad():
            return scores, y, f(maps, y)

    return run


class Jpegs(torch.utils.data.Dataset):
    """Images decoded and resized by torchvision in 8 bits, its fastest way, and normalised."""

    def __init__(self, folder, short_side):
        self.files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.short_side = short_side
        # These apply to samples from 0 to 255, which saves a pass.
        self.mean, self.std = (255 * torch.tensor(t)[:, None, None]
                               for t in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file
        from torchvision.transforms.v2.functional import resize

        image = decode_jpeg(read_file(self.files[index]), ImageReadMode.RGB)
        image = resize(image, [self.short_side], antialias=True)
        return image.to(torch.float32, memory_format=torch.contiguous_format).sub_(self.mean).div_(self.std)


def loader(form, images, batch, height, width, short_side, workers, pictures):
    """Returns a function that loads an epoch. The measured memory does not include the workers'."""
    dataset = Jpegs(os.path.join(pictures, "images"), short_side)
    batches = torch.utils.data.DataLoader(dataset, batch, num_workers=workers, persistent_workers=True)
    with open(os.path.join(pictures, "made.json")) as file:
        made = json.load(file)
    means = sum(numbers.double().mean((2, 3)).sum(0) for numbers in batches) / images
    if made["shape"] != list(next(iter(batches)).shape):
        sys.exit(f"the two sides make batches of different shapes, ours {made['shape']}")
    # The standard deviation of the numbers is about 1.
    torch.testing.assert_close(means, torch.tensor(made["means"], dtype=means.dtype), rtol=0, atol=0.01)
    return lambda: sum(len(numbers) for numbers in batches)


def roi_pool(form, boxes, channels, height, width, of_boxes):
    """Returns a function that pools boxes with RoIAlign instead of PrRoIPool. RoIAlign has no gradient in the boxes, so
    `of_boxes` uses two products for each box, as `Refinement` does."""
    features = torch.randn(1, channels, height, width).to(memory_format=torch.channels_last)
    low = torch.rand(boxes, 2) * torch.tensor([3.0 * width, 3.0 * height])
    corners = torch.cat([low, low + 28 + 84 * torch.rand(boxes, 2)], 1)
    if of_boxes:
        return products_of_boxes(features[0].permute(1, 2, 0), corners * 0.25)
    from torchvision.ops import roi_align

    features.requires_grad_()
    rois = torch.cat([torch.zeros(boxes, 1), corners], 1)

    def run():
        pooled = roi_align(features, rois, BINS, 0.25, sampling_ratio=2, aligned=True)
        return torch.autograd.grad(pooled.sum(), features)

    return run


def products_of_boxes(features, corners):
    corners, level = corners.requires_grad_(), torch.zeros(len(corners), dtype=torch.long)

    def run():
        total = sum(tile.sum() for tile in tiles([features], level, corners[:, :2], corners[:, 2:]))
        return torch.autograd.grad(total, corners)

    return run


class Age(nn.Module):
    """Network for the direct regression of ages."""

    def __init__(self):
        super().__init__()
        self.body = ResNet(50)
        self.head = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(inplace=True), nn.Linear(2048, 1))

    def forward(self, x):
        return self.head(self.body(x)[-1].mean((2, 3)))


def age(form, batch, side, steps):
    return inference(Age(), torch.randn(batch, 3, side, side), form)


def say(line):
    print(line, file=ANSWERS, flush=True)


def work(task, form, threads, device="cpu", pictures=None):
    torch.set_default_device(device)
    on_gpu = torch.device(device).type == "cuda"
    torch.backends.cudnn.benchmark = on_gpu
    if on_gpu:
        # Our side uses TF32 in products by default, too.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(0)
    torch.set_num_threads(int(threads))
    sizes = json.loads(task)
    if pictures is not None:
        sizes["pictures"] = pictures
    run = globals()[sizes.pop("task")](form, **sizes)
    finish = torch.cuda.synchronize if on_gpu else lambda: None
    run()  # Compilation and packing in the first run belong to the set-up.
    finish()
    say("ready")
    for line in sys.stdin:
        if line.strip() == "run":
            start = time.perf_counter()
            result = run()
            finish()
            elapsed = time.perf_counter() - start
            del result
            say(elapsed)
        else:
            sys.exit(f"unknown request {line!r}")


def version(package):
    """Returns the version of a package, or None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def probe():
    say(json.dumps({
        "python": platform.python_version(),
        "torch": torch.__version__,
        "runtimes": {name: found for name in RUNTIMES if (found := version(name))},
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }))


if __name__ == "__main__":
    probe() if sys.argv[1] == "probe" else work(*sys.argv[1:])
