"""Charts of a bundle, by Altair or Matplotlib: the one of them that is installed, Altair first.

A function returns the chart of that library, which a notebook shows. What is drawn are rows of ``arms_rows`` and ``sweep_rows``.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ._error import Error, MissingError
from ._frames import load

if TYPE_CHECKING:
    from ._bundle import Bundle

ENGINES = ("altair", "matplotlib")


def engines() -> List[str]:
    """The libraries for charts that are installed."""
    return [name for name in ENGINES if importlib.util.find_spec(name) is not None]


def _engine(wanted: Optional[str]) -> str:
    if wanted is not None and wanted not in ENGINES:
        raise Error(f"engine = {wanted!r}: there is no such library for charts", "one of " + ", ".join(ENGINES))
    found = [wanted] if wanted is not None else engines()
    if not found:
        raise MissingError("a chart: neither altair nor matplotlib is installed", "pip install altair")
    return found[0]


def arms_rows(bundle: Bundle, metric: Optional[str] = None) -> List[Dict[str, Any]]:
    """The comparisons of a metric over all cells, by default of the first primary metric, with the baseline against itself."""
    pooled = [row for row in bundle.rows("comparisons") if row["pooled"]]
    metric = metric or next((row["metric"] for row in pooled if row["primary"]), None)
    rows = [row for row in pooled if row["metric"] == metric and row["ratio"] is not None]
    if not rows:
        names = sorted({row["metric"] for row in pooled if row["ratio"] is not None})
        raise Error(
            f"metric = {metric!r}: the bundle has no ratio of it",
            "one of " + ", ".join(names) if names else "a chart of arms needs a run of two arms and more",
        )
    for row in rows:
        replicas = {"same": "baseline against itself (A/A)", "unobserved": "without collectors"}
        factor = f"{row['factor']}: " if row["factor"] else ""
        row["label"] = replicas.get(row["kind"], f"{factor}{row['level']} against {row['baseline']}")
        if len({other["workload"] for other in rows}) > 1:
            row["label"] = f"{row['workload']}: {row['label']}"
    return rows


def sweep_rows(bundle: Bundle, x: Optional[str] = None, metric: Optional[str] = None) -> List[Dict[str, Any]]:
    """The mean of a metric for each arm with its interval, by the value ``x`` of an axis that has numbers."""
    arms = {arm.arm: arm for arm in bundle.arms if arm.replica is None}
    values: Dict[str, set[Any]] = {}
    for arm in arms.values():
        for name, level in arm.levels.items():
            values.setdefault(name, set()).add(level)
    numeric = [
        name
        for name, found in values.items()
        if len(found) > 1 and all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in found)
    ]
    if (x is None and len(numeric) != 1) or (x is not None and x not in numeric):
        raise Error(
            f"x = {x!r}: a sweep needs the name of an axis with several numbers",
            "one of " + ", ".join(numeric) if numeric else "this bundle has none: --threads 4,8,16 is one",
        )
    name = x or numeric[0]
    summaries = [row for row in bundle.rows("summaries") if row["arm"] in arms and name in arms[row["arm"]].levels]
    primary = next((row["metric"] for row in bundle.rows("comparisons") if row["primary"]), None)
    metric = metric or primary or (summaries[0]["metric"] if summaries else None)
    rows = []
    for row in summaries:
        value = row["mean"] if row["mean"] is not None else row["value"]
        if row["metric"] != metric or value is None:
            continue
        levels = arms[row["arm"]].levels
        others = [f"{key}={level}" for key, level in levels.items() if key != name and len(values[key]) > 1]
        line = ", ".join(others) or row["workload"]
        rows.append({"x": levels[name], "value": value, "low": row["low"], "high": row["high"], "line": line})
    if not rows:
        names = sorted({row["metric"] for row in summaries if row["value"] is not None})
        raise Error(f"metric = {metric!r}: the bundle has no value of it", "one of " + ", ".join(names))
    units = {found.metric: found.unit for found in bundle.metrics}
    for row in rows:
        row.update(axis=name, metric=metric, unit=units.get(metric or "", ""))
    return sorted(rows, key=lambda row: (row["line"], row["x"]))


def arms(bundle: Bundle, metric: Optional[str] = None, engine: Optional[str] = None) -> Any:
    """A chart of the arms: each difference as a ratio with its interval, on a logarithmic scale."""
    library = _engine(engine)
    rows = arms_rows(bundle, metric)
    title = f"{rows[0]['metric']}, ratio ({rows[0]['better']} is better)"
    if library == "altair":
        alt = load("altair", "a chart")
        base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("label:N", title=None, sort=None))
        scale = alt.Scale(type="log", zero=False)
        bars = base.mark_rule().encode(x=alt.X("low:Q", scale=scale, title=title), x2="high:Q")
        points = base.mark_point(filled=True, size=60).encode(
            x=alt.X("ratio:Q", scale=scale, title=title), tooltip=["label:N", "ratio:Q", "low:Q", "high:Q", "answer:N"]
        )
        one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 4]).encode(x="one:Q")
        return one + bars + points
    figure, axes = _figure()
    for place, row in enumerate(reversed(rows)):
        if row["low"] is not None and row["high"] is not None:
            axes.plot([row["low"], row["high"]], [place, place], color="C0")
        axes.plot([row["ratio"]], [place], "o", color="C0")
    axes.set_yticks(range(len(rows)), [row["label"] for row in reversed(rows)])
    axes.set_xscale("log")
    axes.axvline(1, linestyle="--", color="0.5")
    axes.set_xlabel(title)
    return figure


def sweep(bundle: Bundle, x: Optional[str] = None, metric: Optional[str] = None, engine: Optional[str] = None) -> Any:
    """A chart of a sweep: the mean of a metric over the values of an axis, a line for each combination of the other levels."""
    library = _engine(engine)
    rows = sweep_rows(bundle, x, metric)
    title = f"{rows[0]['metric']} ({rows[0]['unit']})"
    if library == "altair":
        alt = load("altair", "a chart")
        base = alt.Chart(alt.Data(values=rows)).encode(
            x=alt.X("x:Q", title=rows[0]["axis"]), color=alt.Color("line:N", title=None)
        )
        lines = base.mark_line(point=True).encode(y=alt.Y("value:Q", title=title))
        return base.mark_rule().encode(y="low:Q", y2="high:Q") + lines
    figure, axes = _figure()
    for line in dict.fromkeys(row["line"] for row in rows):
        points = [row for row in rows if row["line"] == line]
        drawn = axes.plot([row["x"] for row in points], [row["value"] for row in points], "o-", label=line)
        for row in points:
            if row["low"] is not None and row["high"] is not None:
                axes.plot([row["x"], row["x"]], [row["low"], row["high"]], color=drawn[0].get_color())
    axes.set_xlabel(rows[0]["axis"])
    axes.set_ylabel(title)
    axes.legend()
    return figure


def _figure() -> Any:
    pyplot = load("matplotlib.pyplot", "a chart")
    figure, axes = pyplot.subplots(layout="constrained")
    # A notebook shows what a cell returns; an open figure it would show twice.
    pyplot.close(figure)
    return figure, axes
