"""The notebooks and the examples of docs/python.md run."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import shutil
import tempfile
import unittest
from typing import Any, Iterator

import holdup
import support

NOTEBOOKS = sorted((support.ROOT / "python/notebooks").glob("*.ipynb"))


@contextlib.contextmanager
def working_folder() -> Iterator[str]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="holdup-python-") as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def execute(code: str, name: str, names: dict[str, Any]) -> Any:
    """Executes a cell; the value of its last line, as a notebook shows it."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(tree, name, "exec"), names)
        return eval(compile(ast.Expression(last.value), name, "eval"), names) if isinstance(last, ast.Expr) else None


def cells(name: str) -> list[str]:
    document = json.loads((support.ROOT / "python/notebooks" / f"{name}.ipynb").read_text())
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


class Notebooks(unittest.TestCase):
    def run_notebook(self, name: str) -> dict[str, Any]:
        support.program()
        names: dict[str, Any] = {}
        with working_folder():
            for number, code in enumerate(cells(name)):
                execute(code, f"{name}, cell {number}", names)
        return names

    def test_they_are_kept_without_outputs(self) -> None:
        self.assertEqual([path.stem for path in NOTEBOOKS], ["ab", "account", "sweep"])
        for path in NOTEBOOKS:
            for cell in json.loads(path.read_text())["cells"]:
                self.assertEqual((cell.get("outputs", []), cell.get("execution_count")), ([], None), path.name)

    def test_ab(self) -> None:
        names = self.run_notebook("ab")
        report = names["bundle"].report()["comparisons"]
        headline = next(found for found in report if found["primary"] and found["pooled"] and found["contrast"]["kind"] == "axis")
        if len(names["logs"]) == headline["ratio"]["n"]:
            self.assertAlmostEqual(names["ratio"] / headline["ratio"]["value"], 1, places=9)

    def test_sweep(self) -> None:
        names = self.run_notebook("sweep")
        self.assertEqual(len(names["curve"]), 6)
        self.assertEqual(set(names["kept"]), {"algorithm=tas", "algorithm=ticket"})
        # A simulated ticket lock stops all threads when the next in turn has no CPU.
        self.assertLess(names["kept"]["algorithm=ticket"], names["kept"]["algorithm=tas"])

    def test_account(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("the collector account needs root")
        try:
            names = self.run_notebook("account")
        except holdup.HostError as e:
            self.skipTest(e.problem)
        states = {row["collector"]: row for row in names["bundle"].rows("collectors")}
        if states["account"]["state"] == "unavailable":
            self.skipTest(f"the collector account: {states['account']['reason']}")
        shares: dict[int, float] = {}
        for row in names["account"]:
            shares[row["arm"]] = shares.get(row["arm"], 0.0) + row["share"]
        self.assertTrue(shares)
        for share in shares.values():
            self.assertAlmostEqual(share, 1, places=6)
        self.assertEqual(len(names["seconds"]), len(names["bundle"].trials))

    def test_with_jupyter(self) -> None:
        support.need("nbclient")
        support.need("ipykernel")
        import nbclient  # type: ignore[import-not-found,unused-ignore]
        import nbformat  # type: ignore[import-not-found,unused-ignore]

        with working_folder() as folder:
            notebook = nbformat.read(support.ROOT / "python/notebooks/sweep.ipynb", 4)
            client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": folder}}, timeout=300)
            client.execute(env=support.environment())
        self.assertIn("simulated", notebook.cells[1].outputs[0]["data"]["text/plain"])


class Examples(unittest.TestCase):
    def test_every_example_of_the_page_runs(self) -> None:
        page = (support.ROOT / "docs/python.md").read_text()
        examples = [block.split("```")[0] for block in page.split("```python\n")[1:]]
        self.assertGreaterEqual(len(examples), 6)
        bundle = support.made("sweep")
        missing = []
        with working_folder():
            shutil.copyfile(bundle, "a.holdup")
            names: dict[str, Any] = {}
            for number, code in enumerate(examples):
                try:
                    execute(code, f"docs/python.md, example {number}", names)
                except holdup.MissingError as e:
                    missing.append(f"example {number}: {e.problem}")
        if missing:
            self.skipTest("in part: " + "; ".join(missing))

    def test_the_page_lists_every_kind_and_every_exception(self) -> None:
        page = (support.ROOT / "docs/python.md").read_text()
        from holdup._kinds import COMPUTED, KINDS

        for kind in [*KINDS, *COMPUTED]:
            self.assertIn(f"| `{kind}` |", page)
        for name in holdup.__all__:
            if name.endswith("Error") and name != "Error":
                self.assertIn(f"`{name}`", page)
