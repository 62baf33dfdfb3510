"""Tests of detectors, refiners, trackers and ages; `.ci/python` runs them. EBM names the program `ebm`."""

import copy
import dataclasses
import json
import os
import re
import struct
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from ebm_regression import AgeEstimator, BoxRefiner, Detector, Tracker, read_image

ROOT = Path(__file__).resolve().parents[3]
PHOTOGRAPHS = ROOT / "crates/ebm-testing/fixtures/coco/val2017"
PHOTOGRAPH = PHOTOGRAPHS / "000000005001.jpg"


@pytest.fixture(scope="module")
def image():
    return read_image(PHOTOGRAPH)


@pytest.fixture(scope="module")
def detector():
    return Detector(min_score=0.3)


@pytest.fixture(scope="module")
def refiner():
    return BoxRefiner()


@pytest.fixture(scope="module")
def tracker():
    return Tracker()


@pytest.fixture(scope="module")
def track(tracker):
    """A target that is followed; no frame after the first has been seen."""
    return tracker.start(SMALL, BOX)


@pytest.fixture(scope="module")
def estimator():
    return AgeEstimator()


def people():
    """Boxes of persons by FastestDet in the photograph."""
    entries = json.loads((ROOT / "docs/data/boxes.json").read_text())
    found = [entry["bbox"] for entry in entries if entry["image_id"] == 5001]
    return np.array([[x, y, x + width, y + height] for x, y, width, height in found])


def ebm(*arguments):
    """Objects that the program prints, a line each."""
    program = os.environ.get("EBM")
    if program is None:
        pytest.skip("EBM names no program `ebm`")
    said = subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def xyxy(bbox):
    x, y, width, height = bbox
    return [x, y, x + width, y + height]


def assert_edges(found, expected):
    for edge, name in zip(found, ["left", "top", "right", "bottom"], strict=True):
        np.testing.assert_allclose(edge, expected[name], rtol=1e-12)


def write_bmp(path, image):
    """Writes an image whose width is a multiple of 4."""
    height, width, _ = image.shape
    head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + image.size, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    path.write_bytes(head + image[::-1, :, ::-1].tobytes())


def frames(image):
    """A video of six frames: a window that moves over the photograph."""
    return [image[:, shift : shift + 600] for shift in range(0, 24, 4)]


def test_images_are_read_as_the_program_reads_them(image, tmp_path):
    assert image.dtype == np.uint8 and image.ndim == 3 and image.flags.writeable
    window = image[3:40, 5:49]
    write_bmp(tmp_path / "window.bmp", window)
    np.testing.assert_array_equal(read_image(tmp_path / "window.bmp"), window)
    # Stored with 29 rows and 41 columns.
    turned = read_image(ROOT / "crates/ebm-data/tests/golden/images/exif_rotated.jpg")
    assert turned.shape == (41, 29, 3)


def test_detections_are_those_of_the_program(detector, image):
    lines = ebm("predict", "detection", PHOTOGRAPH, "--min-score", 0.3)
    found = detector.detect(image)
    assert len(found) == len(lines) > 5 and len(detector.classes) == 80
    for one, line in zip(found, lines):
        np.testing.assert_array_equal(one.box, xyxy(line["bbox"]))
        np.testing.assert_array_equal(one.box_before, xyxy(line["bbox_before"]))
        assert (one.label, one.name) == (line["label"], line["label_name"])
        assert detector.classes[one.label - 1] == one.name
        assert one.score == pytest.approx(line["score"], rel=1e-6) and one.density is None
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len(Detector(min_score=0.5).detect(image)) == sum(one.score >= 0.5 for one in found)


def test_a_detectors_densities_are_the_refiners(refiner, image):
    detector = Detector(min_score=0.65)
    found = detector.detect(image, density=True, samples=64, random_state=2)
    persons = [one for one in found if one.name == "person"]
    boxes = [one.box_before for one in persons]
    others = refiner.refine(image, boxes, density=True, samples=64, random_state=2)
    assert len(persons) == len(others) > 3
    for one, other in zip(persons, others):
        np.testing.assert_allclose(one.box, other.box, atol=1e-9)
        assert one.density.effective_sample_size == pytest.approx(other.density.effective_sample_size, rel=1e-6)
    assert all(one.density is None for one in found if one.name != "person")
    again = detector.detect(image, density=True, samples=64, random_state=3)
    assert again[0].density.effective_sample_size != found[0].density.effective_sample_size


