"""EnergyRegressor, NGBoost and MAPIE on scikit-learn's diabetes data, each as it comes, on five random divisions.

    pip install ./crates/ebm-python ngboost mapie
    python peers.py OUT.csv
"""

import csv
import sys
import time

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

LEVELS = (np.arange(50) + 0.5) / 50


def energy(X, y, X_test):
    from ebm_regression import EnergyRegressor

    fit = EnergyRegressor(random_state=0).fit(X, y)
    return lambda: (fit.predict_quantiles(X_test, LEVELS), *fit.predict_interval(X_test, coverage=0.9).T)


def ngboost(X, y, X_test):
    from ngboost import NGBRegressor
    from scipy.stats import norm

    fit = NGBRegressor(verbose=False, random_state=0).fit(X, y)
    normal = fit.pred_dist(X_test).params
    quantiles = lambda levels: normal["loc"][:, None] + normal["scale"][:, None] * norm.ppf(levels)
    return lambda: (quantiles(LEVELS), *quantiles([0.05, 0.95]).T)


def mapie(X, y, X_test):
    from mapie.regression import CrossConformalRegressor

    forest = RandomForestRegressor(random_state=0)
    fit = CrossConformalRegressor(forest, confidence_level=0.9, method="plus", cv=10, random_state=0).fit_conformalize(X, y)
    return lambda: (None, *fit.predict_interval(X_test)[1][:, :, 0].T)


X, y = load_diabetes(return_X_y=True)
with open(sys.argv[1], "w") as out:
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["method", "division", "fit_seconds", "crps", "coverage", "width"])
    for division in range(5):
        learnt, test, y_learnt, y_test = train_test_split(X, y, random_state=division)
        for method in (energy, ngboost, mapie):
            start = time.perf_counter()
            predict = method(learnt, y_learnt, test)
            seconds = time.perf_counter() - start
            quantiles, low, high = predict()
            crps = ""
            if quantiles is not None:
                error = y_test[:, None] - quantiles
                crps = round(2 * np.maximum(LEVELS * error, (LEVELS - 1) * error).mean(), 4)
            inside = ((low <= y_test) & (y_test <= high)).mean()
            rows.writerow([method.__name__, division, round(seconds, 2), crps, round(inside, 4), round((high - low).mean(), 2)])
