"""Rows as frames of pandas, polars and Arrow. None of the three is needed for anything else."""

from __future__ import annotations

import importlib
from typing import Any, Dict, List

from ._error import Error, MissingError
from ._kinds import Columns

LIBRARIES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


def load(module: str, purpose: str) -> Any:
    """An optional library."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise MissingError(f"{purpose}: {module} cannot be imported ({e})", f"pip install {module}") from e


def frame(rows: List[Dict[str, Any]], columns: Columns, as_: str) -> Any:
    """A frame with these columns. Missing integers do not make floats of the others: no digit is lost."""
    if as_ not in LIBRARIES:
        raise Error(f"as_ = {as_!r}: there is no such kind of frame", "one of " + ", ".join(LIBRARIES))
    library = load(LIBRARIES[as_], f"a frame of {as_}")
    values = {name: [row[name] for row in rows] for name, _ in columns}
    if as_ == "pandas":
        types = {"i": "int64", "i?": "Int64", "f": "float64", "s": "string", "b": "bool", "b?": "boolean"}
        made = {
            name: library.Series(values[name], dtype=types.get(kind, types[kind[0]]), name=name) for name, kind in columns
        }
        return library.DataFrame(made, columns=[name for name, _ in columns])
    if as_ == "polars":
        types = {"i": library.Int64, "f": library.Float64, "s": library.String, "b": library.Boolean}
        return library.DataFrame(values, schema={name: types[kind[0]] for name, kind in columns})
    types = {"i": library.int64(), "f": library.float64(), "s": library.string(), "b": library.bool_()}
    return library.table({name: library.array(values[name], types[kind[0]]) for name, kind in columns})
