#!/usr/bin/env python3
"""Makes change_points.json: E-divisive by an independent implementation, for holdup-stats to be held against.

Apache Otava's (exponent 1, every kappa), on the logarithms where all values are above zero. Each of its Q
is compared here with the paper's formula, written down with NumPy, before it is printed.

Run with any Python 3 that has NumPy and Otava (pip install --no-deps apache-otava is enough):
python3 make_change_points.py > change_points.json
The versions that made the committed file stand in it.
"""
import importlib.metadata
import json
import platform

import numpy
from otava.change_point_divisive.calculator import PairDistanceCalculator
from otava.change_point_divisive.detector import ChangePointDetector
from otava.change_point_divisive.significance_test import PermutationsSignificanceTester

rng = numpy.random.default_rng(20261121)


def by_the_paper(x, y):
    n, m = len(x), len(y)
    between = 2 * numpy.abs(x[:, None] - y[None, :]).mean()
    before = numpy.abs(x[:, None] - x[None, :]).sum() / (n * (n - 1))
    after = numpy.abs(y[:, None] - y[None, :]).sum() / (m * (m - 1))
    return n * m / (n + m) * (between - before - after)


def row(name, values):
    values = numpy.asarray(values, dtype=float)
    compared = numpy.log(values) if (values > 0).all() else values
    n = len(values)
    # Row tau - 1, column kappa - 2; the last column is kappa = n.
    last = PairDistanceCalculator(compared)._get_Q_vals(0, n)[:, -1]
    q = [float(last[tau - 1]) for tau in range(2, n - 1)]
    for tau, found in zip(range(2, n - 1), q):
        expected = by_the_paper(compared[:tau], compared[tau:])
        assert abs(found - expected) <= 1e-9 * max(1.0, abs(expected)), (name, tau, found, expected)
    tester = PermutationsSignificanceTester(0.05, 199, PairDistanceCalculator, seed=1)
    found = ChangePointDetector(tester, PairDistanceCalculator).get_change_points(compared)
    places = sorted(int(point.index) for point in found)
    return {"name": name, "values": [float(v) for v in values], "q": q, "places": places}


def noisy(levels, cv):
    return numpy.repeat([v for _, v in levels], [n for n, _ in levels]) * numpy.exp(
        rng.normal(0, cv, sum(n for n, _ in levels))
    )


rows = [
    row("no change", noisy([(40, 100.0)], 0.02)),
    row("a step", noisy([(30, 100.0), (30, 105.0)], 0.01)),
    row("two steps", noisy([(25, 100.0), (25, 110.0), (25, 104.0)], 0.01)),
    row("up and back", noisy([(30, 100.0), (12, 110.0), (30, 100.0)], 0.01)),
    row("counts with ties", rng.poisson(3.0, 50) + 1.0),
    row("heavy tails", numpy.exp(rng.standard_t(2, 45))),
    row("below zero", numpy.concatenate([rng.normal(-1.0, 1.0, 30), rng.normal(4.0, 1.0, 25)])),
]
print(
    json.dumps(
        {
            "made_by": "make_change_points.py",
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "apache_otava": importlib.metadata.version("apache-otava"),
            "series": rows,
        },
        indent=1,
    )
)
