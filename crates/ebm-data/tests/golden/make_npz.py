"""Makes biwi/*.npz beside it with NumPy: python make_npz.py. With a file as argument, prints what NumPy reads of it.

The arrays have FSA-Net's names, shapes and types; their values follow formulas that the Rust test repeats.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "biwi"
COUNT, SIDE = 5, 8


def arrays():
    n, y, x, c = np.mgrid[0:COUNT, 0:SIDE, 0:SIDE, 0:3]
    image = ((31 * n + 7 * y + 3 * x + 80 * c) % 256).astype(np.uint8)
    pose = np.array([[10.5 * i, -3.25 * i, 0.125 - i] for i in range(COUNT)])
    return image, pose


def main():
    image, pose = arrays()
    HERE.mkdir(exist_ok=True)
    np.savez(HERE / "stored.npz", image=image, pose=pose, img_size=SIDE)
    np.savez_compressed(HERE / "deflated.npz", image=image, pose=pose.astype(np.float32), img_size=np.int32(SIDE))
    np.savez(HERE / "fortran.npz", image=np.asfortranarray(image), pose=pose, img_size=SIDE)
    np.savez(HERE / "pickled.npz", image=image.astype(object), pose=pose, img_size=SIDE)
    # Enough faces to draw one for validation.
    n, y, x, c = np.mgrid[0:12, 0:16, 0:16, 0:3]
    twelve = np.array([[6.0 * i - 33, 22 - 4.0 * i, i % 5 - 2] for i in range(12)])
    np.savez_compressed(HERE / "twelve.npz", image=((9 * n + 7 * y + 3 * x) % 256 + 0 * c).astype(np.uint8), pose=twelve, img_size=16)
    bad = pose.copy()
    bad[1, 2], bad[3, 0] = np.nan, 181
    np.savez(HERE / "bad_poses.npz", image=image, pose=bad, img_size=SIDE)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        with np.load(sys.argv[1]) as file:
            for name in file.files:
                print(name, file[name].dtype, file[name].shape, file[name].ravel()[:6])
