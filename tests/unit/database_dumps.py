"""SQLite files as reviewable SQL scripts among the golden files, and their comparison by content."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path


def restore(script: Path, path: Path) -> None:
    """Make the database that ``script`` is a dump of."""
    with closing(sqlite3.connect(path)) as connection:
        # SQLite makes the table of its own counters itself.
        connection.executescript(
            script.read_text(encoding="utf-8").replace("CREATE TABLE sqlite_sequence(name,seq);", "")
        )


def assert_same(path: Path, script: Path) -> None:
    """Compare schema, version and rows; with PLUGBAY_UPDATE_GOLDEN=1, write the script first."""
    if os.environ.get("PLUGBAY_UPDATE_GOLDEN") == "1":
        with closing(sqlite3.connect(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            lines = [*connection.iterdump(), f"PRAGMA user_version = {version};"]
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    wanted = path.with_name("wanted.db")
    restore(script, wanted)
    assert _content(path) == _content(wanted)


def _content(path: Path) -> tuple[int, dict[str, tuple[str, list[object]]]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        rows = {name: (sql, sorted(connection.execute(f"SELECT * FROM {name}"))) for name, sql in tables}
    return version, rows
