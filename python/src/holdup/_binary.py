"""The program holdup: where it is, what it prints, how it fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from ._error import BY_EXIT_CODE, Error, MissingError, RunError

if TYPE_CHECKING:
    from ._bundle import Bundle

PathLike = Union[str, "os.PathLike[str]"]
#: Options with which `holdup run` makes no bundle here, and those that are given otherwise.
REFUSED = {
    "dry_run": "it runs nothing",
    "save_plan": "it runs nothing",
    "cancel": "it runs nothing",
    "help": "it runs nothing",
    "quiet": "progress=True shows progress",
    "details": "Bundle.report() has everything",
    "verbose": "progress=True shows progress",
}


def find(binary: Optional[PathLike] = None) -> str:
    """The path of the program: ``binary``, else what the environment variable HOLDUP has, else what PATH finds."""
    asked = os.fspath(binary) if binary is not None else os.environ.get("HOLDUP")
    if asked:
        found = shutil.which(asked)
        if found is None:
            where = "" if binary is not None else "HOLDUP = "
            raise MissingError(f"{where}{asked}: there is no such program", "give the path of the program holdup")
        return found
    found = shutil.which("holdup")
    if found is None:
        raise MissingError(
            "holdup: there is no such program in PATH",
            "build it with script/build, then put it in PATH, or its path in the environment variable HOLDUP",
        )
    return found


def call(arguments: List[str], binary: Optional[PathLike], echo: bool = False) -> Tuple[int, bytes, str]:
    """Runs the program to its end: its exit code, what it printed, and its errors.

    Ctrl-C ends the run, which restores the host.
    """
    program = find(binary)
    with tempfile.TemporaryFile() as out:
        try:
            # A session apart: Ctrl-C at a terminal reaches the run once, from here, and not twice.
            child = subprocess.Popen(
                [program, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as e:
            raise MissingError(f"{program}: cannot be started ({e.strerror})", "give the path of the program holdup") from e
        lines: List[str] = []
        with child:
            assert child.stderr is not None
            interrupted = False
            while True:
                try:
                    for line in child.stderr:
                        lines.append(line.decode(errors="replace"))
                        if echo:
                            sys.stderr.write(lines[-1])
                    child.wait()
                    break
                except KeyboardInterrupt:
                    interrupted = True
                    child.send_signal(signal.SIGINT)
        if interrupted:
            raise KeyboardInterrupt
        out.seek(0)
        return child.returncode, out.read(), "".join(lines)


def failure(code: int, errors: str, bundle: Optional[str] = None) -> RunError:
    """What the program reported, as an exception."""
    if code < 0:
        return RunError(f"holdup: was killed by signal {-code}", "holdup restore puts back what it changed", code, bundle)
    begin = errors.find("error: ")
    while begin > 0 and errors[begin - 1] != "\n":
        begin = errors.find("error: ", begin + 1)
    text = errors[begin + len("error: ") :] if begin >= 0 else errors or f"holdup: failed with exit code {code}"
    problem, _, hint = text.partition("\nhint: ")
    return BY_EXIT_CODE.get(code, RunError)(problem.strip(), hint.strip() or None, code, bundle)


def document(arguments: List[str], schema: str, binary: Optional[PathLike]) -> Dict[str, Any]:
    """A JSON document that the program prints."""
    code, out, errors = call(arguments, binary)
    # Some commands have an answer in their exit code: 1 and 3 come with a document as well.
    if code != 0 and not (code in (1, 3) and out.strip()):
        raise failure(code, errors)
    try:
        made = json.loads(out)
    except ValueError as e:
        raise Error(f"holdup {arguments[0]}: printed no JSON ({e})", "use the holdup that belongs to this package") from e
    if not isinstance(made, dict) or made.get("schema") != schema:
        found = made.get("schema") if isinstance(made, dict) else None
        raise Error(
            f"holdup {arguments[0]}: printed a document of schema {found}, not {schema}",
            "use a holdup and a package of the same version",
        )
    return made


def _words(name: str, value: Any) -> List[str]:
    option = "--" + name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, dict):
        return [word for key, one in value.items() for word in (option, f"{key}={_text(one)}")]
    return [f"{option}={_text(value)}"]


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(_text(one) for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    raise Error(f"{value!r}: a setting of a run is a text, a number, or a list of them", "write it as on the command line")


def _free_name(plan: str) -> str:
    name = os.path.splitext(os.path.basename(plan))[0]
    number = 1
    while os.path.lexists(f"{name}-{number}.holdup"):
        number += 1
    return f"{name}-{number}.holdup"


def run(
    plan: PathLike,
    *,
    out: Optional[PathLike] = None,
    command: Optional[List[str]] = None,
    progress: bool = False,
    binary: Optional[PathLike] = None,
    **settings: Any,
) -> Bundle:
    """Runs a plan with the program holdup, and returns its bundle.

    ``plan`` is the path of a plan, the name of a workload (``"pgbench"``), or a plan itself, as TOML of several lines.
    ``settings`` are the options of ``holdup run``, with ``_`` for ``-``: ``threads=[4, 8]`` is ``--threads 4,8``,
    ``vary={"autogroup": ["on", "off"]}`` is ``--vary autogroup=on,off``, ``sudo=True`` is ``--sudo``. ``command`` is the
    command line of the workload ``command``. ``out`` is the new bundle, by default ``NAME-N.holdup`` in the working folder.

    Raises UsageError, HostError, InterruptedRunError and NotRestoredError for the exit codes 2 to 5, and RunError for others.
    """
    from ._bundle import Bundle

    for name, why in REFUSED.items():
        if settings.get(name) not in (None, False):
            raise Error(f"{name}: holdup.run does not take it ({why})", "use the command line for it")
    text = os.fspath(plan)
    with tempfile.TemporaryDirectory(prefix="holdup-plan-") as folder:
        is_toml = "\n" in text
        if is_toml:
            path = os.path.join(folder, "plan.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            path = text
        to = os.fspath(out) if out is not None else _free_name(path)
        existed = os.path.lexists(to)
        words = ["run", path, f"--out={to}"]
        words += [word for name, value in settings.items() for word in _words(name, value)]
        words += [] if progress else ["--quiet"]
        words += ["--", *command] if command else []
        code, _, errors = call(words, binary, echo=progress)
        # The file is gone when the error is read.
        errors = errors.replace(path, "the plan") if is_toml else errors
    if code != 0:
        raise failure(code, errors, to if os.path.lexists(to) and not existed else None)
    return Bundle(to, binary=binary)
