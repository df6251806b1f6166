"""What the tests share: the program holdup, and bundles that it made."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import unittest
from pathlib import Path

import holdup

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "crates/holdup-bundle/tests/fixtures"
FOLDER = tempfile.TemporaryDirectory(prefix="holdup-python-")
atexit.register(FOLDER.cleanup)

#: A sweep on a simulated machine: no host is measured, so that every run has the same numbers.
SWEEP = """
name = "sweep"
question = "What do more threads than CPUs cost?"
target = "sim:server-8"

[[workload]]
kind = "lock-contention"
threads = [4, 12]
algorithm = ["tas", "ticket"]

[factors]
preempt = ["none", "full"]

[collect]
collectors = ["timeline"]

[design]
duration = "5ms"
warmup = "5ms"
blocks = 2
"""


def program() -> str:
    """The path of the program; a test that needs it is skipped where there is none."""
    try:
        return holdup._binary.find()
    except holdup.MissingError as e:
        raise unittest.SkipTest(str(e.problem)) from None


def need(module: str) -> None:
    try:
        __import__(module)
    except ImportError as e:
        raise unittest.SkipTest(f"{module} cannot be imported ({e})") from None


@functools.lru_cache(maxsize=None)
def made(name: str) -> str:
    """The path of a bundle that the program made."""
    program()
    out = os.path.join(FOLDER.name, f"{name}.holdup")
    if name == "sweep":
        holdup.run(SWEEP, out=out)
    elif name == "locks":
        holdup.run(
            "lock-contention", out=out, threads=2, algorithm=["tas", "pthread-mutex"], duration="50ms", warmup="0s",
            blocks=2, wait="1h",
        )
    elif name == "pgbench":
        try:
            holdup.run(
                "pgbench", out=out, clients=2, vary={"postgres.huge_pages": ["off", "try"]}, set={"scale": 1},
                duration="300ms", warmup="0s", blocks=1, wait="1h",
            )
        except holdup.HostError as e:
            raise unittest.SkipTest(e.problem) from None
    else:
        raise KeyError(name)
    return out


def copy(name: str, into: str) -> str:
    """A copy of a bundle in a folder."""
    to = os.path.join(into, "copy.holdup")
    shutil.copyfile(name, to)
    return to


def cargo_version() -> str:
    for line in (ROOT / "Cargo.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise AssertionError("Cargo.toml has no version")




def environment() -> dict[str, str]:
    """The environment of a Python that a test starts: it finds the package where this one does."""
    return {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(holdup.__file__)))}
