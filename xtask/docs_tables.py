#!/usr/bin/env python3
"""Writes the numbers of the tables in README.md, docs/*.md and docs/notes/*.md from CSV files: `python3 xtask/docs_tables.py [--check] [ROOT]`.

With `--check` it writes nothing, prints the differences, and exits with 1 if there are any. A table has a marker directly above it:

    <!-- table: results/toy.csv, results/paper.csv
    by: cargo xtask reproduce toy
    where: dataset=dataset1
    rows: method
    columns: count(kl) | mean(kl) sd(kl) | 100*min(kl) [refined=false] | =device
    -->

It names the files, relative to the page's folder, whose records are taken together, and the command that makes the first file. `where` selects
records; a record without the column of a condition is selected, too. `rows` names the columns whose values are in a row's first cells;
`method: direct, ebm` lists the values instead. `columns` has an entry for each further cell: `=column` takes the column's text, and otherwise there
is an expression for each number in the cell, of columns and numbers with * and / between them, or mean, sd, min, max or count of such an expression
over the row's records. `[...]` holds conditions for this cell only.

Numbers keep their decimals, and cells keep their words: a new table begins with zeros, `0.00 ± 0.00`. A number that is the rounded value stays as
it is. A table whose numbers are in no file is marked `<!-- table: none -->`.
"""

import csv
import math
import re
import statistics
import sys
from pathlib import Path

OF_RECORDS = {"mean": statistics.fmean, "sd": lambda v: statistics.stdev(v) if len(v) > 1 else None, "min": min, "max": max, "count": len}
EXPRESSION = re.compile(r"(?:(mean|sd|min|max|count)\()?([^()\[\]]+)(?(1)\))")
# Digits in a word, such as ResNet50, are part of a name.
NUMBER = re.compile(r"([-−+]?)(?<![^\W_])(\d+(?:\.(\d+))?(?:e([-+]?\d+))?)(?![^\W_]|\.\d)")
MARKER = re.compile(r"<!-- table:([^\n]*?)(?:\n(.*?))?-->\n((?:\|[^\n]*\n)*)", re.DOTALL)
BAR = re.compile(r"(?<!\\)\|")


def parts(text, by=","):
    return [part.strip() for part in text.split(by) if part.strip()]


