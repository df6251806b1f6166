"""Reading: the same numbers as the program prints, to the last digit."""

from __future__ import annotations

import os
import unittest

import holdup
import support
from holdup._kinds import COMPUTED, KINDS


def absent_or(value: object) -> object:
    return None if isinstance(value, dict) and "absent" in value else value


class TheSameNumbers(unittest.TestCase):
    """Trials as Python reads them from SQLite against the document of `holdup report --json`."""

    def compare(self, name: str) -> None:
        bundle = holdup.open(support.made(name))
        report = bundle.report()
        self.assertEqual(len(bundle.trials), len(report["trials"]))
        numbers = 0
        evidence = iter(bundle.evidence)
        for ours, theirs in zip(bundle.trials, report["trials"]):
            for metric in theirs["measurements"]:
                self.assertEqual(repr(ours.values.get(metric["metric"])), repr(metric["value"]))
                self.assertEqual(ours.absent.get(metric["metric"]), metric["absent"])
                numbers += 1
            self.assertEqual(len(ours.values) + len(ours.absent), len(theirs["measurements"]))
            for place in ("session", "boot", "block", "position", "arm", "attempt", "started_unix_ns", "ended_unix_ns"):
                self.assertEqual(getattr(ours, place), theirs[place], place)
            self.assertEqual(ours.window_length_ns, theirs["window"]["length_ns"])
            for collected in theirs["evidence"]:
                for item in collected["items"]:
                    found = next(evidence)
                    self.assertEqual(
                        (found.trial, found.collector, found.name, found.label, found.unit),
                        (ours.trial, collected["collector"], item["name"], item["label"], item["unit"]),
                    )
                    self.assertEqual(repr(found.value), repr(item["value"].get("value")))
                    self.assertEqual(found.absent, item["value"].get("absent"))
                    numbers += 1
            for distribution in theirs["histograms"]:
                histogram = bundle.histogram(ours.trial, distribution["name"])
                self.assertEqual(histogram.count, distribution["count"])
        self.assertIsNone(next(evidence, None))
        self.assertGreater(numbers, 40)
        self.assertEqual([arm.label for arm in bundle.arms], [arm["label"] for arm in report["arms"]])
        for ours_arm, arm in zip(bundle.arms, report["arms"]):
            levels = {**arm["axes"], **arm["factors"]}
            self.assertEqual(dict(ours_arm.levels), {name: level["value"] for name, level in levels.items()})
        self.assertEqual(bundle.head.run_id, report["head"]["run_id"])
        self.assertEqual(bundle.plan.checked, report["plan"])
        self.assertEqual(bundle.command, report["head"]["command"])
        facts = [fact for reading in report["environment"] for fact in reading["facts"]]
        self.assertEqual([(f.key, f.value, f.absent) for f in bundle.facts], [(f["key"], f["value"], f["absent"]) for f in facts])
        for row, found in zip(bundle.rows("comparisons"), report["comparisons"]):
            self.assertEqual(repr(row["noise_floor"]), repr(found["noise_floor"]))
            self.assertEqual(repr(row["ratio"]), repr((found["ratio"] or {"value": None})["value"]))

    def test_a_simulated_sweep(self) -> None:
        self.compare("sweep")

    def test_lock_contention(self) -> None:
        self.compare("locks")

    def test_pgbench_on_a_real_server(self) -> None:
        self.compare("pgbench")

    def test_quantiles_of_a_histogram_are_the_metrics(self) -> None:
        for name in ("sweep", "locks"):
            bundle = holdup.open(support.made(name))
            found = 0
            for trial in bundle.trials:
                histogram = bundle.histogram(trial.trial, "acquire")
                for metric, q in (("acquire_p50_ns", 0.5), ("acquire_p99_ns", 0.99), ("acquire_p999_ns", 0.999)):
                    if metric in trial.values:
                        self.assertEqual(histogram.quantile(q), trial.values[metric])
                        found += 1
            self.assertGreater(found, 4)


