#!/usr/bin/env python3
"""Counts the lines of `src` without tests by crate, and lists functions of more than 60 lines.

    python3 xtask/lines.py [ROOT]                          # ROOT: a checkout, by default this one
    python3 xtask/lines.py [ROOT] --budget xtask/lines.txt # exit 1 if a crate has more lines than its budget

A budget file has a line `NAME LINES` for each crate. A commit that raises a budget says why.
"""

import argparse
import re
import statistics
import sys
from pathlib import Path

LONGEST = 60
TEST_ITEM = re.compile(r"^\s*#\[cfg\((?:test|all\(test\b.*)\)\]")
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |extern \"C\" )*fn (\w+)")


def without_tests(lines):
    """Returns the lines outside of items that are compiled only for tests."""
    kept, i = [], 0
    while i < len(lines):
        if not TEST_ITEM.match(lines[i]):
            kept.append(lines[i])
            i += 1
            continue
        depth = 0
        while i < len(lines):
            depth += lines[i].count("{") - lines[i].count("}")
            i += 1
            if depth <= 0 and lines[i - 1].rstrip().endswith((";", "}", "},")):
                break
    return kept


def long_functions(lines):
    """Yields the name and length of each function with more than LONGEST lines, as formatted by rustfmt."""
    for start, line in enumerate(lines):
        found = FUNCTION.match(line)
        body = next((i for i in range(start, len(lines)) if lines[i].rstrip().endswith(("{", ";", "}"))), start)
        if not found or not lines[body].rstrip().endswith("{"):
            continue
        end = next((i for i in range(start, len(lines)) if lines[i].startswith(found[1] + "}")), start)
        if end - start + 1 > LONGEST:
            yield found[2], end - start + 1


def count(root):
    """Returns the sizes of the files of each crate, and all long functions."""
    sizes, long = {}, []
    for crate in sorted([*(root / "crates").iterdir(), root / "bench", root / "xtask"]):
        for path in sorted(crate.glob("src/**/*.rs")):
            if path.name == "tests.rs" or "tests" in path.relative_to(crate).parts:
                continue
            lines = without_tests(path.read_text().splitlines())
            sizes.setdefault(crate.name, []).append(len(lines))
            long += [f"{path.relative_to(root)}: {name}, {n}" for name, n in long_functions(lines)]
    return sizes, long


def over_budget(sizes, path):
    """Yields a message for each crate with more lines than its budget, and for each line that names no crate."""
    budget = dict(line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    for name in sorted(sizes.keys() | budget.keys()):
        lines, most = sum(sizes.get(name, [])), int(budget.get(name, 0))
        if name not in sizes:
            yield f"{name} has a budget and no lines: take it out of {path.name}"
        elif lines > most:
            yield f"{name} has {lines} lines, {lines - most} more than its budget in {path.name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--budget", type=Path)
    arguments = parser.parse_args()
    sizes, long = count(arguments.root)
    for name, files in sizes.items():
        print(f"{name:16} {sum(files):6} lines in {len(files):3} files")
    files = [size for each in sizes.values() for size in each]
    print(f"{'all':16} {sum(files):6} lines in {len(files):3} files, median {statistics.median(files):.0f}, longest {max(files)}")
    print(f"functions of more than {LONGEST} lines: {len(long)}")
    for line in long:
        print(f"  {line}")
    over = list(over_budget(sizes, arguments.budget)) if arguments.budget else []
    sys.exit("\n".join(over) if over else None)


if __name__ == "__main__":
    main()
