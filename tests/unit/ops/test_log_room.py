from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.ops.databases import open_database
from plugbay.ops.log_room import FIRST_BYTES, MOST_BYTES, LogRoom


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "s.db", ["CREATE TABLE number (n INTEGER);"])
    connection.execute("PRAGMA synchronous = OFF")  # no test looks at what survives power loss
    yield connection
    connection.close()


def commit(connection: sqlite3.Connection, *numbers: int) -> None:
    for number in numbers:
        connection.execute("INSERT INTO number VALUES (?)", (number,))


def log_bytes(directory: Path) -> int:
    return (directory / "s.db-wal").stat().st_size


def test_commits_in_the_room_do_not_lengthen_the_log(database: sqlite3.Connection, tmp_path: Path) -> None:
    commit(database, 0)
    assert log_bytes(tmp_path) < FIRST_BYTES
    room = LogRoom(tmp_path / "s.db")
    room.extend()
    for number in range(10):
        commit(database, number)
        room.extend()
        assert log_bytes(tmp_path) == FIRST_BYTES


def test_room_grows_with_the_log_until_sqlite_begins_again(database: sqlite3.Connection, tmp_path: Path) -> None:
    room = LogRoom(tmp_path / "s.db")
    sizes = set()
    for number in range(2000):
        commit(database, number)
        room.extend()
        sizes.add(log_bytes(tmp_path))
    assert max(sizes) == MOST_BYTES
    assert len(sizes) < 10


def test_what_was_committed_before_a_crash_is_there(database: sqlite3.Connection, tmp_path: Path) -> None:
    room = LogRoom(tmp_path / "s.db")
    room.extend()
    commit(database, *range(5))
    room.extend()
    commit(database, *range(5, 50))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("s.db", "s.db-wal"):
        shutil.copy(tmp_path / name, crashed / name)
    connection = open_database(crashed / "s.db", ["CREATE TABLE number (n INTEGER);"])
    assert [number for (number,) in connection.execute("SELECT n FROM number ORDER BY n")] == [*range(50)]
    connection.close()


def test_room_in_a_log_with_nothing_in_it_is_no_log(tmp_path: Path) -> None:
    """As after a crash between the making of the log and the first commit."""
    open_database(tmp_path / "s.db", ["CREATE TABLE number (n INTEGER);"]).close()
    (tmp_path / "s.db-wal").touch()
    LogRoom(tmp_path / "s.db").extend()
    assert log_bytes(tmp_path) == 0  # nothing has been used up
    (tmp_path / "s.db-wal").write_bytes(bytes(FIRST_BYTES))
    connection = open_database(tmp_path / "s.db", ["CREATE TABLE number (n INTEGER);"])
    commit(connection, 1)
    assert connection.execute("SELECT n FROM number").fetchall() == [(1,)]
    connection.close()


def test_log_that_is_gone_is_no_error(tmp_path: Path) -> None:
    LogRoom(tmp_path / "s.db").extend()
    assert not (tmp_path / "s.db-wal").exists()
