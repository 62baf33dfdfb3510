"""Takes over a run of `cargo xtask reproduce toy`: copies its CSV files to docs/results and writes the tables of docs/toy.md
from them.

    python docs/benchmarks/toy_tables.py runs/toy-1
"""

import csv
import pathlib
import shutil
import statistics
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent
CALIBRATION = ["nll", "crps", "ece", "coverage", "width", "conformal_coverage", "conformal_width"]


MARKER = """<!-- table: results/toy_calibration.csv
by: cargo xtask reproduce toy
rows: dataset, method
columns: count(nll) | """ + " | ".join(f"mean({column}) sd({column})" for column in CALIBRATION) + "\n-->"


def groups(path, *keys):
    """The records of a file by these columns, in the file's order."""
    found = {}
    with open(path, newline="") as file:
        for record in csv.DictReader(file):
            found.setdefault(tuple(record[key] for key in keys), []).append(record)
    return found


def mean_and_spread(values):
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def numbers(records, column):
    return [float(record[column]) for record in records]


def divergences(dataset):
    for (name, method), records in groups(DOCS / "results/toy.csv", "dataset", "method").items():
        if name == dataset:
            kl = numbers(records, "kl")
            yield [method, str(len(kl)), mean_and_spread(kl), f"{min(kl):.3f}", f"{max(kl):.3f}"]


def calibrations():
    for (name, method), records in groups(DOCS / "results/toy_calibration.csv", "dataset", "method").items():
        cells = [mean_and_spread(numbers(records, column)) for column in CALIBRATION]
        yield [name, method, str(len(records)), *cells]


def replaced(page, place, rows):
    """The page with the rows of the table behind `place`, a part of its marker."""
    start = page.index("\n|--", page.index(place))
    body = page.index("\n", start + 1)
    end = body
    while page.startswith("\n|", end):
        line_end = page.find("\n", end + 1)
        end = len(page) if line_end < 0 else line_end
    return page[:body] + "".join("\n| " + " | ".join(row) + " |" for row in rows) + page[end:]


def main():
    run = pathlib.Path(sys.argv[1])
    shutil.copyfile(run / "results.csv", DOCS / "results/toy.csv")
    (DOCS / "results/toy_calibration_summary.csv").unlink(missing_ok=True)
    shutil.copyfile(run / "calibration.csv", DOCS / "results/toy_calibration.csv")
    page = (DOCS / "toy.md").read_text()
    for dataset in ["dataset1", "dataset2"]:
        page = replaced(page, f"where: dataset={dataset}", divergences(dataset))
    start = page.index("<!-- table: results/toy_calibration")
    page = page[:start] + MARKER + page[page.index("-->", start) + 3 :]
    page = replaced(page, MARKER, calibrations())
    (DOCS / "toy.md").write_text(page)


if __name__ == "__main__":
    main()
