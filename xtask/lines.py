#!/usr/bin/env python3
"""Lines of `src` without tests, by crate; the median file; functions of more than 60 lines.

    python3 xtask/lines.py [ROOT]        # ROOT: a checkout, by default this one
"""

import re
import statistics
import sys
from pathlib import Path

LONGEST = 60
TEST_ITEM = re.compile(r"^\s*#\[cfg\((?:test|all\(test\b.*)\)\]")
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |extern \"C\" )*fn (\w+)")


def without_tests(lines):
    """The lines outside of items that are compiled for tests alone."""
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
    """Name and length of each function that is longer than LONGEST, as rustfmt lays functions out."""
    for start, line in enumerate(lines):
        found = FUNCTION.match(line)
        body = next((i for i in range(start, len(lines)) if lines[i].rstrip().endswith(("{", ";", "}"))), start)
        if not found or not lines[body].rstrip().endswith("{"):
            continue
        end = next((i for i in range(start, len(lines)) if lines[i].startswith(found[1] + "}")), start)
        if end - start + 1 > LONGEST:
            yield found[2], end - start + 1


def main(root):
    total, all_sizes, long = 0, [], []
    for crate in sorted([*(root / "crates").iterdir(), root / "xtask"]):
        sizes = []
        for path in sorted(crate.glob("src/**/*.rs")):
            if path.name == "tests.rs" or "tests" in path.relative_to(crate).parts:
                continue
            lines = without_tests(path.read_text().splitlines())
            sizes.append(len(lines))
            long += [f"{path.relative_to(root)}: {name}, {n}" for name, n in long_functions(lines)]
        if sizes:
            print(f"{crate.name:16} {sum(sizes):6} lines in {len(sizes):3} files")
            total += sum(sizes)
            all_sizes += sizes
    print(f"{'all':16} {total:6} lines in {len(all_sizes):3} files, median {statistics.median(all_sizes):.0f}, longest {max(all_sizes)}")
    print(f"functions of more than {LONGEST} lines: {len(long)}")
    for line in long:
        print(f"  {line}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
