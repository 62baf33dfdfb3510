"""The estimator."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _native
from ._columns import Column, categories, columns, is_frame, packed
from ._density import Floats, PredictedDistribution, probabilities, seed_of, share, unpacked


class EnergyRegressor(RegressorMixin, BaseEstimator):
    """Energy-based regression: a density p(y | x) for each row, by an ensemble of networks.

    Columns of X may hold numbers, dates, categories and gaps (NaN, None). They are read as `ebm fit` reads them from a
    CSV file: a text of digits is a number, a text such as "NA" is a gap. A column of pandas' type `category` holds
    categories even if they are numbers.

    Parameters
    ----------
    method : str, default="ebm"
        "ebm", or one of the methods that it is compared with: "direct", "gaussian", "laplace", "mixture", "quantile",
        "softmax". "direct" has no density. "auto" fits "ebm" and "mixture", and keeps the better.
    support : {"real", "positive"} or (low, high), default="real"
        Possible values of y: all numbers, those above 0, or those between two bounds.
    members : int, default=10
        Number of networks.
    max_steps : int, default=3000
        Largest number of updates of each network. Training ends sooner if the validation no longer improves.
    calibration : float, default=0.1
        Fraction of the rows that intervals are calibrated on. Nothing is learnt from these rows. If they are fewer than
        19, all rows are learnt from, and intervals are not calibrated.
    categories : sequence of str, default=()
        Columns of categories, even if they look like numbers. Columns of an array are called x0, x1 and so on.
    read_as : sequence of str, default=()
        Reading of texts that leave it open: "point" or "comma" for numbers, "ymd", "dmy" or "mdy" for dates.
    lenient : bool, default=False
        Whether a text that cannot be read, in a column of numbers or dates, is a gap and no error.
    settings : mapping, default=None
        Further settings by dotted key, such as {"network.width": 128}; `ebm settings tabular` lists them.
    random_state : int, RandomState or None, default=0
        Seed of all random choices. With the same number `ebm fit --seed` trains the same networks.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if it has names that are texts.
    target_name_ : str
        Name of the target in the folder of a fit.
    notes_ : list of str
        What the fit says about the rows, such as left-out ones.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm_regression import EnergyRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> fit = EnergyRegressor(members=1, max_steps=100).fit(X, 3 * X[:, 0] + np.sin(50 * X[:, 0]))
    >>> fit.predict_quantiles(X, [0.1, 0.9]).shape
    (60, 2)
    """

    def __init__(
        self,
        method: str = "ebm",
        *,
        support: str | tuple[float, float] = "real",
        members: int = 10,
        max_steps: int = 3000,
        calibration: float = 0.1,
        categories: Sequence[str] = (),
        read_as: Sequence[str] = (),
        lenient: bool = False,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.method = method
        self.support = support
        self.members = members
        self.max_steps = max_steps
        self.calibration = calibration
        self.categories = categories
        self.read_as = read_as
        self.lenient = lenient
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> EnergyRegressor:
        """Fits the networks to the rows.

        Parameters
        ----------
        X : array-like or data frame of pandas or polars, of shape (n, n_features)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            Training draws rows in proportion to these. Where rows are too few for calibration, equal rows are one row
            with a weight: a weight of 2 then is the same as the row twice.

        Returns
        -------
        EnergyRegressor
            This object.
        """
        found = self._columns(X, reset=True)
        if y is None:
            raise ValueError("This EnergyRegressor estimator requires y to be passed, but the target y is None.")
        target = getattr(y, "name", None)
        y = column_or_1d(y, warn=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, found[0], dtype=np.float64, ensure_non_negative=True)
            if not sample_weight.any():
                raise ValueError("all sample weights are zero; give some rows a weight above 0")
        names = self._names()
        table = [*found, y]
        if len(y) * self.calibration < _native.MIN_CALIBRATION - 0.5:
            table, sample_weight = _merged(table, sample_weight)
        target = target if isinstance(target, str) and target else "y"
        for column in [target, "sample_weight"][: 1 if sample_weight is None else 2]:
            while column in names:
                column += "_"
            names.append(column)
        if sample_weight is not None:
            table.append(sample_weight)
        self.target_name_ = names[len(found)]
        own = {"members": self.members, "training.steps": self.max_steps, "calibration": self.calibration}
        options: _native.Options = {
            "target": self.target_name_,
            "weight": None if sample_weight is None else names[-1],
            "method": self.method,
            "bounds": _bounds(self.support),
            "categories": [*self.categories, *categories(X)],
            "seed": seed_of(self.random_state),
            "settings": [f"{key}={json.dumps(value)}" for key, value in {**own, **(self.settings or {})}.items()],
        }
        self._native, self.notes_ = _native.Regressor.fit(self._frame("X", names, table), options)
        return self

    def predict(self, X: Any) -> Floats:
        """Returns the mean of each row's density, of shape (n,)."""
        return unpacked(self._fitted().mean(self._rows(X)), -1)

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Floats:
        """Returns the y below which each density has the mass `q`; these are not calibrated.

        Parameters
        ----------
        X : array-like or data frame of shape (n, n_features)
        q : float or array-like of shape (k,)
            Numbers from 0 to 1.

        Returns
        -------
        ndarray of shape (n,) or (n, k)
        """
        native, q = self._fitted(), probabilities(q, "q")
        return unpacked(native.quantiles(self._rows(X), q.ravel().tolist()), -1, *q.shape)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Returns the ends of an interval of each row that holds y with this probability.

        The interval spans the calibrated region of highest density: on rows that nothing was learnt from, regions of
        this size held a share of `coverage`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, n_features)
        coverage : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends.

        Warns
        -----
        UserWarning
            If the calibration rows are too few for this coverage. The intervals are then the density's own.
        """
        native, coverage = self._fitted(), share(coverage, "coverage")
        largest = native.largest_level()
        if coverage > largest:
            why = f"calibration rows promise up to {largest:.3f}" if largest else "the fit has no calibration rows"
            warnings.warn(f"intervals of coverage {coverage} are not calibrated: {why}", UserWarning, stacklevel=2)
        return unpacked(native.intervals(self._rows(X), coverage), -1, 2)

    def predict_distribution(self, X: Any) -> PredictedDistribution:
        """Returns the densities p(y | x) of the rows."""
        return PredictedDistribution(self._fitted().densities(self._rows(X)))

    def save(self, folder: str | Path) -> None:
        """Writes the fit into a new folder, which `ebm predict table --run` and `load` read.

        Raises
        ------
        FileExistsError
            If the folder is there already.
        """
        native = self._fitted()
        Path(folder).mkdir(parents=True)
        native.save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> EnergyRegressor:
        """Loads a fit of one target that `save` or `ebm fit` wrote.

        Raises
        ------
        FileNotFoundError
            If the folder has no fit.
        ValueError
            If a file of the fit was changed, or if the fit has several targets.
        """
        if not Path(folder, "regressor.json").is_file():
            raise FileNotFoundError(f"{folder} is no folder of a fit: it has no regressor.json")
        native = _native.Regressor.load(folder)
        target, bounds, method, seed, text = native.arguments()
        settings = dict(_flat(json.loads(text)))
        own = {"members": settings.pop("members"), "calibration": settings.pop("calibration")}
        own["max_steps"] = settings.pop("training.steps")
        bounds = tuple(bounds)
        support = {(-np.inf, np.inf): "real", (0.0, np.inf): "positive"}.get(bounds, bounds)
        self = cls(method, support=support, **own, settings=settings, random_state=seed)
        names = native.columns()
        self.n_features_in_, self.target_name_, self.notes_, self._native = len(names), target, [], native
        if names != [f"x{place}" for place in range(len(names))]:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return self

    def _columns(self, X: Any, reset: bool) -> list[Column]:
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                raise ValueError(f"Found array with shape={X.shape}; at least one row and one column are required.")
        else:
            least = 2 if reset else 1
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=least)
        return columns(X)

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{place}" for place in range(self.n_features_in_)] if names is None else names.tolist()

    def _frame(self, name: str, names: list[str], table: list[Column]) -> _native.Frame:
        given = [(name, packed(column)) for name, column in zip(names, table)]
        return {"name": name, "columns": given, "read_as": list(self.read_as), "lenient": bool(self.lenient)}

    def _rows(self, X: Any) -> _native.Frame:
        found = self._columns(X, reset=False)
        return self._frame("X", self._names(), found)

    def _fitted(self) -> _native.Regressor:
        check_is_fitted(self)
        return self._native

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_native")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_native" in state:
            with tempfile.TemporaryDirectory() as folder:
                self._native.save(folder)
                state["_native"] = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_native" in state:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in state["_native"].items():
                    Path(folder, name).write_bytes(content)
                state = {**state, "_native": _native.Regressor.load(folder)}
        super().__setstate__(state)


def _bounds(support: str | tuple[float, float]) -> tuple[float, float]:
    known = {"real": (-np.inf, np.inf), "positive": (0.0, np.inf)}
    if isinstance(support, str) and support in known:
        return known[support]
    try:
        low, high = map(float, support)
    except (TypeError, ValueError):
        raise ValueError(f"support={support!r}: give 'real', 'positive' or two bounds") from None
    if not (-np.inf < low < high < np.inf):
        raise ValueError(f"support={support!r}: give a lower and a higher bound that are finite")
    return low, high


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the settings by dotted key, without the lists of tables, which Python does not change."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            yield prefix + key, value


def _merged(table: list[Column], weight: Floats | None) -> tuple[list[Column], Floats | None]:
    """Merges equal rows into one with the sum of their weights, in an order that depends on their values alone.

    Rows of one weight that all differ stay as they are.
    """
    rows = list(zip(*[column.tolist() if isinstance(column, np.ndarray) else column for column in table]))
    weights, first = {}, {}
    for place, row in enumerate(rows):
        key, own = repr(row), 1.0 if weight is None else float(weight[place])
        if own > 0:
            weights[key] = weights.get(key, 0.0) + own
            first.setdefault(key, place)
    if len(set(weights.values())) == 1 and len(weights) == len(rows):
        return table, None
    # Each of the five parts that networks are validated on needs a row.
    copies = 1 if len(first) >= 5 else 5
    order = [first[key] for key in sorted(first)] * copies
    take = [column[order] if isinstance(column, np.ndarray) else [column[k] for k in order] for column in table]
    merged = np.array([weights[key] for key in sorted(first)] * copies)
    return take, merged if len(set(weights.values())) > 1 else None
