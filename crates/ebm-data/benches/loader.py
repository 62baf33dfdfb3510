"""Alternates loader.rs with torch's DataLoader over the same files in one run; see that file for the command. Numbers
after the binary choose among the works, from 0."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info
from torchvision.transforms.v2 import functional

DATA = Path(os.environ["EBM_DATA"])
WORKERS = 2
ROUNDS = int(os.environ.get("ROUNDS", "5"))
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# The same numbers for samples in 0..255, which saves a pass.
MEAN_255 = torch.tensor(MEAN)[:, None, None] * 255
STD_255 = torch.tensor(STD)[:, None, None] * 255


def output_size(width, height, short, long):
    scale = min(short / min(width, height), long / max(width, height))
    return max(int(width * scale), 1), max(int(height * scale), 1)


class Files(Dataset):
    """Decoded, mirrored, resized pictures as normalised float tensors."""

    def __init__(self, files, short, long, filter):
        self.files, self.short, self.long, self.filter = files, short, long, filter

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with Image.open(self.files[index]) as file:
            image = file.convert("RGB")
        size = output_size(*image.size, self.short, self.long)
        # Mirroring the smaller picture is the cheaper order.
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if self.filter == "pillow":
            if size != image.size:
                image = image.resize(size, Image.Resampling.BILINEAR)
            image = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        else:
            image = torch.from_numpy(np.array(image)).permute(2, 0, 1)
            if size != (image.shape[2], image.shape[1]):
                # torchvision's 8-bit kernel, on channels-last memory: its fastest.
                image = functional.resize(image, [size[1], size[0]], antialias=True)
        return image.to(torch.float32, memory_format=torch.contiguous_format).sub_(MEAN_255).div_(STD_255)


def pad(images):
    """Stacks in shared memory, as the default collation does, with zeros up to multiples of 32."""
    height, width = (-(-max(image.shape[axis] for image in images) // 32) * 32 for axis in (1, 2))
    shape = (len(images), 3, height, width)
    numbers = len(images) * 3 * height * width
    if get_worker_info() is None:
        batch = torch.zeros(shape)
    else:
        # New shared memory is zero.
        batch = torch.empty(0).set_(torch.UntypedStorage._new_shared(4 * numbers)).view(torch.float32)
        batch = batch[:numbers].view(shape) if batch.numel() != numbers else batch.view(shape)
    for image, place in zip(images, batch):
        place[:, : image.shape[1], : image.shape[2]] = image
    return batch


class ByAspect(Sampler):
    """Shuffled batches of pictures of one orientation."""

    def __init__(self, portrait, size):
        self.portrait, self.size = portrait, size

    def __iter__(self):
        groups = {False: [], True: []}
        for index in torch.randperm(len(self.portrait)).tolist():
            group = groups[self.portrait[index]]
            group.append(index)
            if len(group) == self.size:
                yield list(group)
                group.clear()
        yield from (group for group in groups.values() if group)


def copy_files(files, count, folder):
    """`count` files, the given ones again and again, and their annotations."""
    images, annotations = [], []
    for number in range(count):
        name = f"{number:06}.jpg"
        shutil.copyfile(files[number % len(files)], folder / name)
        with Image.open(folder / name) as image:
            width, height = image.size
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        box = [0, 0, width, height]
        annotations.append(
            {"id": number, "image_id": number, "category_id": 1, "bbox": box, "area": width * height, "iscrowd": 0}
        )
    content = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "thing"}]}
    (folder / "annotations.json").write_text(json.dumps(content))
    return images


def peak(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def compare(binary, title, files, count, short, long, batch, filter):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        images = copy_files(files, count, folder)
        ours = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(line):
            print(line, file=ours.stdin, flush=True)
            return ours.stdout.readline().strip()

        assert ask(f"setup {filter} {folder}/annotations.json {folder} {short} {long} {batch} {WORKERS}") == "ready"
        sampler = ByAspect([image["height"] > image["width"] for image in images], batch)
        dataset = Files([folder / image["file_name"] for image in images], short, long, filter)
        theirs = DataLoader(
            dataset, batch_sampler=sampler, num_workers=WORKERS, persistent_workers=True, collate_fn=pad
        )
        a, b, before = [], [], set(children(os.getpid()))
        for _ in range(ROUNDS):
            found, seconds = ask("epoch").split()
            assert int(found) == count
            a.append(count / float(seconds))
            start = time.perf_counter()
            assert sum(len(numbers) for numbers in theirs) == count
            b.append(count / (time.perf_counter() - start))
        workers = [peak(child) for child in children(os.getpid()) if child not in before]
        memory = f"peak {ask('peak')} MiB, torch {peak(os.getpid())} + {' + '.join(map(str, workers))} MiB"
        # torch's workers hold its input open, so that closing it would not end it.
        ours.kill()
        ours.wait()
        del theirs
    a.sort()
    b.sort()
    print(
        f"  {title:34} {a[-1]:7.1f} ({a[ROUNDS // 2]:.1f})   torch {b[-1]:7.1f} ({b[ROUNDS // 2]:.1f})"
        f"   ratio {a[-1] / b[-1]:.2f} ({a[ROUNDS // 2] / b[ROUNDS // 2]:.2f})   {memory}", flush=True,
    )


def main():
    torch.set_num_threads(1)
    binary = sys.argv[1]
    coco = sorted((DATA / "coco").glob("*2017/*.jpg"))
    faces = sorted((DATA / "utkface/images").glob("*.jpg"))
    print(f"images/s with {WORKERS} workers: maximum (median) of {ROUNDS} alternating epochs")
    works = [
        ("COCO, 800 to 1333, Pillow's filter", coco, len(coco), 800, 1333, 2, "pillow"),
        ("COCO, 800 to 1333, torch's filter", coco, len(coco), 800, 1333, 2, "torch"),
        ("faces, 200, batches of 32", faces, 2000, 200, 200, 32, "pillow"),
    ]
    chosen = [works[int(number)] for number in sys.argv[2:]] or works
    for work in chosen:
        compare(binary, *work)


if __name__ == "__main__":
    main()
