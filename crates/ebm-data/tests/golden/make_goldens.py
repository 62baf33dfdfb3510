"""Makes the golden files beside it: python make_goldens.py (Pillow, torch, torchvision).

images/*        small pictures in every encoding that decode.rs promises to read, and their RGB by Pillow
resize.json     Pillow's and torchvision's resizing of a fixed picture, and both rules for the size
"""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.models.detection.transform import GeneralizedRCNNTransform

HERE = Path(__file__).parent


def picture(width, height):
    """The formula that the Rust test repeats."""
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return ((x * x * 3 + y * 7 + x * y * (c + 1) + 40 * c) % 256).astype(np.uint8)


def smooth(width, height):
    """Smooth enough for JPEG to keep."""
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return (127 + 100 * np.sin(x / (5.0 + c)) * np.cos(y / 7.0)).astype(np.uint8)


def maskrcnn_size(w, h, size, max_size):
    short, long = float(min(w, h)), float(max(w, h))
    if long / short * size > max_size:
        size = int(round(max_size * short / long))
    if (w <= h and w == size) or (h <= w and h == size):
        return h, w
    if w < h:
        return int(size * h / w), size
    return size, int(size * w / h)


def torchvision_size(w, h, size, max_size):
    scale = min(size / min(w, h), max_size / max(w, h))
    out = torch.nn.functional.interpolate(
        torch.zeros(1, 1, h, w), scale_factor=scale, mode="bilinear", recompute_scale_factor=True
    )
    return tuple(out.shape[-2:])


def resizes():
    pillow, box, torch_ = [], [], []
    both = [
        ((13, 9), (29, 20)), ((13, 9), (13, 21)), ((13, 9), (31, 9)), ((37, 23), (11, 7)),
        ((37, 23), (36, 24)), ((37, 23), (5, 40)), ((64, 3), (7, 3)), ((5, 5), (1, 1)), ((1, 1), (4, 3)),
    ]
    # Pillow 13 takes the rows of these first, but for the last.
    tall = [((22, 37), (16, 24)), ((20, 37), (21, 11)), ((24, 37), (12, 13))]
    for cases, filter, found in [(both, Image.BILINEAR, pillow), (both + tall, Image.BOX, box)]:
        for (w, h), (nw, nh) in cases:
            out = np.asarray(Image.fromarray(picture(w, h)).resize((nw, nh), filter))
            found.append({"from": [w, h], "to": [nw, nh], "pixels": out.flatten().tolist()})
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    for (w, h), (short, long) in [((13, 9), (20, 40)), ((13, 9), (20, 27)), ((23, 37), (8, 100)), ((11, 11), (11, 11))]:
        transform = GeneralizedRCNNTransform(short, long, mean, std).eval()
        image = torch.from_numpy(picture(w, h)).permute(2, 0, 1).float() / 255
        boxes = torch.tensor([[1.0, 2.0, 7.5, 8.25]])
        batch, targets = transform([image], [{"boxes": boxes, "labels": torch.tensor([1])}])
        torch_.append({
            "from": [w, h], "rule": [short, long], "size": list(batch.image_sizes[0]),
            "padded": list(batch.tensors.shape[-2:]),
            "data": [round(v, 7) for v in batch.tensors.flatten().tolist()],
            "boxes": targets[0]["boxes"].flatten().tolist(),
        })
    sizes = []
    rng = np.random.default_rng(0)
    known = [(640, 480), (500, 375), (640, 360), (1000, 300), (480, 640), (427, 640), (640, 427), (333, 500)]
    for w, h in known + [tuple(map(int, rng.integers(20, 1500, 2))) for _ in range(200)]:
        for rule in [(800, 1333), (320, 533)]:
            sizes.append([w, h, *rule, *maskrcnn_size(w, h, *rule), *torchvision_size(w, h, *rule)])
    return {"pillow": pillow, "box": box, "torch": torch_, "sizes": sizes}


def images():
    (HERE / "images").mkdir(exist_ok=True)
    base = Image.fromarray(smooth(41, 29))
    rng = np.random.default_rng(1)
    alpha = Image.fromarray(rng.integers(0, 256, (29, 41), dtype=np.uint8).astype(np.uint8))
    rgba = base.copy()
    rgba.putalpha(alpha)
    deep = Image.fromarray((np.asarray(base.convert("L")).astype(np.uint16) * 257))
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees on display
    cases = {
        "rgb_444.jpg": (base, dict(quality=90, subsampling=0)),
        "rgb_420.jpg": (base, dict(quality=90, subsampling=2)),
        "progressive.jpg": (base, dict(quality=90, progressive=True)),
        "grey.jpg": (base.convert("L"), dict(quality=90)),
        "cmyk.jpg": (base.convert("CMYK"), dict(quality=90)),
        "exif_rotated.jpg": (base, dict(quality=90, subsampling=0, exif=exif)),
        "rgb.png": (base, {}),
        "grey.png": (base.convert("L"), {}),
        "grey16.png": (deep, {}),
        "palette.png": (base.quantize(16), {}),
        "rgba.png": (rgba, {}),
        "grey_alpha.png": (rgba.convert("LA"), {}),
        "rgb.bmp": (base, {}),
        "grey.bmp": (base.convert("L"), {}),
        "palette.bmp": (base.quantize(16), {}),
        "bits.bmp": (base.convert("1"), {}),
        "rgba.bmp": (rgba, {}),
        "rgb.webp": (base, dict(quality=90)),
        "rgba.webp": (rgba, dict(quality=90)),
        "exif.webp": (base, dict(quality=90, exif=exif)),
    }
    # Named, and not read.
    base.save(HERE / "images/lossless.webp", lossless=True)
    base.save(HERE / "images/animated.webp", save_all=True, append_images=[rgba.convert("RGB").rotate(180)])
    for name, (image, options) in cases.items():
        image.save(HERE / "images" / name, **options)
        if name == "grey16.png":
            rgb = base.convert("L").convert("RGB")
        else:
            rgb = Image.open(HERE / "images" / name).convert("RGB")
        (HERE / "images" / (name + ".rgb")).write_bytes(np.asarray(rgb).tobytes())


if __name__ == "__main__":
    images()
    (HERE / "resize.json").write_text(json.dumps(resizes(), separators=(",", ":")))
