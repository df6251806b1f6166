"""Opening a bundle. Nothing is written to it or beside it, and no lock is kept on it."""

from __future__ import annotations

import fcntl
import functools
import importlib
import os
import shutil
import stat
import tempfile
import urllib.parse
from typing import TYPE_CHECKING, Any, Optional

from ._error import DamagedError, Error, MissingError, NotABundleError, SchemaError

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x686C6470
SCHEMA_VERSION = 3
MAGIC = b"SQLite format 3\0"
# What a journal that names a super-journal ends with (pager.c, aJournalMagic). SQLite may remove the file of that name.
JOURNAL_MAGIC = bytes((0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7))
BUSY_S = 30.0
MOST_BYTES_OF_A_ROW = 256 << 20
#: The most bytes of a bundle, with what lies beside it, that are copied to be recovered.
MOST_BYTES_OF_A_COPY = 1 << 30
# The first version with strict tables.
OLDEST_SQLITE = (3, 37)
IS_A_BUNDLE = "a bundle is the .holdup file that `holdup run --out FILE` writes"


@functools.lru_cache(maxsize=None)
def sqlite() -> Any:
    """The module sqlite3, which some builds of Python lack, else the package pysqlite3, which has the same interface."""
    found = []
    for name in ("sqlite3", "pysqlite3.dbapi2"):
        try:
            module = importlib.import_module(name)
        except ImportError as e:
            found.append(f"this Python has no SQLite: {e}")
            continue
        if module.sqlite_version_info >= OLDEST_SQLITE:
            return module
        needed = ".".join(map(str, OLDEST_SQLITE))
        found.append(f"SQLite of this Python: is version {module.sqlite_version}, a bundle needs {needed} or later")
    raise MissingError(found[0], "use another Python, or pip install pysqlite3-binary, which has an SQLite")


def damaged(path: str, found: object) -> DamagedError:
    return DamagedError(f"bundle {path}: is damaged: {found}", f"holdup verify {path} shows what is left of it")


