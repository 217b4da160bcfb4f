"""The store of record: assignments, calls to be made and resource names in SQLite.

WAL with full sync: a commit that was answered survives power loss. Admissions running side by side pay for one sync.
The file belongs to one process at a time. It lies outside the device-plugins directory, whose entries change how a
kubelet starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.manager.store.commits import Change, Stored
from plugbay.manager.store.tables import MIGRATIONS, read, write
from plugbay.ops.group_commit import Database, run_database
from plugbay.ops.log_room import LogRoom

RETRY_S: Final = 10.0
"""Time between two attempts to write to a disk that is full or broken."""


class Store:
    """An open store. Made by `open_store`."""

    def __init__(self, database: Database[Change]) -> None:
        self._database = database

    def load(self) -> Stored:
        """Read everything the store holds. Blocks; called once, before the first commit.

        Raises:
            StoreUnusable: a row is damaged.
        """
        return self._database.load(read)

    async def commit(self, changes: Sequence[Change]) -> None:
        """Make ``changes`` durable, all or none. Once called it takes effect even if the caller is cancelled.

        Raises:
            StoreUnusable: the disk is full or broken; nothing was changed.
        """
        await self._database.commit(changes)


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[Store]:
    """Open the store at ``path``, making it and its directory if missing.

    Raises:
        StoreUnusable: see `run_database`.
    """
    async with run_database(path, MIGRATIONS, write, LogRoom(path)) as database:
        yield Store(database)