class Rows(unittest.TestCase):
    def test_every_kind_has_the_columns_that_it_names(self) -> None:
        bundle = holdup.open(support.made("sweep"))
        for kind in [*KINDS, *COMPUTED]:
            rows, columns = bundle._table(kind)
            types = {"i": int, "f": float, "s": str, "b": bool}
            for row in rows:
                self.assertEqual(list(row), [name for name, _ in columns], kind)
                for name, of in columns:
                    if row[name] is None:
                        self.assertTrue(of.endswith("?"), f"{kind} {name}")
                    else:
                        self.assertIs(type(row[name]), types[of[0]], f"{kind} {name}")

    def test_trials_have_a_column_for_each_level_and_metric(self) -> None:
        bundle = holdup.open(support.made("sweep"))
        rows = bundle.rows("trials")
        self.assertEqual({(row["threads"], row["preempt"]) for row in rows}, {(4, "none"), (4, "full"), (12, "none"), (12, "full")})
        for row, trial in zip(rows, bundle.trials):
            self.assertEqual(row["operations_per_s"], trial.values["operations_per_s"])

    def test_an_unknown_kind_names_those_that_there_are(self) -> None:
        with self.assertRaisesRegex(holdup.Error, "kind = 'x': there is no such kind of rows\nhint: one of arms, .*account"):
            holdup.open(support.made("sweep")).rows("x")

    def test_timelines_and_histograms_are_decoded(self) -> None:
        bundle = holdup.open(support.made("sweep"))
        events = {row["trial"]: row["events"] for row in bundle.rows("timelines")}
        for trial, count in events.items():
            self.assertEqual([len(timeline["what"]) for timeline in bundle.timelines(trial)], [count])
        with self.assertRaisesRegex(holdup.Error, "trial 0 has no histogram nothing\nhint: rows"):
            bundle.histogram(0, "nothing")


class OldSchemas(unittest.TestCase):
    def test_every_schema_version_is_read(self) -> None:
        for version in (1, 2, 3):
            bundle = holdup.open(support.FIXTURES / f"schema-{version}.holdup")
            self.assertEqual(bundle.schema_version, version)
            self.assertTrue(bundle.trials)
            for kind in KINDS:
                bundle.rows(kind)
            stacks = [bundle.stacks(row["trial"], row["name"]) for row in bundle.rows("stacks")]
            captures = [bundle.captures(row["trial"]) for row in bundle.rows("captures")]
            self.assertEqual((bool(stacks), bool(captures)), (version >= 2, version >= 3))

    def test_the_bundles_of_every_release_are_read(self) -> None:
        kept = sorted(support.FIXTURES.glob("release-*.holdup"))
        self.assertTrue(kept)
        for path in kept:
            bundle = holdup.open(path)
            self.assertTrue(bundle.trials)
            for kind in KINDS:
                bundle.rows(kind)

    def test_the_fixtures_have_the_numbers_that_the_program_prints(self) -> None:
        support.program()
        for version in (1, 2, 3):
            bundle = holdup.open(support.FIXTURES / f"schema-{version}.holdup")
            for ours, theirs in zip(bundle.trials, bundle.report()["trials"]):
                found = {one["metric"]: one["value"] for one in theirs["measurements"] if one["value"] is not None}
                self.assertEqual(repr(dict(ours.values)), repr(found))
                self.assertEqual(ours.void_reason, theirs["void"])


class Package(unittest.TestCase):
    def test_the_version_is_that_of_the_workspace(self) -> None:
        project = (support.ROOT / "python/pyproject.toml").read_text()
        self.assertEqual(holdup.__version__, support.cargo_version())
        self.assertIn(f'version = "{holdup.__version__}"', project)

    def test_the_package_is_marked_as_typed(self) -> None:
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(holdup.__file__), "py.typed")))
