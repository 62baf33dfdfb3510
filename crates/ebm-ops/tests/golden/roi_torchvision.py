"""Golden values of RoIAlign, IoU and NMS from torchvision (made with torch 2.15.0, torchvision 0.29.2, CPU).

Run in this folder: python roi_torchvision.py
Writes roi_torchvision.safetensors (see the names below), read by ../roi_align.rs and ../boxes_golden.rs.
"""

import torch
from safetensors.torch import save_file
from torchvision.ops import batched_nms, box_iou, nms, roi_align

gen = torch.Generator().manual_seed(20)
rand = lambda *shape: torch.rand(*shape, generator=gen, dtype=torch.float64)
tensors = {}

# RoIAlign in f64: boxes inside, across the border, outside, sub-pixel, inverted.
features = rand(2, 3, 9, 11) * 2 - 1
corner = rand(14, 2) * 24 - 4
size = rand(14, 2) * 16 - 1
rois = torch.cat([torch.randint(0, 2, (14, 1), generator=gen).double(), corner, corner + size], 1)
rois[0, 1:] = torch.tensor([3.0, 2.0, 3.01, 2.02])
rois[1, 1:] = torch.tensor([60.0, 50.0, 90.0, 70.0])
rois[2, 1:] = torch.tensor([10.0, 9.0, 4.0, 3.0])
rois[3, 1:] = torch.tensor([-9.0, -9.0, 40.0, 30.0])
tensors |= {"features": features, "rois": rois}
weight = rand(14, 3, 3, 2)
tensors["weight"] = weight
for ratio in (0, 1, 2, 3):
    for aligned in (False, True):
        f = features.clone().requires_grad_()
        out = roi_align(f, rois, (3, 2), spatial_scale=0.5, sampling_ratio=ratio, aligned=aligned)
        (out * weight).sum().backward()
        tensors[f"roi_align.{ratio}.{int(aligned)}.out"] = out.detach()
        tensors[f"roi_align.{ratio}.{int(aligned)}.grad"] = f.grad

# IoU and NMS: clustered boxes, with equal scores and copies among them.
centre = (torch.rand(12, 2, generator=gen) * 100).repeat(10, 1) + torch.randn(120, 2, generator=gen) * 4
half = torch.rand(120, 2, generator=gen) * 15 + 2
boxes = torch.cat([centre - half, centre + half], 1)
boxes[5] = boxes[70]
boxes[9] = torch.tensor([7.0, 7.0, 7.0, 7.0])
scores = (torch.rand(120, generator=gen) * 40).round() / 40
groups = torch.randint(0, 4, (120,), generator=gen)
tensors |= {"boxes": boxes, "scores": scores, "groups": groups, "iou": box_iou(boxes[:20], boxes[20:60])}
for threshold in (0.3, 0.5, 0.7):
    # torchvision does not say how it orders ties: rank them by a score with the index in it.
    strict = scores.double() - torch.arange(120).double() * 1e-9
    tensors[f"nms.{threshold}"] = nms(boxes.double(), strict, threshold)
    tensors[f"batched_nms.{threshold}"] = batched_nms(boxes.double(), strict, groups, threshold)

save_file({k: v.contiguous() for k, v in tensors.items()}, "roi_torchvision.safetensors")