def test_refined_boxes_are_those_of_the_program(refiner, image, tmp_path):
    boxes = people()[:9]
    names = ["person"] * len(boxes)
    names[1] = "dog"
    scores = np.linspace(1, 0.1, len(boxes))
    height, width, _ = image.shape
    record = {"id": 0, "file_name": PHOTOGRAPH.name, "width": width, "height": height}
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    (tmp_path / "images.json").write_text(json.dumps({"images": [record], "categories": categories}))
    results = [
        {"image_id": 0, "category_id": number, "score": score, "bbox": [x0, y0, x1 - x0, y1 - y0]}
        for (x0, y0, x1, y1), number, score in zip(boxes.tolist(), [1, 18, *[1] * 7], scores.tolist())
    ]
    (tmp_path / "results.json").write_text(json.dumps(results))
    named = ["--results", tmp_path / "results.json", "--annotations", tmp_path / "images.json", "--images", PHOTOGRAPHS]
    options = ["--min-score", 0.2, "--density", "--samples", 256, "--seed", 3, "--out", tmp_path / "out.json"]
    ebm("refine", *named, "--refiner", ROOT / "weights/refiner.safetensors", *options)
    lines = json.loads((tmp_path / "out.json").read_text())
    arguments = {"min_score": 0.2, "density": True, "samples": 256, "random_state": 3}
    found = refiner.refine(image, boxes, scores, names, **arguments)
    assert len(found) == len(lines) and sum(one.refined for one in found) == 7
    for place, (one, line) in enumerate(zip(found, lines)):
        assert one.refined == ("f" in line) == (place != 1 and scores[place] >= 0.2)
        np.testing.assert_array_equal(one.box_before, boxes[place])
        np.testing.assert_allclose(one.box, xyxy(line["bbox"]), rtol=1e-12)
        assert (one.score, one.label) == (scores[place], names[place])
        if not one.refined:
            np.testing.assert_array_equal(one.box, boxes[place])
            assert one.f is None and one.density is None
            continue
        assert one.f == pytest.approx(line["f"], rel=1e-6)
        assert_edges(one.density.edges, line["edges_90"])
        assert one.density.effective_sample_size == pytest.approx(line["effective_sample_size"], rel=1e-12)
        assert (one.density.reliable, one.density.calibrated) == (line["reliable"], line["calibrated"])


def test_tracks_are_those_of_the_program(tracker, image, tmp_path):
    video = frames(image)
    (tmp_path / "video").mkdir()
    for number, frame in enumerate(video):
        write_bmp(tmp_path / "video" / f"{number}.bmp", frame)
    box = people()[0]
    x0, y0, x1, y1 = box.tolist()
    first, *lines = ebm("track", tmp_path / "video", "--box", f"{x0},{y0},{x1 - x0},{y1 - y0}")
    track = tracker.start(video[0], box)
    assert len(lines) == 5
    for frame, line in zip(video[1:], lines):
        found = track.update(frame, density=True)
        np.testing.assert_allclose(found.box, xyxy(line["bbox"]), rtol=1e-12)
        assert (found.state, found.f) == (line["state"], line["f"])
        assert found.score == pytest.approx(line["score"], rel=1e-12)
        assert_edges(found.edges, line["edges_90"])
        assert found.effective_sample_size == line["effective_sample_size"]
    # Without densities the boxes are the same.
    track = tracker.start(video[0], box)
    later = [track.update(frame) for frame in video[1:]]
    np.testing.assert_allclose(later[-1].box, xyxy(lines[-1]["bbox"]), rtol=1e-12)
    assert later[-1].edges is None and later[-1].effective_sample_size is None


@pytest.mark.parametrize("box", [None, [60, 20, 130, 110]], ids=repr)
def test_ages_are_those_of_the_program(estimator, image, box):
    option = [] if box is None else ["--box", f"{box[0]},{box[1]},{box[2] - box[0]},{box[3] - box[1]}"]
    [line] = ebm("predict", "age", PHOTOGRAPH, *option)
    expected, found = line["predictions"][0], estimator.estimate(image, box)
    assert found.value == expected["prediction"]
    assert np.trapezoid(found.pdf, found.ages) == pytest.approx(1, abs=1e-9)
    assert np.trapezoid(found.pdf * found.ages, found.ages) == pytest.approx(expected["mean"], abs=0.01)
    below = np.cumsum(found.pdf) * np.diff(found.ages)[0]
    assert np.interp(found.interval, found.ages, below) == pytest.approx([0.05, 0.95], abs=0.01)


def test_views_of_arrays_give_the_same(detector, image):
    wide = np.zeros((image.shape[0], image.shape[1], 4), dtype=np.uint8)
    wide[..., 2::-1] = image
    expected = detector.detect(image)
    for view in (wide[..., 2::-1], np.asfortranarray(image)):
        found = detector.detect(view)
        assert len(found) == len(expected)
        np.testing.assert_array_equal(found[0].box, expected[0].box)


