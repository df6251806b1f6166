#!/usr/bin/env python3
"""Makes vectors.json: what SciPy says, for holdup-stats to be held against.

Run with any Python 3 that has SciPy: python3 make.py > vectors.json
The versions that made the committed file stand in it.
"""
import json
import platform

import numpy
import scipy
from scipy import stats

rng = numpy.random.default_rng(20261121)


def interval(result):
    ci = result.confidence_interval(0.95)
    return [float(ci.low), float(ci.high)]


def t_quantiles():
    rows = []
    for df in [1, 2, 3, 4.5, 7, 9, 19, 39, 99, 999, 1e5]:
        for p in [0.001, 0.025, 0.05, 0.2, 0.5, 0.8, 0.95, 0.975, 0.995, 0.9999]:
            rows.append({"df": df, "p": p, "t": float(stats.t.ppf(p, df))})
    return rows


def t_tails():
    rows = []
    for df in [1, 2, 3, 9, 39, 999]:
        for t in [0.0, 0.1, 1.0, 2.262, 5.0, 12.0, 60.0]:
            rows.append({"df": df, "t": t, "p": float(2 * stats.t.sf(t, df))})
    return rows


def paired():
    rows = []
    for n, effect, cv in [(2, 1.1, 0.02), (3, 1.0, 0.05), (5, 1.05, 0.02), (10, 0.97, 0.01), (40, 1.002, 0.1)]:
        block = rng.normal(0, 0.05, n)
        a = 1000 * numpy.exp(block + rng.normal(0, cv, n))
        b = 1000 * effect * numpy.exp(block + rng.normal(0, cv, n))
        test = stats.ttest_rel(numpy.log(b), numpy.log(a))
        margin = numpy.log1p(0.02)
        d = numpy.log(b) - numpy.log(a)
        tost = max(
            stats.ttest_1samp(d, -margin, alternative="greater").pvalue,
            stats.ttest_1samp(d, margin, alternative="less").pvalue,
        )
        rows.append({
            "a": a.tolist(), "b": b.tolist(), "log_ratio": float(d.mean()), "log_interval": interval(test),
            "p": float(test.pvalue), "margin": 0.02, "p_equivalence": float(tost),
        })
    return rows


def blend():
    """The p of docs/statistics.md, written down again from the page: paired t and Welch's t, weighted."""
    rows = []
    for n, block_spread in [(5, 0.0), (5, 0.05), (6, 0.02), (10, 0.0), (20, 0.03), (40, 0.001), (40, 0.1), (60, 0.5)]:
        block = rng.normal(0, block_spread, n)
        a = 1000 * numpy.exp(block + rng.normal(0, 0.02, n))
        b = 1012 * numpy.exp(block + rng.normal(0, 0.03, n))
        la, lb = numpy.log(a), numpy.log(b)
        f = numpy.var((la + lb) / 2, ddof=1) * 2 / (numpy.var(lb - la, ddof=1) / 2)
        rho = (numpy.arange(64) + 0.5) / 64
        stretch = (1 + rho) / (1 - rho)
        ratio = numpy.mean(stats.f.pdf(f / stretch, n - 1, n - 1) / stretch) / stats.f.pdf(f, n - 1, n - 1)
        weight = 0.4 / (0.4 + 0.6 * ratio)
        price = 1.06 if n >= 7 else 1.0
        welch_p = stats.ttest_ind(lb, la, equal_var=False).pvalue
        paired_p = stats.ttest_rel(lb, la).pvalue
        p = min(1.0, price * (weight * welch_p + (1 - weight) * paired_p))
        rows.append({"a": a.tolist(), "b": b.tolist(), "weight": float(weight), "p": float(p)})
    return rows


def welch():
    rows = []
    for na, nb, effect, cva, cvb in [(2, 3, 1.1, 0.02, 0.05), (5, 5, 1.0, 0.05, 0.05), (10, 7, 0.9, 0.01, 0.1)]:
        a = 1000 * numpy.exp(rng.normal(0, cva, na))
        b = 1000 * effect * numpy.exp(rng.normal(0, cvb, nb))
        test = stats.ttest_ind(numpy.log(b), numpy.log(a), equal_var=False)
        rows.append({
            "a": a.tolist(), "b": b.tolist(), "log_interval": interval(test), "p": float(test.pvalue),
            "df": float(test.df),
        })
    return rows


def spearman():
    rows = []
    for n, slope in [(9, 0.0), (20, 0.002), (30, -0.01)]:
        values = 500 * numpy.exp(slope * numpy.arange(n) + rng.normal(0, 0.02, n))
        test = stats.spearmanr(numpy.arange(n), values)
        line = stats.linregress(numpy.arange(n), numpy.log(values))
        rows.append({
            "values": values.tolist(), "rho": float(test.statistic), "p": float(test.pvalue),
            "log_slope": float(line.slope),
        })
    return rows


print(json.dumps({
    "made_by": "make.py",
    "python": platform.python_version(),
    "numpy": numpy.__version__,
    "scipy": scipy.__version__,
    "t_quantiles": t_quantiles(),
    "t_tails": t_tails(),
    "paired": paired(),
    "welch": welch(),
    "spearman": spearman(),
    "blend": blend(),
}, indent=1))
