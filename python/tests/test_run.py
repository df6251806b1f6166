"""holdup.run, and the program when it fails."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import holdup
import support

LONG = {"threads": 2, "algorithm": ["tas", "ticket"], "duration": "50ms", "warmup": "0s", "blocks": 1000, "wait": "1h"}


def children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def wait_for_trials(path: str) -> None:
    """Until the run has written a trial. A deadline ends a run that never does."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            with holdup.open(path, verify=False) as bundle:
                if bundle.trials:
                    return
        except holdup.Error:
            pass
        time.sleep(0.05)
    raise AssertionError("no trial was written")


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        support.program()
        made = tempfile.TemporaryDirectory(prefix="holdup-python-")
        self.addCleanup(made.cleanup)
        self.folder = made.name
        self.out = os.path.join(self.folder, "a.holdup")

    def test_a_plan_as_text_and_as_a_file_are_one_run(self) -> None:
        path = os.path.join(self.folder, "plan.toml")
        Path(path).write_text(support.SWEEP)
        of_file = holdup.run(path, out=self.out)
        of_text = holdup.open(support.made("sweep"))
        self.assertTrue(of_file.is_complete)
        self.assertEqual([t.values for t in of_file.trials], [t.values for t in of_text.trials])

    def test_settings_are_options_of_the_command_line(self) -> None:
        bundle = holdup.run(
            "lock-contention", out=self.out, target="sim:server-8", threads=[2, 4], algorithm="tas", duration="5ms",
            warmup="1ms", blocks=1, vary={"preempt": ["none", "full"]}, set={"faults": 1}, collect=[],
        )
        levels = {(arm.levels["threads"], arm.levels["preempt"]) for arm in bundle.arms}
        self.assertEqual(levels, {(2, "none"), (2, "full"), (4, "none"), (4, "full")})
        self.assertEqual(bundle.plan.checked["workloads"][0]["parameters"]["faults"], 1)

    def test_the_default_name_is_one_that_is_free(self) -> None:
        code = (
            "import holdup\nfor _ in 1, 2:\n"
            "    print(holdup.run('wakeup', target='sim:server-8', threads=[1, 2], duration='5ms', warmup='1ms', blocks=1).path)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, capture_output=True, text=True,
            env=support.environment(),
        )
        self.assertEqual(done.stdout, "wakeup-1.holdup\nwakeup-2.holdup\n", done.stderr)

    def test_the_workload_command_takes_a_command_line(self) -> None:
        bundle = holdup.run(
            "command", out=self.out, command=["true"], blocks=1, vary={"sched-policy": ["other", "batch"]}, wait="1h"
        )
        self.assertTrue(bundle.trials)

    def test_a_wrong_plan_is_a_usage_error(self) -> None:
        with self.assertRaisesRegex(holdup.UsageError, "cannot read the plan nonsense.toml.*\nhint: give a plan file") as caught:
            holdup.run("nonsense.toml", out=self.out)
        self.assertEqual((caught.exception.exit_code, caught.exception.bundle), (2, None))
        with self.assertRaisesRegex(holdup.UsageError, "^the plan: .*\n +the plan:6:1: key `bogus`"):
            holdup.run(support.SWEEP.replace("[[workload]]", "bogus = 1"), out=self.out)
        with self.assertRaisesRegex(holdup.UsageError, "unexpected argument '--bogus'"):
            holdup.run("lock-contention", out=self.out, bogus=1)

    def test_a_bundle_is_never_overwritten(self) -> None:
        Path(self.out).write_text("mine")
        with self.assertRaisesRegex(holdup.UsageError, "exists already") as caught:
            holdup.run(support.SWEEP, out=self.out)
        self.assertIsNone(caught.exception.bundle)
        self.assertEqual(Path(self.out).read_text(), "mine")

    def test_what_the_host_cannot_do_is_a_host_error(self) -> None:
        with self.assertRaises(holdup.HostError) as caught:
            holdup.run("pgbench", out=self.out, pg_bin=self.folder, clients=[1, 2], blocks=1, duration="50ms")
        self.assertEqual(caught.exception.exit_code, 3)

    def test_options_that_make_no_bundle_are_refused(self) -> None:
        for name in holdup._binary.REFUSED:
            with self.assertRaisesRegex(holdup.Error, f"^{name}: holdup.run does not take it"):
                holdup.run("pgbench", **{name: True})
        with self.assertRaisesRegex(holdup.Error, "a setting of a run is"):
            holdup.run("pgbench", out=self.out, clients=object())

    def ended_by(self, number: int) -> BaseException:
        caught: list[BaseException] = []

        def work() -> None:
            try:
                holdup.run("lock-contention", out=self.out, **LONG)
            except holdup.Error as e:
                caught.append(e)

        before = set(children())
        thread = threading.Thread(target=work)
        thread.start()
        try:
            wait_for_trials(self.out)
        finally:
            for pid in set(children()) - before:
                os.kill(pid, number)
            thread.join()
        return caught[0]

    def test_a_run_that_a_signal_ends_is_interrupted_and_leaves_a_bundle(self) -> None:
        error = self.ended_by(signal.SIGTERM)
        assert isinstance(error, holdup.InterruptedRunError), error
        self.assertEqual((error.exit_code, error.bundle), (4, self.out))
        bundle = holdup.open(self.out)
        assert bundle.ending is not None
        self.assertEqual(bundle.ending.how, "interrupted")
        self.assertFalse(bundle.is_complete)

    def test_a_run_that_is_killed_leaves_what_it_had(self) -> None:
        error = self.ended_by(signal.SIGKILL)
        assert isinstance(error, holdup.RunError), error
        self.assertRegex(str(error), "was killed by signal 9\nhint: holdup restore")
        with holdup.open(self.out) as bundle:
            self.assertIsNone(bundle.ending)
            self.assertTrue(bundle.trials)

    def test_ctrl_c_ends_the_run_and_then_python(self) -> None:
        code = (
            "import holdup, sys\n"
            "try:\n    holdup.run('lock-contention', out=sys.argv[1], **eval(sys.argv[2]))\n"
            "except KeyboardInterrupt:\n    print(holdup.open(sys.argv[1]).ending.how)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", code, self.out, repr(LONG)], stdout=subprocess.PIPE, text=True, env=support.environment()
        )
        try:
            wait_for_trials(self.out)
        finally:
            child.send_signal(signal.SIGINT)
            printed, _ = child.communicate()
        self.assertEqual(printed, "interrupted\n")


