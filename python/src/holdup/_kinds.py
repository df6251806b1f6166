"""The kinds of rows that a bundle has: for each a query, and the types of its columns. They stand in ``kinds.json``, which the
program holdup reads too."""

from __future__ import annotations

import json
import pathlib
from typing import Dict, List, NamedTuple, Tuple

#: The types of columns. A question mark behind one means that a value may be missing.
TYPES = {"i": "integer", "f": "float", "s": "text", "b": "boolean"}

Columns = List[Tuple[str, str]]


class Kind(NamedTuple):
    """A kind of rows."""

    #: ``name:type`` of each column, in order.
    columns: str
    #: What the columns are read from: an expression for each where it is not the name itself, then tables and order.
    query: str
    #: The schema version that brought it.
    since: int = 1
    #: Whether the levels of the arm are columns, too.
    has_levels: bool = False

    def typed(self) -> Columns:
        return [(name, kind) for name, _, kind in (column.partition(":") for column in self.columns.split())]


def _load() -> Dict[str, Kind]:
    known = json.loads(pathlib.Path(__file__).with_name("kinds.json").read_text(encoding="utf-8"))
    texts = {name: {**kind, "columns": " ".join(kind["columns"]), "query": " ".join(kind.get("query", []))} for name, kind in known.items()}
    return {name: Kind(**kind) for name, kind in texts.items()}


_ALL = _load()
KINDS: Dict[str, Kind] = {name: kind for name, kind in _ALL.items() if kind.query}

#: Kinds that the program holdup computes.
COMPUTED: Dict[str, Columns] = {name: kind.typed() for name, kind in _ALL.items() if not kind.query}
