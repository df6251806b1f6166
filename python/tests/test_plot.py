"""Charts."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest

import holdup
import support


class Rows(unittest.TestCase):
    def test_arms_are_the_comparisons_of_the_report(self) -> None:
        bundle = holdup.open(support.made("sweep"))
        rows = holdup.plot.arms_rows(bundle)
        expected = [
            found["ratio"]
            for found in bundle.report()["comparisons"]
            if found["pooled"] and found["metric"]["id"] == "operations_per_s" and found["ratio"]
        ]
        drawn = [(row["ratio"], row["low"], row["high"]) for row in rows]
        self.assertEqual(drawn, [(one["value"], one["low"], one["high"]) for one in expected])
        self.assertIn("preempt: full against none", [row["label"] for row in rows])
        self.assertIn("baseline against itself (A/A)", [row["label"] for row in rows])
        with self.assertRaisesRegex(holdup.Error, "metric = 'x': the bundle has no ratio of it\nhint: one of "):
            holdup.plot.arms_rows(bundle, "x")

    def test_a_sweep_has_a_point_for_each_arm(self) -> None:
        bundle = holdup.open(support.made("sweep"))
        rows = holdup.plot.sweep_rows(bundle)
        self.assertEqual(len(rows), len([arm for arm in bundle.arms if arm.replica is None]))
        self.assertEqual({row["x"] for row in rows}, {4, 12})
        self.assertEqual(len({row["line"] for row in rows}), 4)
        for row in rows:
            self.assertTrue(row["low"] is None or row["low"] <= row["value"] <= row["high"])
        with self.assertRaisesRegex(holdup.Error, "x = 'algorithm': a sweep needs .*\nhint: one of threads"):
            holdup.plot.sweep_rows(bundle, "algorithm")
        with self.assertRaisesRegex(holdup.Error, "a sweep needs the name of an axis .*\nhint: this bundle has none"):
            holdup.plot.sweep_rows(holdup.open(support.made("locks")))
        with self.assertRaisesRegex(holdup.Error, "metric = 'x': the bundle has no value of it"):
            holdup.plot.sweep_rows(bundle, metric="x")


class Charts(unittest.TestCase):
    def test_altair(self) -> None:
        support.need("altair")
        bundle = holdup.open(support.made("sweep"))
        for chart in (holdup.plot.arms, holdup.plot.sweep):
            drawn = json.dumps(chart(bundle, engine="altair").to_dict())
            self.assertIn(repr(holdup.plot.sweep_rows(bundle)[0]["value"]) if chart is holdup.plot.sweep else "log", drawn)

    def test_matplotlib(self) -> None:
        support.need("matplotlib")
        bundle = holdup.open(support.made("sweep"))
        arms = holdup.plot.arms(bundle, engine="matplotlib")
        self.assertEqual(arms.axes[0].get_xscale(), "log")
        self.assertEqual(len(arms.axes[0].get_yticklabels()), len(holdup.plot.arms_rows(bundle)))
        sweep = holdup.plot.sweep(bundle, engine="matplotlib")
        self.assertEqual(len(sweep.axes[0].get_legend().get_texts()), 4)

    def test_without_a_library_the_error_says_what_to_install(self) -> None:
        code = (
            "import importlib.util, sys\nimportlib.util.find_spec = lambda name: None\nimport holdup\n"
            "bundle = holdup.open(sys.argv[1])\nprint(holdup.plot.engines())\n"
            "try:\n    holdup.plot.arms(bundle)\nexcept holdup.MissingError as e:\n    print(e)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(support.FIXTURES / "schema-3.holdup")], capture_output=True, text=True,
            env=support.environment(),
        )
        self.assertEqual(
            done.stdout, "[]\na chart: neither altair nor matplotlib is installed\nhint: pip install altair\n", done.stderr
        )
        with self.assertRaisesRegex(holdup.Error, "engine = 'x': .*\nhint: one of altair, matplotlib"):
            holdup.plot.arms(holdup.open(support.FIXTURES / "schema-3.holdup"), engine="x")
