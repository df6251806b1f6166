"""The kinds of rows that a bundle has: for each a query, and the types of its columns."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

#: The types of columns. A question mark behind one means that a value may be missing.
TYPES = {"i": "integer", "f": "float", "s": "text", "b": "boolean"}

Columns = List[Tuple[str, str]]


def _columns(text: str) -> Columns:
    """``name:type`` of each column, in order."""
    return [(name, kind) for name, _, kind in (column.partition(":") for column in text.split())]


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
        return _columns(self.columns)


_TRIAL = "trial:i session:i boot:i block:i position:i arm:i arm_label:s workload:s replica:s? attempt:i status:s"
_FACT = "key:s value:s? source:s absent:s? steady:b"

KINDS: Dict[str, Kind] = {
    "arms": Kind(
        "arm:i arm_label:s workload:s replica:s?",
        "SELECT arm, label, workload, replica FROM arms ORDER BY arm",
        has_levels=True,
    ),
    "levels": Kind(
        "arm:i role:s name:s type:s label:s", "SELECT arm, role, name, type, label FROM levels ORDER BY arm, role, name"
    ),
    "schedule": Kind(
        "planned:i seq:i session:i boot:i block:i position:i arm:i",
        "SELECT planned, seq, session, boot, block, position, arm FROM schedule ORDER BY planned",
        has_levels=True,
    ),
    "trials": Kind(
        _TRIAL + " void_reason:s? started_unix_ns:i ended_unix_ns:i window_begin_unix_ns:i? window_end_unix_ns:i? "
        "window_length_ns:i?",
        "SELECT t.trial, t.session, t.boot, t.block, t.position, t.arm, a.label, a.workload, a.replica, t.attempt, "
        "t.status, t.void_reason, t.started_unix_ns, t.ended_unix_ns, t.window_begin_unix_ns, t.window_end_unix_ns, "
        "t.window_length_ns FROM trials t JOIN arms a USING (arm) ORDER BY t.trial",
        has_levels=True,
    ),
    "measurements": Kind(
        _TRIAL + " metric:s unit:s? better:s? value:f? absent:s?",
        "SELECT t.trial, t.session, t.boot, t.block, t.position, t.arm, a.label, a.workload, a.replica, t.attempt, "
        "t.status, m.metric, d.unit, d.better, m.value, m.absent FROM measurements m JOIN trials t USING (trial) "
        "JOIN arms a USING (arm) LEFT JOIN metrics d ON d.workload = a.workload AND d.metric = m.metric "
        "ORDER BY m.trial, m.position",
        has_levels=True,
    ),
    "metrics": Kind(
        "workload:s metric:s unit:s better:s summary:s",
        "SELECT workload, metric, unit, better, summary FROM metrics ORDER BY position",
    ),
    "evidence": Kind(
        _TRIAL + " collector:s name:s label:s? unit:s value:f? absent:s?",
        "SELECT t.trial, t.session, t.boot, t.block, t.position, t.arm, a.label, a.workload, a.replica, t.attempt, "
        "t.status, r.collector, i.name, i.label, i.unit, e.value, e.absent FROM evidence e "
        "JOIN collector_runs r USING (trial, run) JOIN evidence_items i USING (item) JOIN trials t USING (trial) "
        "JOIN arms a USING (arm) ORDER BY e.trial, e.run, e.position",
        has_levels=True,
    ),
    "collectors": Kind(
        "collector:s state:s reason:s? remedy:s?",
        "SELECT collector, state, reason, remedy FROM collectors ORDER BY position",
    ),
    "collector_runs": Kind(
        "trial:i run:i collector:s seen_count:i lost_count:i cost_cpu_ns:i cost_wakeups:i cost_bytes:i",
        "SELECT trial, run, collector, seen_count, lost_count, cost_cpu_ns, cost_wakeups, cost_bytes "
        "FROM collector_runs ORDER BY trial, run",
    ),
    "collector_costs": Kind(
        "trial:i run:i collector:s bpf_runs:i? bpf_run_ns:i? memory_bytes:i",
        "SELECT c.trial, c.run, r.collector, c.bpf_runs, c.bpf_run_ns, c.memory_bytes FROM collector_costs c "
        "JOIN collector_runs r USING (trial, run) ORDER BY c.trial, c.run",
        since=2,
    ),
    "coverage_notes": Kind(
        "trial:i run:i collector:s text:s",
        "SELECT c.trial, c.run, r.collector, c.text FROM coverage_notes c JOIN collector_runs r USING (trial, run) "
        "ORDER BY c.trial, c.run, c.position",
    ),
    "facts": Kind(
        "reading:i session:i boot:i " + _FACT,
        "SELECT r.reading, r.session, r.boot, f.key, f.value, f.source, f.absent, f.steady FROM environment_readings r "
        "JOIN environment e USING (reading) JOIN facts f USING (fact) ORDER BY r.reading, e.position",
    ),
    "trial_facts": Kind(
        "trial:i moment:s " + _FACT,
        "SELECT e.trial, e.moment, f.key, f.value, f.source, f.absent, f.steady FROM trial_environment e "
        "JOIN facts f USING (fact) ORDER BY e.trial, e.moment, e.position",
    ),
    "histograms": Kind(
        "trial:i name:s count:i clipped:i",
        "SELECT trial, name, count, clipped FROM histograms ORDER BY trial, position",
    ),
    "evidence_histograms": Kind(
        "trial:i collector:s name:s label:s? count:i clipped:i",
        "SELECT h.trial, r.collector, i.name, i.label, h.count, h.clipped FROM evidence_histograms h "
        "JOIN collector_runs r USING (trial, run) JOIN evidence_items i USING (item) ORDER BY h.trial, h.run, h.position",
        since=2,
    ),
    "stacks": Kind(
        "trial:i collector:s name:s unit:s period_ns:i stacks:i weight:i truncated_weight:i",
        "SELECT s.trial, r.collector, s.name, s.unit, s.period_ns, s.stacks, s.weight, s.truncated_weight "
        "FROM stack_profiles s JOIN collector_runs r USING (trial, run) ORDER BY s.trial, s.run, s.position",
        since=2,
    ),
    "timelines": Kind(
        "trial:i collector:s begin_ns:i events:i lost_events:i",
        "SELECT t.trial, r.collector, t.begin_ns, t.events, t.lost_events FROM timelines t "
        "JOIN collector_runs r USING (trial, run) ORDER BY t.trial, t.run",
        since=2,
    ),
    "captures": Kind(
        "trial:i collector:s flows:i flows_beyond:i traces:i",
        "SELECT c.trial, r.collector, c.flows, c.flows_beyond, c.traces FROM captures c "
        "JOIN collector_runs r USING (trial, run) ORDER BY c.trial, c.run",
        since=3,
    ),
    "notes": Kind("trial:i text:s", "SELECT trial, text FROM notes ORDER BY trial, position"),
    "log": Kind("unix_ns:i text:s", "SELECT unix_ns, text FROM log ORDER BY entry"),
    "boot_logs": Kind(
        "session:i boot:i name:s bytes:i trimmed_bytes:i kept_bytes:i",
        "SELECT session, boot, name, bytes, trimmed_bytes, kept_bytes FROM boot_logs ORDER BY entry",
    ),
}

#: Kinds that the program holdup computes.
COMPUTED: Dict[str, Columns] = {
    "comparisons": _columns(
        "workload:s metric:s unit:s better:s kind:s factor:s? baseline:s? level:s? cell:s pooled:b headline:b primary:b ratio:f? "
        "low:f? high:f? confidence:f? n:i? method:s? noise_floor:f? p_adjusted:f? answer:s reason:s? blocks_needed:i?"
    ),
    "summaries": _columns(
        "arm:i arm_label:s workload:s replica:s? metric:s value:f? absent:s? mean:f? low:f? high:f? confidence:f? n:i? method:s? "
        "trials_done:i trials_void:i"
    ),
    "account": _columns("arm:i arm_label:s of:s state:s class:s share:f? low:f? high:f? time_s:f? sessions:f?"),
}
