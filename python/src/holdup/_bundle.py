"""The bundle."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from . import _binary, _blobs, _frames, _parts
from ._error import Error
from ._file import Source, damaged, sqlite
from ._kinds import COMPUTED, KINDS, Columns

Level = Union[bool, int, float, str]
Row = Dict[str, Any]
Object = TypeVar("Object")


@dataclass(frozen=True)
class Head:
    """What ran, where, by which holdup."""

    run_id: str
    holdup_version: str
    created_unix_ns: int
    target: str
    #: None when times are those of hardware; else what they are.
    emulated: Optional[str]
    machine_cpus: int
    machine_memory_bytes: int


@dataclass(frozen=True)
class Plan:
    """The plan as written and as checked."""

    name: str
    question: str
    seed: int
    source_toml: str
    checked: Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """A combination of levels."""

    arm: int
    label: str
    workload: str
    #: "same": A/A; "unobserved": without collectors; else None.
    replica: Optional[str]
    #: The value of each axis and factor.
    levels: Mapping[str, Level]


@dataclass(frozen=True)
class Trial:
    """A trial as it was run. One that is void does not count."""

    trial: int
    session: int
    boot: int
    block: int
    position: int
    arm: int
    attempt: int
    status: str
    void_reason: Optional[str]
    started_unix_ns: int
    ended_unix_ns: int
    window_begin_unix_ns: Optional[int]
    window_end_unix_ns: Optional[int]
    window_length_ns: Optional[int]
    #: What was measured, by metric. Absent is not zero: a metric without a value is in ``absent`` only.
    values: Mapping[str, float]
    #: Why there is no value.
    absent: Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """What measurements mean."""

    workload: str
    metric: str
    unit: str
    better: str
    summary: str


@dataclass(frozen=True)
class Evidence:
    """A number that a collector brought."""

    trial: int
    collector: str
    name: str
    label: Optional[str]
    unit: str
    value: Optional[float]
    absent: Optional[str]


@dataclass(frozen=True)
class Fact:
    """A fact about the host, as read at the begin of a boot."""

    session: int
    boot: int
    key: str
    value: Optional[str]
    source: str
    absent: Optional[str]
    #: Whether a trial in which it moved is void.
    steady: bool


@dataclass(frozen=True)
class LogEntry:
    """What happened beside the trials."""

    unix_ns: int
    text: str


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    how: str
    reason: Optional[str]
    trials: int


class Bundle:
    """A bundle, read only. ``holdup.open`` makes it."""

    def __init__(
        self, path: Union[str, "os.PathLike[str]"], *, verify: bool = True, binary: Optional[_binary.PathLike] = None
    ) -> None:
        self.path = os.fspath(path)
        self._binary = binary
        self._lock = threading.Lock()
        self._documents: Dict[str, Any] = {}
        self._source = Source(self.path)
        try:
            if verify:
                self._verify()
        except BaseException:
            self.close()
            raise

    def _verify(self) -> None:
        with self._lock:
            try:
                found = next(_parts.damage(self._source.db, self._source.version), None)
            except (sqlite().Error, ValueError, OverflowError) as e:
                raise self._source.trouble(e) from e
        if found is not None:
            raise damaged(self.path, found)

    def close(self) -> None:
        """Closes the file. What was read stays."""
        self._source.close()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"holdup.open({self.path!r})"

    def _query(self, query: str, values: Tuple[Any, ...] = ()) -> List[Tuple[Any, ...]]:
        with self._lock:
            try:
                return self._source.db.execute(query, values).fetchall()
            except (sqlite().Error, ValueError, OverflowError) as e:
                raise self._source.trouble(e) from e

    def _single(self, query: str) -> Tuple[Any, ...]:
        rows = self._query(query)
        if len(rows) != 1:
            raise damaged(self.path, f"there are {len(rows)} rows where one belongs")
        return rows[0]

    # What ran.

    @property
    def schema_version(self) -> int:
        """The version of the bundle's schema."""
        return self._source.version

    @property
    def head(self) -> Head:
        """What ran, where, by which holdup."""
        return Head(
            *self._single(
                "SELECT run_id, holdup_version, created_unix_ns, target, emulated, machine_cpus, machine_memory_bytes FROM head"
            )
        )

    @property
    def command(self) -> List[str]:
        """The command line that began the run."""
        return [word for (word,) in self._query("SELECT word FROM command ORDER BY position")]

    @property
    def plan(self) -> Plan:
        """The plan as written and as checked."""
        name, question, seed, source, checked = self._single(
            "SELECT name, question, seed, source_toml, checked_json FROM plan"
        )
        try:
            return Plan(name, question, int(seed), source, json.loads(checked))
        except ValueError as e:
            raise damaged(self.path, f"plan: {e}") from e

    @property
    def ending(self) -> Optional[Ending]:
        """How the run ended; None when it never did: it crashed, or it still runs."""
        rows = self._query("SELECT how, reason, trials FROM ending")
        return Ending(*rows[0]) if rows else None

    @property
    def is_complete(self) -> bool:
        """Whether every trial of the plan ran."""
        ending = self.ending
        return ending is not None and ending.how == "complete"

    # What was found, as objects.

    def _levels(self) -> Dict[int, Dict[str, Level]]:
        levels: Dict[int, Dict[str, Level]] = {}
        for arm, name, kind, value in self._query("SELECT arm, name, type, value FROM levels ORDER BY arm, role, name"):
            levels.setdefault(arm, {})[name] = bool(value) if kind == "bool" else value
        return levels

    @property
    def arms(self) -> List[Arm]:
        """The arms: combinations of levels."""
        levels = self._levels()
        return [
            Arm(arm, label, workload, replica, levels.get(arm, {}))
            for arm, label, workload, replica in self._query("SELECT arm, label, workload, replica FROM arms ORDER BY arm")
        ]

    @property
    def metrics(self) -> List[Metric]:
        """The metrics of each workload: what measurements mean."""
        return self._objects(Metric, "metrics")

    @property
    def trials(self) -> List[Trial]:
        """Every trial as it was run, void ones included."""
        values: Dict[int, Dict[str, float]] = {}
        absent: Dict[int, Dict[str, str]] = {}
        for trial, metric, value, why in self._query(
            "SELECT trial, metric, value, absent FROM measurements ORDER BY trial, position"
        ):
            if value is not None:
                values.setdefault(trial, {})[metric] = value
            else:
                absent.setdefault(trial, {})[metric] = why
        names = [field.name for field in fields(Trial)][:-2]
        return [
            Trial(**dict(zip(names, row)), values=values.get(row[0], {}), absent=absent.get(row[0], {}))
            for row in self._query(f"SELECT {', '.join(names)} FROM trials ORDER BY trial")
        ]

    @property
    def evidence(self) -> List[Evidence]:
        """What the collectors brought, as numbers."""
        return self._objects(Evidence, "evidence")

    @property
    def facts(self) -> List[Fact]:
        """Facts about the host, boot by boot."""
        return self._objects(Fact, "facts")

    @property
    def log(self) -> List[LogEntry]:
        """What happened beside the trials."""
        return self._objects(LogEntry, "log")

    def _objects(self, of: Type[Object], kind: str) -> List[Object]:
        names = [field.name for field in fields(of)]  # type: ignore[arg-type]
        return [of(**{name: row[name] for name in names}) for row in self.rows(kind)]

    # What was found, as rows and frames.

    def _level_columns(self, taken: List[str]) -> List[Tuple[str, str, str]]:
        """The name of each axis and factor, the column for it, and its type; ``label`` for one of several types, of which labels are shown."""
        kinds: Dict[str, set[str]] = {}
        for name, kind in self._query("SELECT DISTINCT name, type FROM levels ORDER BY role, name"):
            kinds.setdefault(name, set()).add(kind)
        types = {"bool": "b?", "integer": "i?", "float": "f?", "text": "s?"}
        return [
            (name, f"level.{name}" if name in taken else name, types[next(iter(found))] if len(found) == 1 else "label")
            for name, found in kinds.items()
        ]

    def _table(self, kind: str) -> Tuple[List[Row], Columns]:
        if kind in COMPUTED:
            columns = COMPUTED[kind]
            return {"comparisons": self._comparisons, "summaries": self._summaries, "account": self._account}[kind](), columns
        if kind not in KINDS:
            raise Error(f"kind = {kind!r}: there is no such kind of rows", "one of " + ", ".join([*KINDS, *COMPUTED]))
        read = KINDS[kind]
        columns = read.typed()
        names = [name for name, _ in columns]
        found = self._query(read.query) if read.since <= self.schema_version else []
        rows = [dict(zip(names, row)) for row in found]
        for name, kind_of in columns:
            if kind_of == "b":
                for row in rows:
                    row[name] = bool(row[name])
        if read.has_levels:
            levels = self._levels()
            labels = {(arm, name): label for arm, name, label in self._query("SELECT arm, name, label FROM levels")}
            for name, column, kind_of in self._level_columns(names):
                columns.append((column, "s?" if kind_of == "label" else kind_of))
                for row in rows:
                    arm = row["arm"]
                    row[column] = labels.get((arm, name)) if kind_of == "label" else levels.get(arm, {}).get(name)
        if kind == "trials":
            self._add_metrics(rows, columns)
        return rows, columns

    def _add_metrics(self, rows: List[Row], columns: Columns) -> None:
        """A column for each metric, in which what is absent is missing."""
        taken = [name for name, _ in columns]
        metrics: Dict[str, str] = {}
        values: Dict[Tuple[int, str], Optional[float]] = {}
        for trial, metric, value in self._query("SELECT trial, metric, value FROM measurements ORDER BY trial, position"):
            metrics.setdefault(metric, f"metric.{metric}" if metric in taken else metric)
            values[trial, metric] = value
        for metric, column in metrics.items():
            columns.append((column, "f?"))
            for row in rows:
                row[column] = values.get((row["trial"], metric))

    def rows(self, kind: str) -> List[Row]:
        """Rows of a kind as dictionaries: what ``frame`` makes a frame of. Nothing needs to be installed for it."""
        return self._table(kind)[0]

    def frame(self, kind: str = "trials", as_: str = "pandas") -> Any:
        """A frame of ``pandas``, ``polars`` or ``arrow`` (a pyarrow.Table).

        Kinds: ``trials`` (a row for each trial, a column for each level and metric), ``measurements``, ``metrics``, ``arms``,
        ``evidence``, ``facts``, ``comparisons`` and the others of docs/python.md.
        """
        rows, columns = self._table(kind)
        return _frames.frame(rows, columns, as_)

    # What is compressed.

    def _inflated(self, what: str, query: str, values: Tuple[Any, ...], since: int) -> List[Any]:
        if since > self.schema_version:
            return []
        try:
            return [_blobs.document(blob, size) for blob, size in self._query(query, values)]
        except Exception as e:
            if isinstance(e, Error):
                raise
            raise damaged(self.path, f"{what} of trial {values[0]}: {e}") from e

    def histogram(self, trial: int, name: str = "latency") -> _blobs.Histogram:
        """A full histogram of a trial: ``latency``, ``schedule_lag``, ``acquire``. rows("histograms") lists those that there are."""
        blobs = self._query("SELECT hdr_v2 FROM histograms WHERE trial = ?1 AND name = ?2", (trial, name))
        if not blobs:
            raise Error(f"trial {trial} has no histogram {name}", 'rows("histograms") lists those that there are')
        try:
            return _blobs.Histogram(blobs[0][0])
        except ValueError as e:
            raise damaged(self.path, f"histogram {name} of trial {trial}: {e}") from e

    def stacks(self, trial: int, name: str = "on_cpu") -> List[Any]:
        """The call stacks of a trial as in docs/bundle.md: one document for each collector that brought them."""
        return self._inflated(
            "stacks",
            "SELECT json_zlib, json_bytes FROM stack_profiles WHERE trial = ?1 AND name = ?2 ORDER BY run, position",
            (trial, name),
            2,
        )

    def timelines(self, trial: int) -> List[Any]:
        """The timelines of a trial as in docs/bundle.md."""
        return self._inflated("timeline", "SELECT json_zlib, json_bytes FROM timelines WHERE trial = ?1 ORDER BY run", (trial,), 2)

    def captures(self, trial: int) -> List[Any]:
        """The TCP connections of a trial as in docs/bundle.md."""
        return self._inflated("capture", "SELECT json_zlib, json_bytes FROM captures WHERE trial = ?1 ORDER BY run", (trial,), 3)

    # What the program holdup computes.

    def report(self) -> Dict[str, Any]:
        """The document of ``holdup report --json``: comparisons, findings, summaries. It needs the program holdup."""
        return self._document("report", "holdup.report/1")

    def explain(self) -> Dict[str, Any]:
        """The document of ``holdup explain --json``: causes of delay and accounts. It needs the program holdup."""
        return self._document("explain", "holdup.explain/1")

    def _document(self, command: str, schema: str) -> Dict[str, Any]:
        # A run that still runs may have more trials by now than were read; the program reads the file as it is.
        if command not in self._documents:
            path = os.path.abspath(self.path)
            self._documents[command] = _binary.document([command, path, "--json"], schema, self._binary)
        made: Dict[str, Any] = self._documents[command]
        return made

    def _comparisons(self) -> List[Row]:
        rows = []
        for found in self.report()["comparisons"]:
            contrast, metric, ratio, verdict = found["contrast"], found["metric"], found["ratio"] or {}, found["verdict"]
            rows.append(
                {
                    "workload": found["workload"],
                    "metric": metric["id"],
                    "unit": metric["unit"],
                    "better": metric["better"],
                    "kind": contrast["kind"],
                    "factor": contrast.get("factor", contrast.get("axis")),
                    "baseline": contrast.get("baseline"),
                    "level": contrast.get("level"),
                    "cell": ", ".join(f"{name}={label}" for name, label in found["cell"].items()),
                    "pooled": found["pooled"],
                    "headline": found["headline"],
                    "primary": found["primary"],
                    "ratio": ratio.get("value"),
                    **{name: ratio.get(name) for name in ("low", "high", "confidence", "n", "method")},
                    "noise_floor": found["noise_floor"],
                    "p_adjusted": found["p_adjusted"],
                    "answer": verdict["answer"],
                    "reason": verdict.get("reason"),
                    "blocks_needed": verdict.get("blocks_needed"),
                }
            )
        return rows

    def _summaries(self) -> List[Row]:
        report = self.report()
        arms = {arm["id"]: arm for arm in report["arms"]}
        rows = []
        for found in report["arm_summaries"]:
            arm = arms[found["arm"]]
            for metric in found["metrics"]:
                mean = metric["mean"] or {}
                rows.append(
                    {
                        "arm": arm["id"],
                        "arm_label": arm["label"],
                        "workload": arm["workload"],
                        "replica": arm["replica"],
                        "metric": metric["metric"],
                        "value": metric["value"],
                        "absent": metric["absent"],
                        "mean": mean.get("value"),
                        **{name: mean.get(name) for name in ("low", "high", "confidence", "n", "method")},
                        "trials_done": found["trials_done"],
                        "trials_void": found["trials_void"],
                    }
                )
        return rows

    def _account(self) -> List[Row]:
        labels = {arm.arm: arm.label for arm in self.arms}
        rows = []
        for found in self.explain()["arms"]:
            account = found.get("account") or {}
            for state in account.get("states", []):
                rows.append(
                    {
                        "arm": found["arm"],
                        "arm_label": labels[found["arm"]],
                        "of": account["of"],
                        "state": state["name"],
                        **{name: state.get(name) for name in ("class", "share", "low", "high", "time_s", "sessions")},
                    }
                )
        return rows
