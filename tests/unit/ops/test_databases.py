from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.errors import StoreUnusable
from plugbay.ops.databases import open_database

SCHEMA = ("CREATE TABLE number (n INTEGER);",)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in directory.iterdir()}


def test_all_files_of_a_database_are_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    state = tmp_path / "state"
    connection = open_database(state / "s.db", SCHEMA)
    connection.execute("INSERT INTO number VALUES (1)")
    assert {"s.db": 0o600, "s.db-wal": 0o600}.items() <= modes(state).items()
    assert set(modes(state).values()) == {0o600}
    assert state.stat().st_mode & 0o777 == 0o700
    connection.close()


def test_files_of_before_become_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    for name in ("s.db", "s.db-wal", "s.db-shm"):
        (state / name).touch(mode=0o644)
    open_database(state / "s.db", SCHEMA).close()
    assert set(modes(state).values()) == {0o600}
    assert state.stat().st_mode & 0o777 == 0o750


def test_second_opening_does_not_take_the_first_ones_lock_away(tmp_path: Path) -> None:
    first = open_database(tmp_path / "s.db", SCHEMA)
    first.execute("INSERT INTO number VALUES (1)")
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="in use by another process"):
            open_database(tmp_path / "s.db", SCHEMA)
    first.close()
