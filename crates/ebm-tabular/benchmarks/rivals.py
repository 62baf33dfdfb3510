"""Other packages' densities and quantiles on the UCI sets with the splits of Gal and Ghahramani, as `ebm reproduce tabular` reads them.

    pip install ngboost catboost lightgbm scikit-learn torch tabm rtdl_num_embeddings
    OMP_NUM_THREADS=1 python rivals.py UCI_Datasets OUT.csv [--splits 20] [--sets energy,concrete] [--methods ngboost]

All as they come, with one thread: NGBoost's Normal with 500 trees; 50 quantiles in one model (CatBoost), by one model each (LightGBM,
scikit-learn's histograms), or as 50 outputs of TabM's 32 members on piecewise-linear embeddings, stopped on a tenth of the training rows.
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


LEVELS = (np.arange(50) + 0.5) / 50


def catboost(train, test):
    from catboost import CatBoostRegressor

    start = time.time()
    loss = "MultiQuantile:alpha=" + ",".join(f"{level:.2f}" for level in LEVELS)
    model = CatBoostRegressor(loss_function=loss, thread_count=1, random_seed=0, verbose=False).fit(*train)
    seconds = time.time() - start
    return of_quantiles(model.predict(test[0]), test[1], seconds)


def lightgbm(train, test):
    from lightgbm import LGBMRegressor

    model_of = lambda level: LGBMRegressor(objective="quantile", alpha=level, n_jobs=1, random_state=0, verbose=-1)
    return one_model_each(model_of, train, test)


def histograms(train, test):
    from sklearn.ensemble import HistGradientBoostingRegressor

    model_of = lambda level: HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0)
    return one_model_each(model_of, train, test)


def one_model_each(model_of, train, test):
    start = time.time()
    models = [model_of(level).fit(*train) for level in LEVELS]
    seconds = time.time() - start
    return of_quantiles(np.stack([model.predict(test[0]) for model in models], 1), test[1], seconds)


def tabm(train, test):
    import rtdl_num_embeddings
    import torch
    from tabm import TabM

    start = time.time()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    (x, y), levels = train, torch.tensor(LEVELS, dtype=torch.float32)
    center, scale, middle, width = x.mean(0), x.std(0) + 1e-8, y.mean(), y.std()
    x, unseen = (torch.tensor((part - center) / scale, dtype=torch.float32) for part in (x, test[0]))
    y = torch.tensor((y - middle) / width, dtype=torch.float32)
    order = torch.randperm(len(y))
    held, learnt = order[: len(y) // 10], order[len(y) // 10 :]
    varies = x[learnt].std(0) > 0
    x, unseen = x[:, varies], unseen[:, varies]
    bins = rtdl_num_embeddings.compute_bins(x[learnt], n_bins=min(48, len(learnt) - 1))
    embeddings = rtdl_num_embeddings.PiecewiseLinearEmbeddings(bins, 16, activation=False, version="B")
    model = TabM.make(n_num_features=x.shape[1], d_out=len(LEVELS), num_embeddings=embeddings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=3e-4)

    def pinball(quantiles, y):
        error = y - quantiles
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    def predict(x):
        model.eval()
        with torch.no_grad():
            return torch.cat([model(part).mean(1) for part in x.split(1024)])

    best, since = (np.inf, None), 0
    while since < 16:
        model.train()
        for rows in learnt[torch.randperm(len(learnt))].split(64 if len(learnt) < 2000 else 256):
            optimizer.zero_grad()
            pinball(model(x[rows]), y[rows, None, None]).backward()
            optimizer.step()
        loss, since = pinball(predict(x[held]), y[held, None]).item(), since + 1
        if loss < best[0]:
            best, since = (loss, {name: value.clone() for name, value in model.state_dict().items()}), 0
    model.load_state_dict(best[1])
    seconds = time.time() - start
    return of_quantiles(predict(unseen).numpy() * width + middle, test[1], seconds)


def of_quantiles(quantiles, found, seconds):
    quantiles, y = np.sort(quantiles, axis=1), found[:, None]
    pinball = np.maximum(LEVELS * (y - quantiles), (LEVELS - 1) * (y - quantiles))
    low, high = (np.array([np.interp(level, LEVELS, row) for row in quantiles]) for level in (0.05, 0.95))
    inside = (low <= found) & (found <= high)
    return None, rmse(quantiles.mean(axis=1), found), 2 * pinball.mean(), inside.mean(), seconds


def rmse(found, y):
    return np.sqrt(np.mean((found - y) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--methods", default="ngboost,catboost,lightgbm,histograms,tabm")
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