def test_results_are_frozen_and_nothing_gives_nothing(detector, refiner, image):
    one = detector.detect(image)[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.score = 1.0
    assert one.box.dtype == np.float64 and one.box.shape == (4,)
    assert Detector(min_score=1.0).detect(image) == []
    assert refiner.refine(image, []) == refiner.refine(image, np.zeros((0, 4)), [], []) == []
    assert refiner.refine(image, np.zeros((0, 4)), density=True) == []
    assert detector.detect(np.zeros((1, 1, 3), dtype=np.uint8)) == []


class Tensor:
    """What the package uses of a torch.Tensor."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=np.float32)

    def __len__(self):
        return len(self.values)

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values

    def new_tensor(self, values):
        return Tensor(values)


class Boxes:
    """What the package uses of the boxes in Ultralytics' Results: rows x0, y0, x1, y1, score, class."""

    def __init__(self, data):
        self.data = data

    xyxy = property(lambda self: type(self.data)(self.rows()[:, :4]))
    conf = property(lambda self: type(self.data)(self.rows()[:, 4]))
    cls = property(lambda self: type(self.data)(self.rows()[:, 5]))

    def rows(self):
        return self.data.numpy()


class Results:
    def __init__(self, boxes, names):
        self.boxes, self.names, self.path = boxes, names, "photo.jpg"


@dataclasses.dataclass
class Detections:
    """What the package uses of supervision's Detections."""

    xyxy: np.ndarray
    confidence: np.ndarray
    class_id: np.ndarray
    data: dict


@pytest.fixture
def given(refiner, image):
    """Boxes in f32 with scores and class numbers, and the boxes that are expected."""
    boxes, scores = people()[:4].astype(np.float32), np.array([0.9, 0.8, 0.7, 0.1], dtype=np.float32)
    # The second has no extent in x.
    boxes[1, 2] = boxes[1, 0]
    numbers, expected = [0, 0, 16, 0], boxes.copy()
    expected[0] = refiner.refine(image, boxes[:1])[0].box
    assert np.abs(expected[0] - boxes[0]).max() > 0.1
    return boxes, scores, numbers, expected


NAMES = {0: "person", 16: "dog"}


def test_results_of_torchvision_are_refined(refiner, image, given):
    boxes, scores, numbers, expected = given
    results = {"boxes": Tensor(boxes), "scores": Tensor(scores), "labels": Tensor(numbers), "masks": object()}
    found = refiner.refine_results(image, results, classes=NAMES, min_score=0.5)
    np.testing.assert_array_equal(found["boxes"].values, expected)
    np.testing.assert_array_equal(results["boxes"].values, boxes)
    assert found.keys() == results.keys() and found["masks"] is results["masks"]
    listed = ["person", *["other"] * 16]
    np.testing.assert_array_equal(
        refiner.refine_results(image, results, classes=listed, min_score=0.5)["boxes"].values, expected
    )


def test_results_of_ultralytics_are_refined(refiner, image, given):
    boxes, scores, numbers, expected = given
    rows = np.c_[boxes, scores, numbers].astype(np.float32)
    results = Results(Boxes(Tensor(rows)), NAMES)
    found = refiner.refine_results(image, results, min_score=0.5)
    assert isinstance(found, Results) and found.path == "photo.jpg"
    np.testing.assert_array_equal(found.boxes.xyxy.values, expected)
    np.testing.assert_array_equal(found.boxes.data.values[:, 4:], rows[:, 4:])
    np.testing.assert_array_equal(results.boxes.data.values, rows)
    empty = Results(Boxes(Tensor(rows[:0])), NAMES)
    assert len(refiner.refine_results(image, empty).boxes.data) == 0


def test_results_of_supervision_are_refined(refiner, image, given):
    boxes, scores, numbers, expected = given
    names = {"class_name": np.array([NAMES[number] for number in numbers])}
    for data, classes in ((names, None), ({}, NAMES)):
        results = Detections(boxes.copy(), scores, np.array(numbers), data)
        found = refiner.refine_results(image, results, classes=classes, min_score=0.5)
        assert isinstance(found, Detections) and found.xyxy.dtype == np.float32
        np.testing.assert_array_equal(found.xyxy, expected)
        np.testing.assert_array_equal(results.xyxy, boxes)
    # Without classes all boxes are refined.
    found = refiner.refine_results(image, Detections(boxes.copy(), None, None, {}))
    assert (np.abs(found.xyxy - boxes).max(axis=1) > 0).tolist() == [True, False, True, True]


def test_supervisions_own_detections_are_refined(refiner, image, given):
    supervision = pytest.importorskip("supervision")
    boxes, scores, numbers, expected = given
    data = {"class_name": np.array([NAMES[number] for number in numbers])}
    results = supervision.Detections(boxes.copy(), confidence=scores, class_id=np.array(numbers), data=data)
    kept = copy.deepcopy(results)
    found = refiner.refine_results(image, results, min_score=0.5)
    assert isinstance(found, supervision.Detections) and results == kept
    np.testing.assert_array_equal(found.xyxy, expected)


def test_threads_share_the_networks(detector, refiner, tracker, estimator, image):
    box, video = people()[0], frames(image)
    track = tracker.start(video[0], box)
    works = [
        lambda: detector.detect(image)[0].box.tolist(),
        lambda: refiner.refine(image, [box])[0].box.tolist(),
        lambda: estimator.estimate(image).value,
        lambda: tracker.start(video[0], box).update(video[1]).box.tolist(),
        lambda: bool(track.update(video[1]).box.all()),
    ]
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.005):
            ticks.append(1)

    expected = [work() for work in works]
    with ThreadPoolExecutor(7) as pool:
        clock = pool.submit(tick)
        found = [pool.submit(work) for work in works * 2]
        assert [one.result() for one in found] == expected * 2
        stop.set()
        clock.result()
    assert len(ticks) > 5


