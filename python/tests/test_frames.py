"""Frames of the libraries that are installed; the others are skipped with the reason."""

from __future__ import annotations

import subprocess
import sys
import unittest
from typing import Any

import holdup
import support
from holdup._kinds import COMPUTED, KINDS


class Frames(unittest.TestCase):
    def check(self, as_: str, module: str) -> None:
        support.need(module)
        for name in ("sweep", "locks"):
            bundle = holdup.open(support.made(name))
            for kind in [*KINDS, *COMPUTED]:
                rows, columns = bundle._table(kind)
                frame: Any = bundle.frame(kind, as_=as_)
                names = frame.column_names if as_ == "arrow" else list(frame.columns)
                self.assertEqual(list(names), [column for column, _ in columns], kind)
                for column, _ in columns:
                    found = frame[column].to_pylist() if as_ == "arrow" else list(frame[column])
                    # pandas has its own values for what is missing.
                    found = [None if repr(value) in ("None", "nan", "<NA>") else value for value in found]
                    expected = [row[column] for row in rows]
                    self.assertEqual(found, expected, f"{kind} {column}")

    def test_pandas(self) -> None:
        self.check("pandas", "pandas")

    def test_polars(self) -> None:
        self.check("polars", "polars")

    def test_arrow(self) -> None:
        self.check("arrow", "pyarrow")

    def test_types_do_not_depend_on_the_rows(self) -> None:
        support.need("pandas")
        full = holdup.open(support.made("sweep")).frame("trials")
        types = {name: str(kind) for name, kind in full.dtypes.items()}
        self.assertEqual(types["trial"], "int64")
        self.assertEqual(types["window_length_ns"], "Int64")
        self.assertEqual(types["threads"], "Int64")
        self.assertEqual(types["operations_per_s"], "float64")
        old = holdup.open(support.FIXTURES / "schema-1.holdup")
        self.assertEqual(len(old.frame("captures")), 0)
        self.assertEqual(str(old.frame("captures").dtypes["flows"]), "int64")


class Missing(unittest.TestCase):
    def test_an_unknown_library_names_those_that_there_are(self) -> None:
        bundle = holdup.open(support.FIXTURES / "schema-3.holdup")
        with self.assertRaisesRegex(holdup.Error, "as_ = 'r': .*\nhint: one of pandas, polars, arrow"):
            bundle.frame("trials", as_="r")

    def test_a_library_that_is_missing_is_named_with_its_package(self) -> None:
        code = (
            "import sys\n"
            "for name in ('pandas', 'polars', 'pyarrow', 'altair', 'matplotlib'):\n    sys.modules[name] = None\n"
            "import holdup\nbundle = holdup.open(sys.argv[1])\n"
            "for as_ in ('pandas', 'polars', 'arrow'):\n"
            "    try:\n        bundle.frame('trials', as_=as_)\n    except holdup.MissingError as e:\n        print(e.hint)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(support.FIXTURES / "schema-3.holdup")], capture_output=True, text=True,
            env=support.environment(),
        )
        self.assertEqual(done.stdout, "pip install pandas\npip install polars\npip install pyarrow\n", done.stderr)
