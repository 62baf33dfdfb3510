"""Columns of arrays and data frames, as the compiled module takes them."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

Column = np.ndarray | list[str]


def is_frame(X: Any) -> bool:
    """Returns whether X has named columns, as in pandas and polars."""
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def columns(X: Any) -> list[Column]:
    """Returns each column as float64, or as texts. NaN and empty texts are gaps."""
    if not is_frame(X):
        return [_column(X[:, place], f"column {place}") for place in range(X.shape[1])]
    pick = (lambda place: X.iloc[:, place]) if hasattr(X, "iloc") else (lambda place: X[:, place])
    return [_column(pick(place).to_numpy(), str(name)) for place, name in enumerate(X.columns)]


def categories(X: Any) -> list[str]:
    """Returns the names of pandas' categorical columns, which are categories even if they hold numbers."""
    return [str(name) for name, kind in zip(X.columns, X.dtypes) if str(kind) == "category"] if is_frame(X) else []


def packed(column: Column) -> bytes | list[str]:
    """Returns the column as the compiled module takes it."""
    return column.tobytes() if isinstance(column, np.ndarray) else column


def _column(values: np.ndarray, name: str) -> Column:
    kind = values.dtype.kind
    if kind in "iuf":
        found = np.ascontiguousarray(values, dtype=np.float64)
        if np.isinf(found).any():
            raise ValueError(f"Input X contains infinity, in {name}.")
        return found
    if kind == "M":
        return np.datetime_as_string(values).tolist()
    if kind == "c":
        raise ValueError(f"Complex data not supported, in {name}.")
    if kind in "bOUT":
        return [_text(value, name) for value in values.tolist()]
    raise TypeError(f"{name} has the type {values.dtype}; give numbers, texts, booleans or dates")


def _text(value: Any, name: str) -> str:
    """Returns the text that a CSV file has for a value."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, complex):
        raise ValueError(f"Complex data not supported, in {name}.")
    if isinstance(value, numbers.Number):
        if np.isinf(float(value)):
            raise ValueError(f"Input X contains infinity, in {name}.")
        return "" if value != value else str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{name}: argument must be a string or a number, not {type(value).__name__!r}")
