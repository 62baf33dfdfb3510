"""A narrow Faster-RCNN in maskrcnn-benchmark's convention: its weights as that project saves them, and what it sees.

    python make_maskrcnn_benchmark.py          # writes beside itself

Written in plain torch, without that project's code: affine normalisation without epsilon,
the stride in the first 1x1, inclusive boxes everywhere, the table of anchors, suppression at equality. The network has
a 32nd of the channels. Its input is a formula, repeated in tests/suite/maskrcnn_benchmark.rs.
"""

import collections
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, PYRAMID, HIDDEN, CLASSES = 2, 8, 8, 81
BLOCKS = [3, 4, 6, 3]
PADDED, SIZE = (256, 320), (250, 310)  # height, width
ORIGINAL = (150, 187)  # of the image file
ANCHORS = [
    [(-22, -10, 25, 13), (-14, -14, 17, 17), (-10, -22, 13, 25)],
    [(-40, -20, 47, 27), (-28, -28, 35, 35), (-20, -44, 27, 51)],
    [(-84, -40, 99, 55), (-56, -56, 71, 71), (-36, -80, 51, 95)],
    [(-164, -72, 195, 103), (-112, -112, 143, 143), (-76, -168, 107, 199)],
    [(-332, -152, 395, 215), (-224, -224, 287, 287), (-148, -328, 211, 391)],
]
STRIDES = [4, 8, 16, 32, 64]


def image():
    i = torch.arange(3 * PADDED[0] * PADDED[1], dtype=torch.float64)
    pixels = (60 * torch.sin(i * 0.0137) + 60 * torch.sin(i * i * 1e-7)).reshape(1, 3, *PADDED)
    pixels[:, :, SIZE[0] :, :] = 0
    pixels[:, :, :, SIZE[1] :] = 0
    return pixels.float()


def weights():
    g = torch.Generator().manual_seed(20)
    state = collections.OrderedDict()

    def uniform(shape, low, high):
        return low + (high - low) * torch.rand(shape, generator=g)

    def layer(name, shape, gain=1.0, bias=0.05):
        bound = gain * math.sqrt(6 / math.prod(shape[1:]))
        state[name + ".weight"] = uniform(shape, -bound, bound)
        if bias:
            state[name + ".bias"] = uniform(shape[:1], -bias, bias)

    def norm(name, channels):
        # Down to where an epsilon of 1e-5 would be seen.
        variance = 10 ** uniform((channels,), -4, 0)
        state[name + ".weight"] = uniform((channels,), 0.3, 0.8) * variance.sqrt()
        state[name + ".bias"] = uniform((channels,), -0.1, 0.3)
        state[name + ".running_mean"] = uniform((channels,), -0.2, 0.2) * variance.sqrt()
        state[name + ".running_var"] = variance

    body = "backbone.body."
    layer(body + "stem.conv1", (WIDTH, 3, 7, 7), 0.02, bias=0)
    norm(body + "stem.bn1", WIDTH)
    channels = WIDTH
    for stage, blocks in enumerate(BLOCKS):
        inner = WIDTH << stage
        for block in range(blocks):
            name = f"{body}layer{stage + 1}.{block}."
            if block == 0:
                layer(name + "downsample.0", (4 * inner, channels, 1, 1), bias=0)
                norm(name + "downsample.1", 4 * inner)
            for i, shape in enumerate([(inner, channels, 1, 1), (inner, inner, 3, 3), (4 * inner, inner, 1, 1)], 1):
                layer(f"{name}conv{i}", shape, bias=0)
                norm(f"{name}bn{i}", shape[0])
            channels = 4 * inner
    for i in range(4):
        layer(f"backbone.fpn.fpn_inner{i + 1}", (PYRAMID, 4 * WIDTH << i, 1, 1), 0.5)
        layer(f"backbone.fpn.fpn_layer{i + 1}", (PYRAMID, PYRAMID, 3, 3))
    for i, anchors in enumerate(ANCHORS):
        state[f"rpn.anchor_generator.cell_anchors.{i}"] = torch.tensor(anchors, dtype=torch.float32)
    layer("rpn.head.conv", (PYRAMID, PYRAMID, 3, 3))
    layer("rpn.head.cls_logits", (3, PYRAMID, 1, 1), 2)
    layer("rpn.head.bbox_pred", (12, PYRAMID, 1, 1), 0.3)
    layer("roi_heads.box.feature_extractor.fc6", (HIDDEN, PYRAMID * 49))
    layer("roi_heads.box.feature_extractor.fc7", (HIDDEN, HIDDEN))
    layer("roi_heads.box.predictor.cls_score", (CLASSES, HIDDEN), 6)
    layer("roi_heads.box.predictor.bbox_pred", (4 * CLASSES, HIDDEN), 2)
    return state


