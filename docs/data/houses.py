"""Writes houses.csv, houses_test.csv and houses_new.csv beside it: invented houses with their prices in thousands. Every other one is
renovated and costs 1.5 times as much; no column says which, so that p(price | the others) has two modes."""

import random
from pathlib import Path

random.seed(1)


def house():
    area, built, district = random.randint(60, 220), random.randint(1900, 2020), random.choice(["centre", "north", "harbour"])
    price = (135 + 1.35 * area + 0.225 * (built - 1900)) * {"centre": 1.4, "north": 1.0, "harbour": 1.2}[district]
    price *= random.choice([1.0, 1.5]) * random.gauss(1, 0.04)
    sold = f"{random.randint(1990, 2024)}-{random.randint(1, 12):02}-01"
    return [sold, area, built, district, random.choice(["yes", "no", ""]), round(price, 1)]


for name, count, columns in [("houses", 600, 6), ("houses_test", 200, 6), ("houses_new", 5, 5)]:
    rows = [["sold", "area", "built", "district", "garden", "price"], *(house() for _ in range(count))]
    text = "\n".join(",".join(map(str, row[:columns])) for row in rows)
    (Path(__file__).parent / f"{name}.csv").write_text(text + "\n")
