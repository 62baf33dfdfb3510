"""The table of tests/operations/roi_prroi_pool.rs: PrRoIPool as products with the integrals of tents, by torch in float64.

Run: python prroi_table.py
"""

import torch

torch.set_default_dtype(torch.float64)


def tents(low, high, bins, length):
    edges = low + (high - low) * torch.linspace(0, 1, bins + 1)
    t = (edges[:, None] - torch.arange(length)).clamp(-1, 1)
    up_to = 0.5 + t - 0.5 * t * t.abs()
    return (up_to[1:] - up_to[:-1]) * bins / (high - low)


ramp = torch.arange(16.0).reshape(4, 4)
small = torch.tensor([[1.0, 2, 0], [0, -1, 3], [2, 1, 1]])
for values, roi, bins, scale in [
    (ramp, [0, 0, 1, 1], 1, 1), (ramp, [0.5, 0.25, 2.5, 2.75], 1, 1), (ramp, [0.5, 0.25, 2.5, 2.75], 2, 1),
    (ramp, [-0.5, -0.5, 0.5, 0.5], 1, 1), (ramp, [2.5, 1, 5, 2], 1, 1), (ramp, [1, 0.5, 5, 5.5], 2, 0.5),
    (small, [0.3, 0.6, 1.9, 2.2], 1, 1), (small, [-1, -1, 3, 3], 2, 1), (torch.ones(5, 5), [-1, -1, 5, 5], 1, 1),
]:
    values, roi = values.clone().requires_grad_(), torch.tensor([float(c) for c in roi], requires_grad=True)
    x0, y0, x1, y1 = scale * roi
    out = tents(y0, y1, bins, values.shape[0]) @ values @ tents(x0, x1, bins, values.shape[1]).T
    out.sum().backward()
    print(roi.tolist(), bins, out.flatten().tolist(), roi.grad.tolist(), values.grad[:2].tolist())