def features(w, x):
    def normalise(x, name):
        scale = w[name + ".weight"] / w[name + ".running_var"].sqrt()
        shift = w[name + ".bias"] - w[name + ".running_mean"] * scale
        return x * scale[:, None, None] + shift[:, None, None]

    body = "backbone.body."
    x = F.conv2d(x, w[body + "stem.conv1.weight"], stride=2, padding=3)
    x = F.max_pool2d(F.relu(normalise(x, body + "stem.bn1")), 3, 2, 1)
    maps = []
    for stage, blocks in enumerate(BLOCKS):
        for block in range(blocks):
            name = f"{body}layer{stage + 1}.{block}."
            stride = 2 if stage > 0 and block == 0 else 1
            y = F.relu(normalise(F.conv2d(x, w[name + "conv1.weight"], stride=stride), name + "bn1"))
            y = F.relu(normalise(F.conv2d(y, w[name + "conv2.weight"], padding=1), name + "bn2"))
            y = normalise(F.conv2d(y, w[name + "conv3.weight"]), name + "bn3")
            if block == 0:
                x = normalise(F.conv2d(x, w[name + "downsample.0.weight"], stride=stride), name + "downsample.1")
            x = F.relu(x + y)
        maps.append(x)

    def layer(x, name, padding):
        return F.conv2d(x, w[name + ".weight"], w[name + ".bias"], padding=padding)

    levels, above = [], None
    for i in (4, 3, 2, 1):
        merged = layer(maps[i - 1], f"backbone.fpn.fpn_inner{i}", 0)
        if above is not None:
            merged = merged + F.interpolate(above, scale_factor=2, mode="nearest")
        levels.insert(0, layer(merged, f"backbone.fpn.fpn_layer{i}", 1))
        above = merged
    return levels + [F.max_pool2d(levels[-1], 1, 2)]


def decode(offsets, boxes, weights):
    width, height = boxes[:, 2] - boxes[:, 0] + 1, boxes[:, 3] - boxes[:, 1] + 1
    dx, dy, dw, dh = (offsets[:, i] / weights[i] for i in range(4))
    limit = math.log(1000 / 16)
    x, y = boxes[:, 0] + 0.5 * width + dx * width, boxes[:, 1] + 0.5 * height + dy * height
    w, h = dw.clamp(max=limit).exp() * width, dh.clamp(max=limit).exp() * height
    return torch.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w - 1, y + 0.5 * h - 1], 1)


def clip(boxes):
    limits = torch.tensor([SIZE[1] - 1, SIZE[0] - 1, SIZE[1] - 1, SIZE[0] - 1])
    return torch.minimum(boxes.clamp(min=0), limits)


def suppress(boxes, scores, threshold):
    b, kept = boxes.numpy(), []
    area = (b[:, 2] - b[:, 0] + 1) * (b[:, 3] - b[:, 1] + 1)
    rest = np.argsort(-scores.numpy(), kind="stable")
    while len(rest):
        best, rest = rest[0], rest[1:]
        kept.append(best)
        low, high = np.maximum(b[best, :2], b[rest, :2]), np.minimum(b[best, 2:], b[rest, 2:])
        common = np.prod(np.maximum(high - low + 1, 0), 1)
        rest = rest[common / (area[best] + area[rest] - common) < threshold]
    return torch.tensor(np.array(kept, dtype=np.int64))