class Source:
    """An open bundle: a connection that reads, and may do nothing else."""

    def __init__(self, path: str) -> None:
        self.path = path
        # SQLite looks for a journal beside what a link leads to.
        self.real = os.path.realpath(path)
        self._copy: Optional[tempfile.TemporaryDirectory[str]] = None
        self._held: Optional[int] = None
        self.is_wal = self._look()
        try:
            self.db = self._open()
            self.version = self._check()
            self._freeze()
            self.db.set_authorizer(_allow)
        # SQLite puts text of the file into its messages, which need not be UTF-8.
        except (sqlite().Error, UnicodeDecodeError) as e:
            self.close()
            raise self.trouble(e) from e
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        db = getattr(self, "db", None)
        if db is not None:
            db.close()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def trouble(self, error: Exception) -> Error:
        """An error of SQLite in words that say what to do."""
        text = str(error)
        if isinstance(error, sqlite().ProgrammingError) and "closed" in text:
            return Error(f"bundle {self.path}: is closed", "open it again with holdup.open")
        if "not a database" in text:
            return NotABundleError(f"bundle {self.path}: is not a bundle (not an SQLite file)", IS_A_BUNDLE)
        if "locked" in text:
            return Error(
                f"bundle {self.path}: another program holds it locked", "close the program that has the file open"
            )
        if "unable to open" in text:
            return Error(
                f"bundle {self.path}: cannot be opened ({text})", "check the permissions of the file and of its folder"
            )
        return damaged(self.path, text)

    def _look(self) -> bool:
        """What can be said of a file before SQLite sees it. Returns whether it has a write-ahead log."""
        try:
            meta = os.stat(self.path)
        except FileNotFoundError:
            raise NotABundleError(f"bundle {self.path}: there is no such file", IS_A_BUNDLE) from None
        except OSError as e:
            raise self._unreadable(e) from e
        if stat.S_ISDIR(meta.st_mode):
            raise NotABundleError(f"bundle {self.path}: is a folder", IS_A_BUNDLE)
        if not stat.S_ISREG(meta.st_mode):
            raise NotABundleError(f"bundle {self.path}: is not a regular file", IS_A_BUNDLE)
        if meta.st_size == 0:
            raise NotABundleError(
                f"bundle {self.path}: holds nothing: the run ended before its first write was complete",
                "remove the file and run again",
            )
        try:
            with open(self.path, "rb") as file:
                head = file.read(100)
        except OSError as e:
            raise self._unreadable(e) from e
        is_marked = head[68:72] == APPLICATION_ID.to_bytes(4, "big")
        if not head.startswith(MAGIC):
            if is_marked:
                raise damaged(self.path, "its first bytes are not those of an SQLite file")
            raise NotABundleError(f"bundle {self.path}: is not a bundle (not an SQLite file)", IS_A_BUNDLE)
        # With a journal beside it the file may be half written: SQLite judges it after the journal is rolled back.
        if not is_marked and not self._has_beside("-journal"):
            raise NotABundleError(f"bundle {self.path}: is an SQLite file, but not a bundle", IS_A_BUNDLE)
        return head[18:20] == b"\x02\x02"

    def _unreadable(self, error: OSError) -> Error:
        return Error(
            f"bundle {self.path}: cannot be opened ({error.strerror})",
            "check the permissions of the file and of its folder",
        )

    def _has_beside(self, suffix: str) -> bool:
        """True if something is in a file beside the bundle that the bundle's owner alone can have made."""
        try:
            found = os.lstat(self.real + suffix)
            is_of_owner = found.st_uid == os.stat(self.real).st_uid
        except OSError:
            return False
        # Anybody may give another file of that owner a second name.
        return is_of_owner and found.st_nlink == 1 and stat.S_ISREG(found.st_mode) and found.st_size > 0

    def _is_of_others(self) -> bool:
        """True if a user other than this one and root may write the bundle, or write or replace what lies beside it."""
        beside = [self.real + suffix for suffix in ("-journal", "-wal", "-shm")]
        try:
            folder = os.stat(os.path.dirname(self.real))
            found = [os.stat(self.real), *(os.lstat(path) for path in beside if os.path.lexists(path))]
        except OSError:
            return True

        def are_of(uid: int) -> bool:
            return all(
                one.st_uid == uid and one.st_nlink == 1 and stat.S_ISREG(one.st_mode) and not one.st_mode & 0o022
                for one in found
            )

        us = os.geteuid()
        is_kept = folder.st_uid in (us, 0) and not folder.st_mode & 0o022
        return not (is_kept and (are_of(us) or are_of(0)))

    def _open(self) -> sqlite3.Connection:
        # A reader of a write-ahead log makes files beside it, even one that may only read.
        if self.is_wal:
            return self._begin(self._copied(), "mode=rw")
        if self._is_of_others():
            if self._has_beside("-journal"):
                return self._begin(self._copied(), "mode=rw")
            return self._begin(self.real, "mode=ro&immutable=1")
        try:
            return self._begin(self.real, "mode=ro")
        except sqlite().OperationalError as e:
            text = str(e)
            # A journal of a crash must be rolled back, which SQLite may not do here.
            if self._has_beside("-journal") and ("readonly" in text or "unable to open" in text):
                return self._begin(self._copied(), "mode=rw")
            # File systems without locks.
            if "locking protocol" in text or "disk I/O error" in text:
                return self._begin(self.real, "mode=ro&immutable=1")
            raise

    def _begin(self, path: str, how: str) -> sqlite3.Connection:
        lite = sqlite()
        name = "file:" + urllib.parse.quote(os.path.abspath(path)) + "?" + how
        db: sqlite3.Connection = lite.connect(
            name, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA trusted_schema=OFF")
            db.execute("PRAGMA mmap_size=0")
            db.execute("PRAGMA cell_size_check=ON")
            db.execute("PRAGMA query_only=ON")
            if hasattr(db, "setlimit"):
                db.setlimit(lite.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_A_ROW)
            db.execute("SELECT name FROM sqlite_master").fetchall()
        except BaseException:
            db.close()
            raise
        return db

    def _copied(self) -> str:
        """The path of a private copy, with what a crash left beside it."""
        self._copy = tempfile.TemporaryDirectory(prefix="holdup-recover-")
        # The program removes copies that no process holds locked: those of processes that were killed.
        self._held = os.open(self._copy.name, os.O_RDONLY)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        copy = os.path.join(self._copy.name, "bundle.holdup")
        room = MOST_BYTES_OF_A_COPY
        for suffix in ("", "-journal", "-wal"):
            if suffix and not self._has_beside(suffix):
                continue
            try:
                room -= os.stat(self.real + suffix).st_size
                if room < 0:
                    raise OSError(f"with what lies beside it, it has more than {MOST_BYTES_OF_A_COPY >> 20} MB")
                shutil.copyfile(self.real + suffix, copy + suffix)
            except FileNotFoundError:
                if not suffix:
                    raise
            except (OSError, shutil.Error) as e:
                raise Error(
                    f"bundle {self.path}: must be recovered after a crash, and cannot be copied for it ({e})",
                    f"copy the file and {os.path.basename(self.path)}-journal to a folder that can be read",
                ) from e
        if os.path.exists(copy + "-journal"):
            with open(copy + "-journal", "rb") as journal:
                if journal.read().endswith(JOURNAL_MAGIC):
                    raise NotABundleError(
                        f"bundle {self.path}: has a journal beside it that names another file, which no bundle's does",
                        IS_A_BUNDLE,
                    )
        return copy

    def _check(self) -> int:
        def number(pragma: str) -> int:
            return int(self.db.execute(f"PRAGMA {pragma}").fetchone()[0])

        if number("page_count") == 0:
            raise NotABundleError(
                f"bundle {self.path}: holds nothing: the run ended before its first write was complete",
                "remove the file and run again",
            )
        if number("application_id") != APPLICATION_ID:
            raise NotABundleError(f"bundle {self.path}: is an SQLite file, but not a bundle", IS_A_BUNDLE)
        version = number("user_version")
        if version > SCHEMA_VERSION:
            raise SchemaError(
                f"bundle {self.path}: has schema version {version}, this package reads up to {SCHEMA_VERSION}",
                "read it with a newer version of the Python package holdup",
            )
        if version < 1:
            raise damaged(self.path, f"its schema version is {version}")
        # A view or a virtual table in the place of a table could make reading endless.
        from ._parts import TABLES

        there = {
            name: sql
            for kind, name, sql in self.db.execute("SELECT type, name, sql FROM sqlite_master")
            if kind == "table"
        }
        for since, tables in TABLES.items():
            for table in tables if since <= version else ():
                if not str(there.get(table, "")).upper().startswith("CREATE TABLE"):
                    raise damaged(self.path, f"the table {table} is missing")
        return version

    def _freeze(self) -> None:
        """Reads a run that has not ended into memory: what is read stays one state, and the run may continue."""
        if self.db.execute("SELECT one FROM ending").fetchone() is None:
            memory = sqlite().connect(":memory:", isolation_level=None, check_same_thread=False)
            self.db.backup(memory)
            self.db.close()
            self.db = memory
            self.db.execute("PRAGMA trusted_schema=OFF")
            self.db.execute("PRAGMA query_only=ON")


def _allow(action: int, first: Optional[str], second: Optional[str], base: Optional[str], view: Optional[str]) -> int:
    """Reading of tables, and nothing else: no function of SQL (so that JSON in SQLite is not needed), no view, no other file."""
    lite = sqlite()
    is_read = action == lite.SQLITE_SELECT or (action == lite.SQLITE_READ and view is None)
    return int(lite.SQLITE_OK if is_read else lite.SQLITE_DENY)