def test_the_pages_code_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python_images.md").read_text(), re.DOTALL)
    names, ran = {}, 0
    for block in blocks:
        try:
            exec(block, names)
            ran += 1
        except ModuleNotFoundError as error:
            assert error.name in ("ultralytics", "torchvision", "torch", "supervision")
    assert ran >= 4


SMALL = np.zeros((40, 50, 3), dtype=np.uint8)
BOX = [5, 6, 20, 30]
WRONG_IMAGES = {
    "a path": (TypeError, "read_image", "photo.jpg"),
    "a list": (TypeError, "read_image", SMALL.tolist()),
    "none": (TypeError, "NoneType", None),
    "grey": (ValueError, "stack", SMALL[..., 0]),
    "grey with an axis": (ValueError, "stack", SMALL[..., :1]),
    "with alpha": (ValueError, "alpha", np.zeros((40, 50, 4), dtype=np.uint8)),
    "channels first": (ValueError, "transpose", SMALL.transpose(2, 0, 1)),
    "a batch": (ValueError, "one image", SMALL[None]),
    "floats": (ValueError, "255", SMALL / 255),
    "16 bits": (ValueError, "uint8", SMALL.astype(np.uint16)),
    "booleans": (ValueError, "uint8", SMALL > 0),
    "no rows": (ValueError, "one pixel", SMALL[:0]),
    "no columns": (ValueError, "one pixel", SMALL[:, :0]),
}


@pytest.mark.parametrize("name", WRONG_IMAGES)
def test_wrong_images_are_refused(detector, refiner, tracker, track, estimator, name):
    kind, match, wrong = WRONG_IMAGES[name]
    for call in (
        detector.detect,
        track.update,
        estimator.estimate,
        lambda image: refiner.refine(image, [BOX]),
        lambda image: refiner.refine_results(image, {"boxes": [BOX]}),
        lambda image: tracker.start(image, BOX),
    ):
        with pytest.raises(kind, match=match):
            call(wrong)


