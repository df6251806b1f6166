"""Read the bundles of holdup, and run its plans.

    import holdup

    bundle = holdup.open("a.holdup")
    bundle.frame("trials")                # pandas; as_="polars", as_="arrow"
    bundle.rows("comparisons")            # ratios with intervals, by the program holdup
    holdup.run("lock-contention", threads=8, algorithm=["tas", "ticket"])
"""

from __future__ import annotations

import os
from typing import Optional, Union

from . import _binary, plot
from ._binary import run
from ._blobs import Bucket, Histogram
from ._bundle import Arm, Bundle, Ending, Evidence, Fact, Head, LogEntry, Metric, Plan, Trial
from ._error import (
    DamagedError,
    Error,
    HostError,
    InterruptedRunError,
    MissingError,
    NotABundleError,
    NotRestoredError,
    RunError,
    SchemaError,
    UsageError,
)

__version__ = "0.1.0"

__all__ = [
    "Arm", "Bucket", "Bundle", "DamagedError", "Ending", "Error", "Evidence", "Fact", "Head", "Histogram", "HostError",
    "InterruptedRunError", "LogEntry", "Metric", "MissingError", "NotABundleError", "NotRestoredError", "Plan", "RunError",
    "SchemaError", "Trial", "UsageError", "open", "plot", "run",
]


def open(
    path: Union[str, "os.PathLike[str]"], *, verify: bool = True, binary: Optional[_binary.PathLike] = None
) -> Bundle:
    """Opens a bundle for reading. Nothing is written to it or beside it.

    With ``verify`` every part is compared with its checksum, and a bundle that is damaged is refused. ``binary`` is the
    program holdup for ``Bundle.report`` and the like; by default the environment variable HOLDUP or PATH has it.
    """
    return Bundle(path, verify=verify, binary=binary)
