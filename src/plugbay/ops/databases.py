"""SQLite files that survive power loss and belong to one process at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from plugbay.errors import StoreUnusable


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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnusable(str(path), f"cannot make {path.parent}: {error.strerror}") from error
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
    path.chmod(0o600)
