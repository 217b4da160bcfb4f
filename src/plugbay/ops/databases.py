"""SQLite files that survive power loss and belong to one process at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.kernel.files import make_private

_MODE: Final = 0o600


def open_database(path: Path, migrations: Sequence[str]) -> sqlite3.Connection:
    """A connection in autocommit mode, with WAL, full sync and an exclusive lock, for one thread at a time.

    A missing file and its directory are made, for us alone. ``PRAGMA user_version`` counts the migrations that a file
    has been through; those it lacks are run, in one transaction. A file from a newer version is not touched.

    Args:
        migrations: SQL scripts; the n-th one brings a file from version n to n + 1.

    Raises:
        StoreUnusable: not a database, from a newer version, damaged, in use by another process, or closed to us.
    """
    try:
        make_private(path.parent)
    except OSError as error:
        raise StoreUnusable(str(path), f"cannot make {path.parent}: {error.strerror}") from error
    try:
        _make_files_private(path)
    except OSError as error:
        raise StoreUnusable(str(path), f"cannot be closed to other users: {error.strerror}") from error
    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StoreUnusable(str(path), str(error)) from error
    try:
        _prepare(connection, path, migrations)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        problem = "in use by another process" if "locked" in str(error) else str(error)
        raise StoreUnusable(str(path), problem) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, migrations: Sequence[str]) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise StoreUnusable(str(path), f"written by a newer plugbay (schema {version}, known {len(migrations)})")
    connection.execute("PRAGMA journal_mode = WAL")  # the first statement that may change the file
    connection.execute("PRAGMA synchronous = FULL")
    if missing := migrations[version:]:
        script = "".join(missing)
        connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {len(migrations)}; COMMIT;")


def _make_files_private(path: Path) -> None:
    """Give a database and the files beside it mode 0600, before SQLite opens it and gives new files its mode.

    A file that is there is not opened: closing it would end the locks of this process on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
    for each in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))):
        if each.is_file():
            each.chmod(_MODE)