def proposals(w, levels):
    found, found_scores = [], []
    for level, cells, stride in zip(levels, ANCHORS, STRIDES):
        hidden = F.relu(F.conv2d(level, w["rpn.head.conv.weight"], w["rpn.head.conv.bias"], padding=1))
        score = F.conv2d(hidden, w["rpn.head.cls_logits.weight"], w["rpn.head.cls_logits.bias"])
        offsets = F.conv2d(hidden, w["rpn.head.bbox_pred.weight"], w["rpn.head.bbox_pred.bias"])
        height, width = level.shape[-2:]
        shift = torch.stack([torch.arange(width).repeat(height), torch.arange(height).repeat_interleave(width)], 1) * stride
        anchors = (shift.repeat(1, 2)[:, None].float() + torch.tensor(cells).float()).reshape(-1, 4)
        score = score[0].permute(1, 2, 0).reshape(-1).sigmoid()
        offsets = offsets[0].reshape(3, 4, height, width).permute(2, 3, 0, 1).reshape(-1, 4)
        score, top = score.topk(min(1000, len(score)))
        boxes = clip(decode(offsets[top], anchors[top], [1, 1, 1, 1]))
        kept = suppress(boxes, score, 0.7)[:1000]
        found.append(boxes[kept])
        found_scores.append(score[kept])
    found, scores = torch.cat(found), torch.cat(found_scores)
    return found[scores.topk(min(1000, len(scores))).indices]


def detections(w, levels, boxes):
    area = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
    level = torch.floor(4 + torch.log2(area.sqrt() / 224 + 1e-6)).clamp(2, 5).long() - 2
    pooled = torch.zeros(len(boxes), PYRAMID, 7, 7)
    for i in range(4):
        rois = torch.cat([torch.zeros(int((level == i).sum()), 1), boxes[level == i]], 1)
        pooled[level == i] = torchvision.ops.roi_align(levels[i], rois, 7, 1 / STRIDES[i], 2, aligned=False)
    print("boxes by level", torch.bincount(level).tolist())
    hidden, head = pooled.flatten(1), "roi_heads.box."
    for name in ("feature_extractor.fc6", "feature_extractor.fc7"):
        hidden = F.relu(F.linear(hidden, w[head + name + ".weight"], w[head + name + ".bias"]))
    name = head + "predictor."
    scores = F.linear(hidden, w[name + "cls_score.weight"], w[name + "cls_score.bias"]).softmax(1)
    offsets = F.linear(hidden, w[name + "bbox_pred.weight"], w[name + "bbox_pred.bias"])
    found = []
    for label in range(1, CLASSES):
        of_class = clip(decode(offsets[:, 4 * label : 4 * label + 4], boxes, [10, 10, 5, 5]))
        above = scores[:, label] > 0.05
        score, of_class = scores[above, label], of_class[above]
        for i in suppress(of_class, score, 0.5):
            found.append((float(score[i]), label, of_class[i].numpy()))
    found.sort(key=lambda detection: -detection[0])
    print(len(found), "detections,", len({label for _, label, _ in found[:100]}), "classes among the best 100")
    return found[:100]


def in_image(boxes):
    """COCO's results: BoxList.resize multiplies corners by new size / old size, and xyxy -> xywh adds 1 to the extents."""
    x, y = ORIGINAL[1] / SIZE[1], ORIGINAL[0] / SIZE[0]
    left, top, right, bottom = (boxes.astype(np.float64) * [x, y, x, y]).T
    return np.stack([left, top, right - left + 1, bottom - top + 1], 1)


def main():
    state = weights()
    golden = {}
    with torch.no_grad():
        levels = features(state, image())
        boxes = proposals(state, levels)
        found = detections(state, levels, boxes)
    for i, level in enumerate(levels):
        print(f"P{i + 2}", tuple(level.shape), float(level.std()))
        golden[f"p{i + 2}"] = level.flatten()[:: max(1, level.numel() // 1000)].numpy()
    golden["proposals"] = boxes.numpy()
    golden["scores"] = np.array([score for score, _, _ in found], dtype=np.float32)
    golden["labels"] = np.array([label for _, label, _ in found], dtype=np.int64)
    golden["boxes"] = np.stack([box for _, _, box in found]).astype(np.float32)
    golden["image_boxes"] = in_image(golden["boxes"])
    save_file({k: np.ascontiguousarray(v) for k, v in golden.items()}, os.path.join(HERE, "maskrcnn_benchmark.safetensors"))
    wrapped = collections.OrderedDict(("module." + name, tensor) for name, tensor in state.items())
    file = os.path.join(HERE, "maskrcnn_benchmark.pth")
    torch.save({"model": wrapped}, file, _use_new_zipfile_serialization=False)
    print(len(boxes), "proposals;", golden["scores"][:5], golden["labels"][:10])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
