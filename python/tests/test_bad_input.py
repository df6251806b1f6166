"""Files that are no bundles, damaged ones, runs that ended early; and that nothing is written."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import holdup
import support
from holdup import _file

FIXTURE = str(support.FIXTURES / "schema-3.holdup")


def snapshot(folder: str) -> dict[str, tuple[int, str]]:
    found = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            found[name] = (os.stat(path).st_mtime_ns, hashlib.sha256(file.read()).hexdigest())
    return found


def everything(bundle: holdup.Bundle) -> str:
    kinds = ["arms", "levels", "trials", "measurements", "metrics", "evidence", "facts", "trial_facts", "notes", "log"]
    return repr([bundle.head, bundle.plan, bundle.ending, [bundle.rows(kind) for kind in kinds]])


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory(prefix="holdup-python-")
        self.addCleanup(made.cleanup)
        self.folder = made.name
        self.path = support.copy(FIXTURE, self.folder)

    def refused(self, kind: type[holdup.Error], pattern: str, path: str | None = None) -> None:
        before = snapshot(self.folder) if path is None else None
        with self.assertRaisesRegex(kind, pattern) as caught:
            holdup.open(path or self.path)
        self.assertTrue(caught.exception.hint)
        self.assertRegex(str(caught.exception), "^bundle .*: .*\nhint: .")
        if before is not None:
            self.assertEqual(snapshot(self.folder), before)

    def execute(self, *statements: str) -> None:
        db = sqlite3.connect(self.path, isolation_level=None)
        for statement in statements:
            db.execute(statement)
        db.close()


class NoBundle(InAFolder):
    def test_files_that_are_no_bundle(self) -> None:
        at = lambda name: os.path.join(self.folder, name)  # noqa: E731
        for name, content in (("text", b"hello\n"), ("short", b"SQLi"), ("binary", bytes(range(256)) * 40)):
            with open(at(name), "wb") as file:
                file.write(content)
            self.refused(holdup.NotABundleError, "is not a bundle", at(name))
        open(at("empty"), "wb").close()
        self.refused(holdup.NotABundleError, "holds nothing", at("empty"))
        self.refused(holdup.NotABundleError, "there is no such file", at("none"))
        self.refused(holdup.NotABundleError, "is a folder", self.folder)
        os.mkfifo(at("fifo"))
        self.refused(holdup.NotABundleError, "is not a regular file", at("fifo"))
        db = sqlite3.connect(at("other"))
        db.execute("CREATE TABLE trials (trial)")
        db.close()
        self.refused(holdup.NotABundleError, "is an SQLite file, but not a bundle", at("other"))

    def test_a_newer_schema_names_both_versions(self) -> None:
        self.execute("PRAGMA user_version = 4")
        self.refused(holdup.SchemaError, "has schema version 4, this package reads up to 3")

    def test_a_view_in_the_place_of_a_table_is_refused(self) -> None:
        self.execute("ALTER TABLE log RENAME TO other", "CREATE VIEW log AS SELECT * FROM other")
        self.refused(holdup.DamagedError, "the table log is missing")

    def test_names_with_characters_of_an_address_are_files(self) -> None:
        for name in ("a?mode=rwc.holdup", "a#b.holdup", "a%20b.holdup", "ä b.holdup"):
            path = shutil.copyfile(self.path, os.path.join(self.folder, name))
            self.assertEqual(len(holdup.open(path).trials), 5)


class Damaged(InAFolder):
    def test_every_changed_byte_is_refused_or_changes_no_value(self) -> None:
        with open(FIXTURE, "rb") as file:
            original = file.read()
        whole = everything(holdup.open(FIXTURE))
        refused = 0
        for place in range(5, len(original), 1009):
            changed = bytearray(original)
            changed[place] ^= 0x41
            with open(self.path, "wb") as file:
                file.write(changed)
            try:
                with holdup.open(self.path) as bundle:
                    self.assertEqual(everything(bundle), whole, place)
            except holdup.Error as e:
                self.assertTrue(e.hint)
                refused += 1
        self.assertGreater(refused, 20)

    def test_text_that_is_not_utf_8_is_an_error_of_this_package(self) -> None:
        with open(FIXTURE, "rb") as file:
            original = file.read()
        # The statement that SQLite cannot understand is in its message.
        self.assertIn(b"CREATE TABLE ending", original)
        with open(self.path, "wb") as file:
            file.write(original.replace(b"CREATE TABLE ending", b"CREATE \xff\xff\xff\xff\xff ending"))
        self.refused(holdup.DamagedError, "is damaged")

    def test_a_file_that_is_cut_is_refused(self) -> None:
        size = os.path.getsize(self.path)
        for share in (0.9, 0.5, 0.1):
            os.truncate(self.path, int(size * share))
            self.refused(holdup.DamagedError, "is damaged")

    def test_rows_that_were_changed_or_removed_are_refused(self) -> None:
        for statement, found in (
            ("UPDATE measurements SET value = value * 1.0000001 WHERE trial = 2", "trial 2: its values do not match"),
            ("DELETE FROM trials WHERE trial = 2", " 2: its values are missing"),
            ("DELETE FROM checksums WHERE part = 'plan'", "plan: its checksum is missing"),
            ("UPDATE captures SET flows = flows + 1", "captures .: its values do not match"),
            ("UPDATE facts SET value = 'x' WHERE fact = 1", "its values do not match"),
        ):
            shutil.copyfile(FIXTURE, self.path)
            self.execute("PRAGMA foreign_keys = OFF", statement)
            with self.subTest(statement):
                self.refused(holdup.DamagedError, found)
            self.assertTrue(holdup.open(self.path, verify=False).arms)

    def test_a_changed_blob_is_an_error_of_this_package(self) -> None:
        self.execute("UPDATE stack_profiles SET json_zlib = x'00'", "UPDATE histograms SET hdr_v2 = x'1c84'")
        bundle = holdup.open(self.path, verify=False)
        row, other = bundle.rows("stacks")[0], bundle.rows("histograms")[0]
        with self.assertRaisesRegex(holdup.DamagedError, "stacks of trial"):
            bundle.stacks(row["trial"], row["name"])
        with self.assertRaisesRegex(holdup.DamagedError, "histogram .* of trial"):
            bundle.histogram(other["trial"], other["name"])


class EndedEarly(InAFolder):
    def crash(self, *, name_another: bool = False) -> None:
        """Leaves a hot journal, as a crash in the middle of a write does: the file is half written."""
        code = (
            "import os, signal, sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "db.execute('PRAGMA cache_size = 2'); db.execute('PRAGMA cache_spill = 2'); db.execute('BEGIN')\n"
            "db.execute('UPDATE measurements SET value = 1.0 WHERE value IS NOT NULL')\n"
            "db.execute('UPDATE evidence SET value = 2.0 WHERE value IS NOT NULL')\n"
            "db.execute('UPDATE histograms SET hdr_v2 = zeroblob(40000)')\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        ended = subprocess.run([sys.executable, "-c", code, self.path])
        self.assertEqual(ended.returncode, -signal.SIGKILL)
        self.assertGreater(os.path.getsize(self.path + "-journal"), 0)
        if name_another:
            with open(self.path + "-journal", "ab") as journal:
                journal.write(_file.JOURNAL_MAGIC)

    def test_a_journal_of_a_crash_is_rolled_back_on_a_copy(self) -> None:
        whole = everything(holdup.open(self.path))
        self.crash()
        with open(self.path, "rb") as file, open(FIXTURE, "rb") as other:
            self.assertNotEqual(file.read(), other.read())
        before = snapshot(self.folder)
        with holdup.open(self.path) as bundle:
            self.assertEqual(everything(bundle), whole)
            copies = bundle._source._copy
            assert copies is not None
            self.assertTrue(os.path.isdir(copies.name))
        self.assertFalse(os.path.exists(copies.name))
        self.assertEqual(snapshot(self.folder), before)

    def test_a_journal_that_names_another_file_is_refused(self) -> None:
        self.crash(name_another=True)
        self.refused(holdup.NotABundleError, "names another file")

    def test_a_bundle_that_others_may_write_or_replace_is_one_of_others(self) -> None:
        for path, mode, is_of_others in (
            (self.path, 0o644, False),
            (self.path, 0o664, True),
            (self.folder, 0o1777, True),
            (self.folder, 0o755, False),
        ):
            os.chmod(self.path, 0o644)
            os.chmod(path, mode)
            with self.subTest(path=path, mode=oct(mode)):
                self.assertEqual(holdup.open(self.path)._source._is_of_others(), is_of_others)
        with open(self.path + "-journal", "w"):
            os.chmod(self.path + "-journal", 0o666)
        self.assertTrue(holdup.open(self.path)._source._is_of_others())

    def test_a_bundle_and_its_journal_share_the_room_of_a_copy(self) -> None:
        self.crash()
        room = os.path.getsize(self.path) + os.path.getsize(self.path + "-journal")
        with mock.patch.object(_file, "MOST_BYTES_OF_A_COPY", room):
            holdup.open(self.path)
        with mock.patch.object(_file, "MOST_BYTES_OF_A_COPY", room - 1):
            self.refused(holdup.Error, "with what lies beside it, it has more than")

    def test_a_write_ahead_log_is_read_on_a_copy(self) -> None:
        code = (
            "import os, signal, sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "db.execute('PRAGMA journal_mode = WAL')\n"
            "db.execute('CREATE TABLE mine (x)')\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        whole = everything(holdup.open(self.path))
        subprocess.run([sys.executable, "-c", code, self.path])
        self.assertIn("copy.holdup-wal", os.listdir(self.folder))
        before = snapshot(self.folder)
        self.assertEqual(everything(holdup.open(self.path)), whole)
        self.assertEqual(snapshot(self.folder), before)

    def test_a_run_without_an_end_is_read_and_says_so(self) -> None:
        self.execute("DELETE FROM ending", "DELETE FROM checksums WHERE part = 'ending'")
        bundle = holdup.open(self.path)
        self.assertIsNone(bundle.ending)
        self.assertFalse(bundle.is_complete)
        self.assertEqual(len(bundle.trials), 5)

    def test_a_run_that_still_writes_is_not_held_up(self) -> None:
        self.execute("DELETE FROM ending", "DELETE FROM checksums WHERE part = 'ending'")
        bundle = holdup.open(self.path)
        self.execute("PRAGMA busy_timeout = 0", "DELETE FROM notes", "DELETE FROM trials WHERE trial = 4")
        self.assertEqual(len(bundle.trials), 5)


class NothingIsWritten(InAFolder):
    def test_neither_to_the_bundle_nor_beside_it(self) -> None:
        before = snapshot(self.folder)
        with holdup.open(self.path) as bundle:
            everything(bundle)
            self.assertEqual(snapshot(self.folder), before)
            for statement in (
                "DELETE FROM log",
                "CREATE TEMP TABLE t (x)",
                "ATTACH ':memory:' AS m",
                "PRAGMA query_only = OFF",
                "SELECT json_extract('1', '$')",
            ):
                with self.assertRaises(holdup.Error):
                    bundle._query(statement)
        self.assertEqual(snapshot(self.folder), before)

    def test_a_closed_bundle_says_so(self) -> None:
        bundle = holdup.open(self.path)
        bundle.close()
        with self.assertRaisesRegex(holdup.Error, "is closed\nhint: open it again"):
            bundle.rows("trials")

    def test_threads_may_share_a_bundle(self) -> None:
        bundle = holdup.open(self.path)
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(len(bundle.rows("evidence")))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [len(bundle.rows("evidence"))] * 8)


class APoorPython(unittest.TestCase):
    def test_no_function_of_sqlite_is_needed_so_its_json_is_not(self) -> None:
        """The authorizer refuses every function, those of JSON included, and all kinds of rows are read."""
        bundle = holdup.open(FIXTURE)
        with self.assertRaises(holdup.Error):
            bundle._query("SELECT json('1')")
        self.assertTrue(everything(bundle))

    def opened_after(self, change: str) -> str:
        """What holdup.open reports in a Python that was changed so."""
        code = (
            "import sys\nsys.modules['pysqlite3'] = None\n"
            f"{change}\nimport holdup\n"
            "try:\n    holdup.open(sys.argv[1])\nexcept holdup.MissingError as e:\n    print(e)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, FIXTURE], capture_output=True, text=True, env=support.environment())
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_without_sqlite_the_error_says_what_to_install(self) -> None:
        printed = self.opened_after("sys.modules['sqlite3'] = None")
        self.assertRegex(printed, "^this Python has no SQLite: .*\nhint: use another Python, or pip install pysqlite3-binary")

    def test_an_sqlite_without_strict_tables_is_named_with_its_version(self) -> None:
        printed = self.opened_after("import sqlite3; sqlite3.sqlite_version_info = (3, 34, 1); sqlite3.sqlite_version = '3.34.1'")
        self.assertRegex(printed, "^SQLite of this Python: is version 3.34.1, a bundle needs 3.37 or later\nhint: ")
