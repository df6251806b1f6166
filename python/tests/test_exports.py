"""What `holdup export` writes, read by the programs that it is for."""

from __future__ import annotations

import html.parser
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from typing import Any, Dict, List, Optional

import holdup
import support
from holdup._kinds import COMPUTED, KINDS


def export(*arguments: str) -> bytes:
    return subprocess.run([support.program(), "export", *arguments], check=True, capture_output=True).stdout


def refused(*arguments: str) -> str:
    done = subprocess.run([support.program(), "export", *arguments], capture_output=True, text=True)
    assert done.returncode in (2, 3), done
    return done.stderr


def tool(name: str) -> str:
    """A program; a test that needs it is skipped where there is none."""
    found = os.environ.get(f"HOLDUP_{name.upper().replace('-', '_')}") or shutil.which(name)
    if not found:
        raise unittest.SkipTest(f"{name} is not installed")
    return found


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        support.need("pyarrow")
        folder = tempfile.TemporaryDirectory(prefix="holdup-exports-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def tables(self, path: str, format: str) -> Dict[str, str]:
        out = os.path.join(self.folder, f"{os.path.basename(path)}-{format}")
        export(path, "--format", format, "--table", "all", "--out", out)
        files = {name: os.path.join(out, f"{name}.{format}") for name in [*KINDS, *COMPUTED]}
        self.assertEqual(sorted(os.listdir(out)), sorted(os.path.basename(file) for file in files.values()))
        return files

    def check(self, path: str) -> None:
        import pyarrow.ipc
        import pyarrow.parquet

        bundle = holdup.open(path)
        parquet, arrow = self.tables(path, "parquet"), self.tables(path, "arrow")
        for kind in [*KINDS, *COMPUTED]:
            expected = bundle.frame(kind, as_="arrow")
            with pyarrow.ipc.open_file(arrow[kind]) as file:
                ipc = file.read_all()
            for found in (pyarrow.parquet.read_table(parquet[kind]), ipc):
                found.validate(full=True)
                self.assertEqual(found.schema.names, expected.schema.names, kind)
                self.assertEqual(found.schema.types, expected.schema.types, kind)
                self.assertEqual(found.to_pylist(), expected.to_pylist(), kind)
                optional = {name: type_.endswith("?") for name, type_ in bundle._table(kind)[1]}
                self.assertEqual({field.name: field.nullable for field in found.schema}, optional, kind)

    def test_every_table_has_the_rows_of_the_package_to_the_last_digit(self) -> None:
        for name in ("sweep", "locks"):
            self.check(support.made(name))

    def test_tables_of_bundles_that_are_kept_for_ever(self) -> None:
        for version in (1, 2, 3):
            self.check(str(support.FIXTURES / f"schema-{version}.holdup"))

    def test_polars_reads_them(self) -> None:
        support.need("polars")
        import polars

        path = support.made("sweep")
        bundle = holdup.open(path)
        parquet, arrow = self.tables(path, "parquet"), self.tables(path, "arrow")
        for kind in [*KINDS, *COMPUTED]:
            expected = bundle.frame(kind, as_="polars")
            self.assertTrue(polars.read_parquet(parquet[kind]).equals(expected, null_equal=True), kind)
            self.assertTrue(polars.read_ipc(arrow[kind]).equals(expected, null_equal=True), kind)

    def test_one_table_goes_to_a_pipe(self) -> None:
        import io

        import pyarrow.parquet

        found = pyarrow.parquet.read_table(io.BytesIO(export(support.made("sweep"), "-f", "parquet", "--table", "arms")))
        self.assertEqual(found.num_rows, len(holdup.open(support.made("sweep")).rows("arms")))

    def test_errors_name_what_is_there(self) -> None:
        path = support.made("sweep")
        self.assertRegex(refused(path, "-f", "arrow", "--table", "trails"), "error: --table trails: .*\nhint: one of .*trials")
        self.assertRegex(refused(path, "-f", "arrow", "--table", "all"), "hint: name a folder with -o")
        self.assertRegex(refused(path, "-f", "csv", "--table", "trials"), "--table: this format has no tables")
        self.assertRegex(refused(path, "-f", "parquet", "-o", self.folder), "cannot write")
        self.assertRegex(refused(path, "-f", "parquet", "--table", "all", "-o", os.path.join(self.folder, "a", "b")), "cannot make")
        self.assertEqual(os.listdir(self.folder), [])


class Charts(unittest.TestCase):
    def test_every_chart_is_well_formed_and_has_its_words(self) -> None:
        import xml.etree.ElementTree as ElementTree

        with tempfile.TemporaryDirectory(prefix="holdup-exports-") as folder:
            export(support.made("sweep"), "-f", "svg", "--chart", "all", "-o", folder)
            names = sorted(os.listdir(folder))
            self.assertIn("effects.svg", names)
            self.assertTrue(any(name.startswith("curve-") for name in names))
            for name in names:
                tree = ElementTree.parse(os.path.join(folder, name)).getroot()
                texts = [node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text")]
                self.assertGreater(len(texts), 5, name)
                width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
                for node in tree.iter():
                    for key, most in (("x", width), ("y", height)):
                        if key in node.attrib:
                            self.assertTrue(0 <= float(node.attrib[key]) <= most, f"{name}: {node.tag} {node.attrib}")

    def test_the_numbers_of_the_first_are_those_of_the_report(self) -> None:
        path = support.made("sweep")
        picture = export(path, "-f", "svg").decode()
        headlines = [row for row in holdup.open(path).rows("comparisons") if row["headline"]]
        self.assertTrue(headlines)
        for row in headlines:
            self.assertIn(f"{row['factor']}={row['level']}", picture)

    def test_an_unknown_chart_lists_those_that_there_are(self) -> None:
        self.assertRegex(refused(support.made("sweep"), "-f", "svg", "--chart", "none"), "hint: one of all\n  effects")


class Rendered(html.parser.HTMLParser):
    """The tables and the strong words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: List[List[List[str]]] = []
        self.strong: List[str] = []
        self.inside: Optional[str] = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = "cell"
        elif tag == "strong":
            self.strong.append("")
            self.inside = "strong"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "strong"):
            self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside == "cell":
            self.tables[-1][-1][-1] += data
        elif self.inside == "strong":
            self.strong[-1] += data


class Markdown(unittest.TestCase):
    def test_github_renders_every_table_and_sentence(self) -> None:
        renderer = tool("cmark-gfm")
        path = support.made("sweep")
        command = [support.program(), "report", path, "--markdown", "-"]
        text = subprocess.run(command, check=True, capture_output=True).stdout
        extensions = [word for name in ("table", "autolink", "strikethrough", "tagfilter") for word in ("-e", name)]
        made = subprocess.run([renderer, *extensions], input=text, check=True, capture_output=True).stdout.decode()
        page = Rendered()
        page.feed(made)
        self.assertEqual(len(page.tables), len(re.findall(rb"^\|[-:|]+\|$", text, re.M)))
        for table in page.tables:
            self.assertGreater(len(table), 1)
            self.assertEqual({len(row) for row in table}, {len(table[0])}, table[0])
        findings = [found["sentence"] for found in holdup.open(path).report()["findings"] if found["headline"]]
        self.assertTrue(findings)
        for sentence in findings:
            self.assertIn(sentence, page.strong)


class Benchstat(unittest.TestCase):
    def test_benchstat_reads_every_trial_that_counts(self) -> None:
        benchstat = tool("benchstat")
        path = support.made("sweep")
        with tempfile.TemporaryDirectory(prefix="holdup-exports-") as folder:
            file = os.path.join(folder, "a.txt")
            export(path, "-f", "benchstat", "-o", file)
            command = [benchstat, "-format", "csv", "-filter", ".unit:operations_per_s", "-col", "/preempt", file]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertNotRegex(done.stderr, "(?i)error|invalid|parse")
        self.assertIn("threads=12", done.stdout)
        means: Dict[str, List[float]] = {}
        for row in holdup.open(path).rows("trials"):
            if row["status"] == "done" and row["replica"] is None and row["threads"] == 12 and row["algorithm"] == "tas":
                means.setdefault(row["preempt"], []).append(row["operations_per_s"])
        line = next(line for line in done.stdout.splitlines() if "algorithm=tas/threads=12" in line and "replica" not in line)
        # benchstat shows medians: of two trials that is their mean.
        shown = [float(number) for number in re.findall(r"(?<=,)[0-9.e+]+(?=,)", line)]
        for values in means.values():
            middle = sum(values) / len(values)
            self.assertTrue(any(abs(number / middle - 1) < 1e-4 for number in shown), (line, middle))


class Pprof(unittest.TestCase):
    def test_pprof_shows_the_functions_with_their_weights(self) -> None:
        # Its pprof is built at first use, which takes a minute: script/test long names it.
        go = os.environ.get("HOLDUP_GO")
        if not go:
            raise unittest.SkipTest("HOLDUP_GO does not name a program go")
        path = str(support.FIXTURES / "schema-2.holdup")
        with tempfile.TemporaryDirectory(prefix="holdup-exports-") as folder:
            file = os.path.join(folder, "cpu.pb.gz")
            export(path, "-f", "pprof", "-o", file)
            environment = {**os.environ, "PPROF_TMPDIR": folder}
            command = [go, "tool", "pprof", "-raw", file]
            raw = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        folded = export(path, "-f", "folded").decode().splitlines()
        weights = [int(line.rsplit(" ", 1)[1]) for line in folded]
        samples = re.findall(r"^ +(\d+) +\d+:", raw, re.M)
        self.assertEqual(sorted(map(int, samples)), sorted(weights))
        self.assertIn("samples/count", raw)
        self.assertIn("cpu/nanoseconds", raw)


if __name__ == "__main__":
    unittest.main()
