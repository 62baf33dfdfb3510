"""NGBoost and CatBoost's quantiles on the UCI sets with the splits of Gal and Ghahramani, as `ebm reproduce tabular` reads them.

    pip install ngboost catboost
    python boosting.py UCI_Datasets OUT.csv [--splits 20] [--sets energy,concrete] [--methods ngboost]

Both as they come: NGBoost's Normal with 500 trees, CatBoost with 50 quantiles in one model. One thread each.
"""

import argparse
import time
from pathlib import Path

import numpy as np

SETS = "bostonHousing,concrete,energy,kin8nm,power-plant,wine-quality-red"


def split_of(folder, split):
    data = np.loadtxt(folder / "data.txt")
    features = np.loadtxt(folder / "index_features.txt").astype(int)
    target = int(np.loadtxt(folder / "index_target.txt"))
    parts = [np.loadtxt(folder / f"index_{part}_{split}.txt").astype(int) for part in ("train", "test")]
    return [(data[rows][:, features], data[rows][:, target]) for rows in parts]


def ngboost(train, test):
    from ngboost import NGBRegressor
    from scipy.stats import norm

    start = time.time()
    model = NGBRegressor(n_estimators=500, verbose=False, random_state=0).fit(*train)
    seconds = time.time() - start
    p = model.pred_dist(test[0]).params
    mean, scale, y = p["loc"], p["scale"], test[1]
    z = (y - mean) / scale
    crps = scale * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    inside = np.abs(z) <= norm.ppf(0.95)
    return norm.logpdf(y, mean, scale).mean(), rmse(mean, y), crps.mean(), inside.mean(), seconds


def catboost(train, test):
    from catboost import CatBoostRegressor

    levels = (np.arange(50) + 0.5) / 50
    start = time.time()
    loss = "MultiQuantile:alpha=" + ",".join(f"{level:.2f}" for level in levels)
    model = CatBoostRegressor(loss_function=loss, thread_count=1, random_seed=0, verbose=False).fit(*train)
    seconds = time.time() - start
    quantiles = np.sort(model.predict(test[0]), axis=1)
    y = test[1][:, None]
    pinball = np.maximum(levels * (y - quantiles), (levels - 1) * (y - quantiles))
    low, high = (np.array([np.interp(level, levels, row) for row in quantiles]) for level in (0.05, 0.95))
    inside = (low <= test[1]) & (test[1] <= high)
    return None, rmse(quantiles.mean(axis=1), test[1]), 2 * pinball.mean(), inside.mean(), seconds


def rmse(found, y):
    return np.sqrt(np.mean((found - y) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--methods", default="ngboost,catboost")
    args = parser.parse_args()
    with args.out.open("w") as out:
        print("set,split,method,log_likelihood,rmse,crps,coverage,fit_seconds", file=out)
        for name in args.sets.split(","):
            for split in range(args.splits):
                train, test = split_of(args.data / name / "data", split)
                for method in (globals()[key] for key in args.methods.split(",")):
                    figures = ["" if figure is None else f"{figure:.6g}" for figure in method(train, test)]
                    print(name, split, method.__name__, *figures, sep=",", file=out, flush=True)


if __name__ == "__main__":
    main()
