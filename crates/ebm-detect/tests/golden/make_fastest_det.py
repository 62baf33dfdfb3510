"""Makes fastest_det.safetensors and fastest_det.json: what FastestDet's published ONNX file says, by onnxruntime.

Run: python make_fastest_det.py FastestDet.onnx fastestdet_detections_single.json.xz

cells       every other cell, both ways, of the output for an input of `hashed` numbers, (11, 11, 85)
detections  of fastest_det.png, a small copy of a photograph: pixels by Pillow 13, boxes by the published rule, suppression by
            torchvision
recorded    published detections of persons: [x, y, width, height, score]
"""
import json
import lzma
import pathlib
import sys

import numpy as np
import onnxruntime
import torch
from PIL import Image
from safetensors.numpy import save_file
from torchvision.ops import batched_nms

from formula import hashed

HERE = pathlib.Path(__file__).parent
RECORDED = [168974, 158227, 435205, 515077]

session = onnxruntime.InferenceSession(sys.argv[1])
run = lambda pixels: session.run(None, {"input.1": pixels[None].astype(np.float32)})[0][0]


def detections(path):
    image = Image.open(path).convert("RGB")
    small = np.asarray(image.resize((352, 352), Image.BOX))
    out = run(small[..., ::-1].transpose(2, 0, 1) / np.float32(255)).astype(np.float64)
    rows, columns = np.meshgrid(np.arange(22), np.arange(22), indexing="ij")
    logistic = lambda v: 1 / (1 + np.exp(-v))
    x, y = (np.tanh(out[1]) + columns) / 22 * image.width, (np.tanh(out[2]) + rows) / 22 * image.height
    w, h = logistic(out[3]) * image.width, logistic(out[4]) * image.height
    boxes = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1).reshape(-1, 4)
    scores = (out[0] ** 0.6 * out[5:].max(0) ** 0.4).ravel()
    labels = out[5:].argmax(0).ravel() + 1
    kept = scores > 0.02
    boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
    order = batched_nms(torch.tensor(boxes), torch.tensor(scores), torch.tensor(labels), 0.45).numpy()
    return [[int(labels[i]), float(scores[i]), *map(float, boxes[i])] for i in order]


cells = run(hashed("fastest_det", 3 * 352 * 352).reshape(3, 352, 352)).transpose(1, 2, 0)[::2, ::2]
save_file({"cells": np.ascontiguousarray(cells)}, HERE / "fastest_det.safetensors")
recorded = {str(id): [] for id in RECORDED}
for found in json.load(lzma.open(sys.argv[2])):
    if found["image_id"] in RECORDED:
        recorded[str(found["image_id"])].append([*found["bbox"], found["score"]])
found = {"detections": detections(HERE / "fastest_det.png"), "recorded": recorded}
(HERE / "fastest_det.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