def number(text):
    return float(text) if re.fullmatch(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", str(text)) else None


def same(a, b):
    """Returns whether the texts are the same number, or the same words in any separation."""
    x, y = number(a), number(b)
    words = [re.findall(r"[^ ,`]+", str(text).replace("**", "")) for text in (a, b)]
    return words[0] == words[1] if None in (x, y) else abs(x - y) <= 1e-9 * max(abs(x), abs(y))


def value_of(product, record):
    """Returns the value of an expression with * and /, or None if a column is empty or missing."""
    factors = [(operator, number(record[factor] if number(factor) is None else factor)) for operator, factor in re.findall(r"(^|[*/])([^*/]+)", product)]
    if None not in (factor for _, factor in factors):
        return math.prod(1 / factor if operator == "/" else factor for operator, factor in factors)


def holding(records, conditions):
    for left, right in (parts(condition, "=") for condition in parts(conditions)):
        found = [(record, record[left] if left in record else value_of(left, record)) for record in records]
        records = [record for record, value in found if value is None or same(value, right)]
    return records


def evaluated(expression, records):
    name, product = EXPRESSION.fullmatch(expression).groups()
    values = [value for record in records if (value := value_of(product, record)) is not None]
    if not name and len(set(values)) > 1:
        raise ValueError(f"`{expression}` has {len(values)} values; take their mean, or state conditions")
    return OF_RECORDS[name or "min"](values) if values else None


def written(cell, specification, records):
    """Returns the cell with the records' values, and None or an error. The spread of one value, or of equal values, may be left out."""
    specification, _, conditions = specification.partition("[")
    records, expressions = holding(records, conditions.strip(" ]")), specification.split()
    if specification.startswith("="):
        found = next((text for record in records if (text := record[expressions[0][1:]])), "–")
        return (cell if same(found, cell.strip()) else f" {found} ".rjust(len(cell) * cell.startswith("  "))), None
    numbers, values = list(NUMBER.finditer(cell)), [evaluated(expression, records) for expression in expressions]
    while len(values) > len(numbers) and expressions[len(values) - 1].startswith("sd(") and (values[-1] or 0) < 1e-12:
        values.pop()
    values = [value for value in values if value is not None]
    if len(values) != len(numbers):
        return cell, f"has {len(numbers)} numbers, the file {len(values)}: {', '.join(f'{value:.6f}' for value in values)}"
    for match, value in reversed(list(zip(numbers, values))):
        sign, digits, decimals, exponent = match.groups("")
        half = 0.5 * 10.0 ** (int(exponent or 0) - len(decimals))
        old = float(digits) * (-1 if sign in ("-", "−") else 1)
        if abs(old - value) > half * (1 + 1e-6) + 1e-9 * abs(value):
            digits = re.sub(r"e(-?)\+?0*", r"e\1", f"{abs(value):.{len(decimals)}{'e' if exponent else 'f'}}")
            sign = (sign.replace("+", "") or "−") if value < 0 else "+" * (sign == "+")
            cell = cell[:match.start()] + sign + digits + cell[match.end():]
    return cell, None


def rows_of(page, files, marker, lines):
    """Yields each row of the table as it must be, with the differences from the present row."""
    marker = {key.strip(): value for key, _, value in (line.partition(":") for line in marker.splitlines())}
    records = [record for file in parts(files) for record in csv.DictReader((page.parent / file).read_text().splitlines())]
    columns = dict.fromkeys(column for record in records for column in record)
    records = holding([{**columns, **record} for record in records], marker.get("where", ""))
    keys, _, names = marker["rows"].partition(":")
    keys, names, titles, specifications = parts(keys), parts(names), BAR.split(lines[0]), parts(marker["columns"], "|")
    for index, line in enumerate(lines[2:]):
        cells, wrong = BAR.split(line), []
        if len(cells) != len(keys) + len(specifications) + 2 or names and len(names) != len(lines) - 2:
            raise ValueError(f"{len(cells) - 2} cells in row {index + 1} of {len(lines) - 2}")
        of_row = [names[index]] if names else [cell.replace("**", "").strip() for cell in cells[1:len(keys) + 1]]
        of_row = [record for record in records if all(same(record[key], name) for key, name in zip(keys, of_row))]
        for at, specification in enumerate(specifications, len(keys) + 1):
            old, cells[at], trouble = cells[at], *written(cells[at], specification, of_row)
            if trouble or old != cells[at]:
                wrong.append(f"column `{titles[at].strip()}`: `{old.strip()}` {trouble or f'is `{cells[at].strip()}` in the file'}")
        yield "|".join(cells), wrong


def main(arguments):
    root = Path(next((word for word in arguments if word != "--check"), Path(__file__).parent.parent)).resolve()
    findings, tables = 0, 0
    for page in [root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("docs/notes/*.md"))]:
        text, found = page.read_text(), []

        def marked(match):
            line, lines = text.count("\n", 0, match.start(3)) + 1, match[3].splitlines()
            try:
                rows = [] if match[1].strip() == "none" else list(rows_of(page, match[1], match[2] or "", lines))
            except (ValueError, LookupError, AttributeError, OSError) as error:
                found.append((line, f"the marker above it: {type(error).__name__}: {error}"))
                return match[0]
            found.extend((line + 2 + index, what) for index, (_, wrong) in enumerate(rows) for what in wrong)
            return match[0][:match.start(3) - match.start()] + "\n".join([*lines[:2], *([row for row, _ in rows] or lines[2:]), ""])

        new = MARKER.sub(marked, text)
        unmarked = re.sub(rf"(?ms){MARKER.pattern}|^```.*?^```", lambda match: "\n" * match[0].count("\n"), text)
        for index, line in enumerate(unmarked.splitlines()):
            if line.startswith("|") and re.search(r"\d\.\d", re.sub(r"`.*?`|\]\(.*?\)", "", line)):
                found.append((index + 1, "a decimal number in a table without a marker"))
        print(*(f"{page.relative_to(root)}:{line}: {what}\n" for line, what in sorted(found)), sep="", end="")
        if "--check" not in arguments and new != text:
            page.write_text(new)
        findings, tables = findings + len(found), tables + len(re.findall(r"<!-- table: (?!none)", text))
    print(f"docs_tables: {tables} tables, {findings} differences from their files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