class NoProgram(unittest.TestCase):
    def setUp(self) -> None:
        kept = {name: os.environ.get(name) for name in ("HOLDUP", "PATH")}

        def put_back() -> None:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

        self.addCleanup(put_back)
        made = tempfile.TemporaryDirectory(prefix="holdup-python-")
        self.addCleanup(made.cleanup)
        self.folder = made.name
        self.bundle = holdup.open(support.FIXTURES / "schema-3.holdup")

    def test_without_the_program_the_error_says_where_it_is_looked_for(self) -> None:
        os.environ.pop("HOLDUP", None)
        os.environ["PATH"] = self.folder
        with self.assertRaisesRegex(holdup.MissingError, "no such program in PATH\nhint: .*environment variable HOLDUP"):
            self.bundle.report()
        os.environ["HOLDUP"] = "/nonexistent/holdup"
        with self.assertRaisesRegex(holdup.MissingError, "^HOLDUP = /nonexistent/holdup: there is no such program"):
            holdup.run("pgbench")
        self.assertTrue(self.bundle.rows("trials"))

    def program(self, script: str) -> str:
        path = os.path.join(self.folder, "program")
        Path(path).write_text(f"#!/bin/sh\n{script}\n")
        os.chmod(path, stat.S_IRWXU)
        return path

    def test_another_program_or_schema_is_refused(self) -> None:
        for script, found in (
            ("echo hello", "printed no JSON"),
            ("""echo '{"schema": "holdup.report/9"}'""", "schema holdup.report/9, not holdup.report/1"),
            ("echo 'error: a: b' >&2; echo 'hint: c' >&2; exit 70", "^a: b\nhint: c$"),
            ("exit 9", "failed with exit code 9"),
        ):
            os.environ["HOLDUP"] = self.program(script)
            with self.assertRaisesRegex(holdup.Error, found):
                holdup.open(self.bundle.path).report()

    def test_a_host_that_was_not_restored_is_an_error_of_its_kind(self) -> None:
        with self.assertRaisesRegex(holdup.NotRestoredError, "^x: y$") as caught:
            out = os.path.join(self.folder, "a.holdup")
            holdup.run("pgbench", out=out, binary=self.program("echo 'error: x: y' >&2; exit 5"))
        self.assertEqual(caught.exception.exit_code, 5)
