"""The compiled module. Arrays of tables are bytes of float64; images are rows, columns and samples."""

from collections.abc import Sequence
from os import PathLike
from typing import TypedDict, final

MIN_CALIBRATION: int

class Frame(TypedDict):
    name: str
    columns: list[tuple[str, bytes | list[str]]]
    read_as: Sequence[str]
    lenient: bool

class Options(TypedDict):
    target: str
    weight: str | None
    method: str
    bounds: tuple[float, float]
    categories: Sequence[str]
    seed: int
    settings: list[str]

@final
class Densities:
    def __len__(self) -> int: ...
    def mean(self) -> bytes: ...
    def mode(self) -> bytes: ...
    def quantile(self, probabilities: Sequence[float]) -> bytes: ...
    def log_prob(self, y: bytes) -> bytes: ...
    def cdf(self, y: bytes) -> bytes: ...
    def sample(self, count: int, seed: int) -> bytes: ...
    def region(self, mass: float) -> list[bytes]: ...

@final
class Regressor:
    @staticmethod
    def fit(table: Frame, options: Options) -> tuple[Regressor, list[str]]: ...
    @staticmethod
    def load(folder: str | PathLike[str]) -> Regressor: ...
    def save(self, folder: str | PathLike[str]) -> None: ...
    def columns(self) -> list[str]: ...
    def arguments(self) -> tuple[str, list[float], str, int, str]: ...
    def largest_level(self) -> float: ...
    def mean(self, x: Frame) -> bytes: ...
    def quantiles(self, x: Frame, probabilities: Sequence[float]) -> bytes: ...
    def intervals(self, x: Frame, level: float) -> bytes: ...
    def densities(self, x: Frame) -> Densities: ...

Path = str | PathLike[str]
Picture = tuple[int, int, bytes]
Box = Sequence[float]
Edges = list[list[list[float]]]

class Density(TypedDict):
    edges: Edges | None
    effective_sample_size: float
    reliable: bool
    calibrated: bool

class Detection(TypedDict):
    label: int
    name: str
    score: float
    box: list[float]
    box_before: list[float]
    density: Density | None

class Refined(TypedDict):
    box: list[float]
    f: float
    density: Density | None

class Tracked(TypedDict):
    box: list[float]
    score: float
    state: str
    f: float | None
    edges: Edges | None
    effective_sample_size: float | None

class Age(TypedDict):
    value: float
    interval: list[float]
    ages: list[float]
    log_prob: list[float]

def read_image(path: Path) -> Picture: ...
@final
class Detector:
    def __init__(self, weights: Path | None, branch: Path | None, refiner: Path | None, min_score: float) -> None: ...
    def classes(self) -> list[str]: ...
    def detect(self, picture: Picture, samples: int | None, seed: int) -> list[Detection]: ...

@final
class BoxRefiner:
    def __init__(self, weights: Path | None) -> None: ...
    def classes(self) -> list[str]: ...
    def refined(
        self,
        picture: Picture,
        boxes: Sequence[Box],
        names: Sequence[str] | None,
        samples: int | None,
        seed: int,
    ) -> list[Refined | None]: ...

@final
class Tracker:
    def __init__(self, weights: Path | None, backbone: Path | None, seed: int) -> None: ...
    def start(self, picture: Picture, bbox: Box) -> Track: ...

@final
class Track:
    def update(self, picture: Picture, samples: int | None) -> Tracked: ...

@final
class AgeEstimator:
    def __init__(self, run: Path | None) -> None: ...
    def estimate(self, picture: Picture, bbox: Box | None) -> Age: ...
