"""Tests of the package; `.ci/python` runs them with the compiled module. EBM names the program `ebm`."""

import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from ebm_regression import EnergyRegressor
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

POINTS = {"density.points": 256, "training.dropout": 0}
QUICK = {"members": 1, "max_steps": 300, "settings": POINTS}


def line(rows, seed=0):
    """Rows of y = 2 x + e, where e is normal with the deviation 0.5."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (rows, 2))
    return X, 2 * X[:, 0] + 0.5 * random.standard_normal(rows)


@pytest.fixture(scope="module")
def fit():
    return EnergyRegressor(**QUICK).fit(*line(1000))


def frame(rows=300):
    """Numbers with gaps, categories, dates and booleans; y is 10 for "b" and else 0, with noise."""
    random = np.random.default_rng(1)
    size = random.uniform(0, 1, rows).round(3)
    size[::7] = np.nan
    place = random.choice(["a", "b", "NA"], rows)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 99, rows), "D")
    X = pd.DataFrame({"size": size, "place": place, "day": day, "is new": random.choice([True, False], rows)})
    y = pd.Series(10.0 * (place == "b") + random.standard_normal(rows), name="price")
    return X, y


def test_scikit_learns_checks_pass():
    passed = check_estimator(EnergyRegressor(members=1, max_steps=100, settings=POINTS), on_skip=None)
    assert sum(check["status"] == "passed" for check in passed) >= 50
    assert not [check["check_name"] for check in passed if check["status"] in ("failed", "xfail")]


def test_densities_have_the_known_answers(fit):
    X, y = line(2000, seed=5)
    densities = fit.predict_distribution(X)
    assert len(densities) == 2000
    grid = np.linspace(-6, 6, 4001)
    assert np.trapezoid(fit.predict_distribution(X[:20]).pdf(grid[None]), grid, axis=1) == pytest.approx(1, abs=1e-3)
    assert np.sqrt(np.mean((fit.predict(X) - 2 * X[:, 0]) ** 2)) < 0.2
    np.testing.assert_array_equal(fit.predict(X), densities.mean())
    # The entropy of a normal density of deviation 0.5 is log(0.5) + log(2 pi e)/2 = 0.726.
    assert -densities.log_prob(y).mean() == pytest.approx(0.726, abs=0.1)
    assert np.mean(densities.cdf(y) < 0.3) == pytest.approx(0.3, abs=0.06)
    assert densities.cdf(densities.quantile(0.3)) == pytest.approx(0.3, abs=1e-6)
    draws = densities.sample(50, random_state=1)
    assert draws.shape == (2000, 50)
    assert np.mean(draws - 2 * X[:, :1]) == pytest.approx(0, abs=0.1)
    np.testing.assert_array_equal(draws, densities.sample(50, random_state=1))
    assert np.abs(densities.mode() - densities.mean()).mean() < 0.3
    for row, region in enumerate(densities.highest_density_region(0.5)[:50]):
        below = fit.predict_distribution(X[row : row + 1]).cdf(region.ravel()[None])[0].reshape(-1, 2)
        assert np.diff(below).sum() == pytest.approx(0.5, abs=0.01)


def test_quantiles_grow_and_have_their_shapes(fit):
    X, _ = line(100, seed=2)
    levels = np.linspace(0, 1, 21)
    found = fit.predict_quantiles(X, levels)
    assert found.shape == (100, 21)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_array_equal(fit.predict_quantiles(X, 0.5), found[:, 10])


def test_intervals_hold_their_share(fit):
    X, y = line(2000, seed=3)
    for coverage in (0.5, 0.9):
        low, high = fit.predict_interval(X, coverage).T
        # Calibrated on 100 rows: two deviations are 2 sqrt(c (1 - c)/100).
        tolerance = 2.5 * np.sqrt(coverage * (1 - coverage) / 100)
        assert np.mean((low <= y) & (y <= high)) == pytest.approx(coverage, abs=tolerance)
    with pytest.warns(UserWarning, match="promise up to 0.990"):
        fit.predict_interval(X[:2], 0.999)


def test_a_fit_survives_its_folder_and_pickle(fit, tmp_path):
    X, _ = line(50, seed=4)
    fit.save(tmp_path / "fit")
    loaded = EnergyRegressor.load(tmp_path / "fit")
    assert loaded.get_params()["max_steps"] == 300 and loaded.n_features_in_ == 2
    for other in (loaded, pickle.loads(pickle.dumps(fit)), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(other.predict(X), fit.predict(X))
    with pytest.raises(FileExistsError):
        fit.save(tmp_path / "fit")
    again = clone(loaded).fit(*line(1000))
    np.testing.assert_array_equal(again.predict(X), fit.predict(X))
    (tmp_path / "fit" / "member-0.safetensors").write_bytes(b"0")
    with pytest.raises(ValueError, match="fit again"):
        EnergyRegressor.load(tmp_path / "fit")


def test_frames_are_read_as_their_csv_file_is(tmp_path):
    polars = pytest.importorskip("polars")
    X, y = frame()
    fit = EnergyRegressor(**QUICK).fit(X, y)
    assert list(fit.feature_names_in_) == list(X.columns)
    found = fit.predict(X)
    assert found[X["place"] == "b"].mean() > 8 and abs(found[X["place"] == "NA"].mean()) < 2
    other = polars.DataFrame({name: X[name].to_list() for name in X})
    np.testing.assert_array_equal(EnergyRegressor(**QUICK).fit(other, y).predict(other), found)
    # Numbers that are a category: 3 is no more than 2 and 4.
    codes = pd.DataFrame({"code": pd.Series([2, 3, 4] * 40, dtype="category"), "x": np.arange(120.0)})
    fit = EnergyRegressor(**QUICK).fit(codes, codes["code"] == 3)
    fit.save(tmp_path / "fit")
    assert '"category"' in (tmp_path / "fit" / "regressor.json").read_text()
    with pytest.warns(UserWarning, match="unknown"):
        fit.predict(pd.DataFrame({"code": ["9"], "x": [1.0]}))


def test_the_program_trains_and_reads_the_same_fit(tmp_path):
    program = os.environ.get("EBM")
    if program is None:
        pytest.skip("EBM names no program `ebm`")
    X, y = frame()
    X.assign(price=y).to_csv(tmp_path / "table.csv", index=False)
    fit = EnergyRegressor(**QUICK, random_state=3).fit(X, y)
    fit.save(tmp_path / "python")
    sets = ["--set", "members=1", "--set", "training.steps=300", "--set", "density.points=256", "--set", "training.dropout=0", "--seed", "3"]
    run = [program, "fit", tmp_path / "table.csv", "--target", "price", "--run", tmp_path / "ebm", *sets]
    subprocess.run(run, check=True, capture_output=True)
    weights = [(tmp_path / name / "member-0.safetensors").read_bytes() for name in ("python", "ebm")]
    assert weights[0] == weights[1]
    np.testing.assert_array_equal(EnergyRegressor.load(tmp_path / "ebm").predict(X), fit.predict(X))
    run = [program, "predict", "table", tmp_path / "table.csv", "--run", tmp_path / "python", "--out", tmp_path / "out.csv"]
    subprocess.run(run, check=True, capture_output=True)
    out = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(out["price_mean"], fit.predict(X), rtol=1e-12)
    np.testing.assert_allclose(out["price_q0.25"], fit.predict_quantiles(X, 0.25), rtol=1e-12)
    np.testing.assert_allclose(out[["price_low_0.9", "price_high_0.9"]], fit.predict_interval(X), rtol=1e-12)


def test_supports_and_weights_are_kept():
    X, y = line(300)
    fit = EnergyRegressor(**QUICK, support="positive").fit(X, np.exp(y))
    assert (fit.predict_quantiles(X, 0.001) > 0).all()
    assert list(fit.predict_distribution(X[:1]).log_prob([[0, -1, 1e9]])[0]) == [-np.inf] * 3
    fit = EnergyRegressor(**QUICK, support=(-9, 9)).fit(X, y)
    assert fit.predict_distribution(X[:1]).cdf([[-10, 9]]).tolist() == [[0, 1]]
    # Two rows of one x: the weights say which y counts.
    X, y = np.repeat(np.arange(10.0), 30)[:, None], np.tile([0.0, 10.0], 150) + 0.1 * line(300)[1]
    fit = EnergyRegressor(**QUICK).fit(X, y, sample_weight=np.tile([1.0, 99.0], 150))
    assert fit.predict(X).mean() > 9


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also where a shell has told the programs that it starts to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_keyboard_interrupt_stops_a_fit(interrupts):
    X, y = line(500)
    timer = threading.Timer(1.0, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        EnergyRegressor(max_steps=20_000, settings={"training.patience": 1_000_000}).fit(X, y)
    assert not timer.is_alive()


def test_other_threads_run_during_a_fit():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    EnergyRegressor(**QUICK).fit(*line(500))
    stop.set()
    thread.join()
    assert len(ticks) > 5


X, Y = line(60)
WRONG_FITS = {
    "three dimensions": ({}, X[None], Y, None),
    "one dimension": ({}, X[:, 0], Y, None),
    "text": ({}, "abc", Y, None),
    "none": ({}, None, Y, None),
    "no y": ({}, X, None, None),
    "unequal lengths": ({}, X, Y[:5], None),
    "empty": ({}, X[:0], Y[:0], None),
    "no columns": ({}, X[:, :0], Y, None),
    "an empty frame": ({}, pd.DataFrame(X)[:0], Y[:0], None),
    "two rows": ({}, X[:2], Y[:2], None),
    "infinite x": ({}, np.where(X > 0.9, np.inf, X), Y, None),
    "complex x": ({}, X + 1j, Y, None),
    "y with a gap": ({}, X, np.where(Y > 0, np.nan, Y), None),
    "infinite y": ({}, X, np.where(Y > 0, np.inf, Y), None),
    "a text in y": ({}, X, ["a"] * 60, None),
    "y in two columns": ({}, X, np.c_[Y, Y], None),
    "constant y": ({}, X, np.ones(60), None),
    "constant x": ({}, np.ones((60, 1)), Y, None),
    "negative weight": ({}, X, Y, -np.ones(60)),
    "weights of another length": ({}, X, Y, np.ones(3)),
    "unknown method": ({"method": "gausian"}, X, Y, None),
    "no member": ({"members": 0}, X, Y, None),
    "members in words": ({"members": "two"}, X, Y, None),
    "calibration on all": ({"calibration": 2.0}, X, Y, None),
    "unknown support": ({"support": "negative"}, X, Y, None),
    "bounds in disorder": ({"support": (3, 1)}, X, Y, None),
    "y beyond the support": ({"support": "positive"}, X, Y, None),
    "unknown setting": ({"settings": {"training.step": 3}}, X, Y, None),
    "unknown category": ({"categories": ["x7"]}, X, Y, None),
    "unknown style": ({"read_as": ["dots"]}, X, Y, None),
    "negative seed": ({"random_state": -1}, X, Y, None),
    "a word among numbers": ({}, pd.DataFrame({"a": list("123456") * 9 + list("12345x")}), Y, None),
}


@pytest.mark.parametrize("name", WRONG_FITS)
def test_wrong_fits_are_refused(name):
    arguments, x, y, weight = WRONG_FITS[name]
    with pytest.raises(ValueError):
        EnergyRegressor(**arguments).fit(x, y, sample_weight=weight)


@pytest.mark.parametrize("cell", [{"a": 1}, b"a", pd.Timedelta("1D")], ids=repr)
def test_cells_of_unknown_types_are_refused(cell):
    with pytest.raises(TypeError):
        EnergyRegressor().fit(pd.DataFrame({"a": [cell] * 60}), Y)


WRONG_CALLS = {
    "other columns": lambda fit: fit.predict(X[:, :1]),
    "no rows": lambda fit: fit.predict(X[:0]),
    "texts in place of numbers": lambda fit: fit.predict([["a", "b"]]),
    "quantile above 1": lambda fit: fit.predict_quantiles(X, 1.5),
    "quantile of NaN": lambda fit: fit.predict_quantiles(X, [np.nan]),
    "quantiles in a table": lambda fit: fit.predict_quantiles(X, [[0.5]]),
    "coverage in per cent": lambda fit: fit.predict_interval(X, 90),
    "coverage of everything": lambda fit: fit.predict_interval(X, 1.0),
    "mass of nothing": lambda fit: fit.predict_distribution(X).highest_density_region(0),
    "y of NaN": lambda fit: fit.predict_distribution(X).pdf(np.nan),
    "y of another length": lambda fit: fit.predict_distribution(X).cdf([1.0, 2.0]),
    "no samples": lambda fit: fit.predict_distribution(X).sample(0),
    "quantile below 0": lambda fit: fit.predict_distribution(X).quantile(-0.1),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls_are_refused(fit, name):
    with pytest.raises(ValueError):
        WRONG_CALLS[name](fit)


def test_other_errors_have_their_types(tmp_path):
    for call in ("predict", "predict_quantiles", "predict_interval", "predict_distribution", "save"):
        with pytest.raises(NotFittedError):
            getattr(EnergyRegressor(), call)(X)
    with pytest.raises(FileNotFoundError):
        EnergyRegressor.load(tmp_path)
    direct = EnergyRegressor("direct", **QUICK).fit(X, Y)
    assert direct.predict(X).shape == (60,)
    with pytest.raises(ValueError, match="no density"):
        direct.predict_quantiles(X)
    with pytest.warns(UserWarning, match="no calibration rows"):
        EnergyRegressor(**QUICK).fit(X, Y).predict_interval(X)


def test_the_module_is_imported_in_a_new_interpreter():
    code = "import ebm_regression as e; print(len([getattr(e, name) for name in e.__all__]), e.EnergyRegressor())"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said == "13 EnergyRegressor()\n"
