"""Errors: what, why, and what to do."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Trouble that a user can do something about.

    Its text is ``what: why``, and on a line ``hint: what to do`` where there is a hint.
    """

    def __init__(self, problem: str, hint: Optional[str] = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\nhint: {hint}")
        self.problem = problem
        self.hint = hint


class NotABundleError(Error):
    """The file is no bundle, or there is no such file."""


class SchemaError(Error):
    """The bundle has a newer schema than this package reads."""


class DamagedError(Error):
    """The bundle is damaged."""


class MissingError(Error):
    """What was asked for needs something that is not installed: a library, or the program holdup."""


class RunError(Error):
    """The program holdup failed. Its exit code is ``exit_code``; ``bundle`` is the path of what it left, if it left a bundle."""

    def __init__(self, problem: str, hint: Optional[str], exit_code: int, bundle: Optional[str] = None) -> None:
        super().__init__(problem, hint)
        self.exit_code = exit_code
        self.bundle = bundle


class UsageError(RunError):
    """Exit code 2: the command line or the plan is wrong."""


class HostError(RunError):
    """Exit code 3: this host cannot do it."""


class InterruptedRunError(RunError):
    """Exit code 4: interrupted, the host is restored."""


class NotRestoredError(RunError):
    """Exit code 5: the host is not fully restored."""


BY_EXIT_CODE = {2: UsageError, 3: HostError, 4: InterruptedRunError, 5: NotRestoredError}
