"""What onnxruntime makes of the files that `ebm export` writes, for tests/export.rs.

    pip install numpy onnx onnxruntime
    mkdir /tmp/onnx && EBM_ONNX_FILES=/tmp/onnx cargo test -p ebm-cli --test export    # keeps the files that the tests export
    python crates/ebm-cli/tests/golden/onnx_values.py /tmp/onnx > crates/ebm-cli/tests/golden/onnx.json
"""

import hashlib
import json
import pathlib
import sys

import numpy
import onnx
import onnxruntime

FOLDER = pathlib.Path(sys.argv[1])


def numbers(*shape):
    """What the test computes on too."""
    count = int(numpy.prod(shape))
    return ((numpy.arange(count) * 7919 % 509) / 254.0 - 1.0).astype(numpy.float32).reshape(shape)


def run(name, inputs):
    """The file's outputs by name, after the format's own checker had its say."""
    path = FOLDER / name
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return dict(zip(names, session.run(names, inputs))), digest


def rounded(values):
    return [round(float(value), 6) for value in numpy.ravel(values)]


def means(maps):
    return {name: round(float(values.mean()), 6) for name, values in maps.items()}


def main():
    features, features_digest = run("age_features.onnx", {"images": numbers(2, 3, 112, 112)})
    y = numpy.array([[[5], [20], [35.5], [50], [80]], [[0], [1], [31], [62], [100]]], numpy.float32)
    f, head_digest = run("age_head.onnx", {"g_x": features["g_x"], "y": y})
    values = {
        "age": {
            "features": features_digest, "head": head_digest,
            "y": rounded(y), "g_x": rounded(features["g_x"][:, ::32]), "f": rounded(f["f"]),
        },
    }
    features, features_digest = run("pose_resnet_features.onnx", {"images": numbers(1, 3, 32, 32)})
    f, head_digest = run("pose_resnet_head.onnx", {"g_x": features["g_x"], "y": 30 * numbers(1, 4, 3)})
    values["pose_resnet"] = {
        "features": features_digest, "head": head_digest,
        "g_x": rounded(features["g_x"][:, ::32]), "f": rounded(f["f"]),
    }

    boxes = [
        [10.3, 8.2, 40.1, 60.7], [0, 0, 160, 128], [50, 20, 58.5, 33], [-5, 30, 70, 140], [100, 80, 158, 127],
        [64, 64, 80, 80], [3.25, 2.5, 130.75, 120.125], [150, 100, 170, 140],
    ]
    boxes = numpy.array(boxes, numpy.float32)
    levels, features_digest = run("refiner_features.onnx", {"pixels": numbers(1, 3, 128, 160)})
    f, head_digest = run("refiner_head.onnx", {**levels, "boxes": boxes})
    values["refiner"] = {
        "features": features_digest, "head": head_digest, "boxes": boxes.tolist(), "f": rounded(f["f"]),
        "means": means(levels),
    }

    boxes[:, 2:] -= boxes[:, :2]
    # Without area: f is what it is where nothing is.
    boxes = numpy.concatenate([boxes, numpy.array([[50, 50, -5, 10], [20, 30, 0, 0]], numpy.float32)])
    target = numpy.array([[30.5, 41.25, 50, 36.5]], numpy.float32)
    for name in ["tracker", "tracker_resnet"]:
        pixels = numbers(1, 3, 128, 128)
        modulation, reference_digest = run(f"{name}_reference.onnx", {"pixels": pixels, "box": target})
        maps, features_digest = run(f"{name}_features.onnx", {"pixels": numbers(1, 3, 128, 160), **modulation})
        f, head_digest = run(f"{name}_head.onnx", {**maps, "boxes": boxes})
        values[name] = {
            "reference": reference_digest, "features": features_digest, "head": head_digest,
            "box": target.tolist(), "boxes": boxes.tolist(), "f": rounded(f["f"]), "means": means({**modulation, **maps}),
        }
    versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    print(json.dumps({"made with": versions, **values}, indent=1))


if __name__ == "__main__":
    main()