WRONG_CALLS = {
    "a box for boxes": (ValueError, "n, 4", lambda it: it.refiner.refine(SMALL, BOX)),
    "five numbers": (ValueError, "n, 4", lambda it: it.refiner.refine(SMALL, [[*BOX, 0.9]])),
    "x, y, width, height": (ValueError, "x \\+ width", lambda it: it.refiner.refine(SMALL, [BOX, [20, 20, 9, 9]])),
    "a box of NaN": (ValueError, "box 0", lambda it: it.refiner.refine(SMALL, [[5, 6, np.nan, 30]])),
    "an infinite box": (ValueError, "box 0", lambda it: it.refiner.refine(SMALL, [[5, 6, np.inf, 30]])),
    "a box beyond the image": (ValueError, "50 wide", lambda it: it.refiner.refine(SMALL, [[60, 6, 70, 30]])),
    "texts for boxes": (ValueError, "float", lambda it: it.refiner.refine(SMALL, [["a", "b", "c", "d"]])),
    "scores of others": (ValueError, "2 scores", lambda it: it.refiner.refine(SMALL, [BOX], [0.5, 0.5])),
    "labels of others": (ValueError, "2 labels", lambda it: it.refiner.refine(SMALL, [BOX], labels=["dog"] * 2)),
    "labels as numbers": (TypeError, "names", lambda it: it.refiner.refine(SMALL, [BOX], labels=[0])),
    "a text for labels": (TypeError, "names", lambda it: it.refiner.refine(SMALL, [BOX], labels="a")),
    "no scores to compare": (ValueError, "scores", lambda it: it.refiner.refine(SMALL, [BOX], min_score=0.5)),
    "few samples": (ValueError, "64", lambda it: it.refiner.refine(SMALL, [BOX], density=True, samples=3)),
    "half a sample": (ValueError, "whole", lambda it: it.detector.detect(SMALL, density=True, samples=99.5)),
    "a negative seed": (ValueError, "random_state", lambda it: it.detector.detect(SMALL, random_state=-1)),
    "min_score in per cent": (ValueError, "0 to 1", lambda it: Detector(min_score=50)),
    "min_score of NaN": (ValueError, "0 to 1", lambda it: Detector(min_score=np.nan)),
    "branch of the bundled": (ValueError, "branch", lambda it: Detector(branch=it.file)),
    "branch and refiner": (ValueError, "one of them", lambda it: Detector(branch=it.file, refiner=it.file)),
    "weights of no network": (ValueError, "broken", lambda it: Detector(it.broken)),
    "a tracker's weights": (ValueError, "tracking", lambda it: Detector(ROOT / "weights/tracker/model.safetensors")),
    "a detector to refine": (ValueError, "refiner", lambda it: BoxRefiner(ROOT / "weights/detector_mini.safetensors")),
    "a refiner to track": (ValueError, "track", lambda it: Tracker(ROOT / "weights/refiner.safetensors")),
    "another backbone": (ValueError, "bundled tracker", lambda it: Tracker(backbone=ROOT / "weights/detector_mini.safetensors")),
    "a run without ages": (ValueError, "not a model of a face", lambda it: AgeEstimator(ROOT / "weights/refiner.safetensors")),
    "a number for a path": (TypeError, "PathLike", lambda it: BoxRefiner(7)),
    "a folder for a file": (IsADirectoryError, "weights", lambda it: Detector(ROOT)),
    "a folder to read": (IsADirectoryError, "path", lambda it: read_image(ROOT)),
    "a folder without a run": (ValueError, "no run", lambda it: AgeEstimator(ROOT)),
    "no picture": (ValueError, "JPEG", lambda it: read_image(ROOT / "README.md")),
    "a box of three": (ValueError, "4", lambda it: it.tracker.start(SMALL, [1, 2, 3])),
    "a track beyond": (ValueError, "50 wide", lambda it: it.tracker.start(SMALL, [60, 6, 70, 30])),
    "a frame of another size": (ValueError, "one size", lambda it: it.track.update(SMALL[:30])),
    "a face beyond": (ValueError, "50 wide", lambda it: it.estimator.estimate(SMALL, [60, 6, 70, 30])),
    "a list of results": (TypeError, "Ultralytics", lambda it: it.refiner.refine_results(SMALL, [])),
    "numbers without names": (
        ValueError,
        "categories",
        lambda it: it.refiner.refine_results(SMALL, {"boxes": [BOX], "labels": [1]}),
    ),
    "a number without a name": (
        ValueError,
        "none of the 1",
        lambda it: it.refiner.refine_results(SMALL, {"boxes": [BOX], "labels": [1]}, classes=["person"]),
    ),
    "results without boxes": (TypeError, "boxes", lambda it: it.refiner.refine_results(SMALL, Results(None, NAMES))),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls_are_refused(detector, refiner, tracker, track, estimator, tmp_path, name):
    class It:
        pass

    It.detector, It.refiner, It.tracker, It.track, It.estimator = detector, refiner, tracker, track, estimator
    It.file, It.broken = tmp_path / "file", tmp_path / "broken.safetensors"
    It.file.write_bytes((ROOT / "weights/detector_mini.safetensors").read_bytes())
    It.broken.write_bytes(b"no weights")
    kind, match, call = WRONG_CALLS[name]
    with pytest.raises(kind, match=match):
        call(It)


def test_missing_files_are_named(tmp_path):
    absent = tmp_path / "absent"
    for call in (
        read_image,
        Detector,
        lambda path: Detector(branch=path),
        lambda path: Detector(refiner=path),
        BoxRefiner,
        Tracker,
        lambda path: Tracker(backbone=path),
        AgeEstimator,
    ):
        with pytest.raises(FileNotFoundError, match="absent"):
            call(absent)
