"""A database that one thread writes: commits that wait at the same time share one transaction, and so one sync."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

from plugbay.errors import StoreUnusable
from plugbay.ops.databases import open_database
from plugbay.ops.log_room import LogRoom
from plugbay.ops.tasks import to_the_end
from plugbay.values import dataclass

Change = TypeVar("Change")
Contents = TypeVar("Contents")


@dataclass(frozen=True, slots=True)
class _Commit(Generic[Change]):
    changes: Sequence[Change]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def finish(self, error: Exception | None) -> None:
        self.loop.call_soon_threadsafe(self._resolve, error)

    def _resolve(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Database(Generic[Change]):
    """An open database. Made by `run_database`."""

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str],
        write: Callable[[sqlite3.Connection, Change], None],
        room: LogRoom | None = None,
    ) -> None:
        self.path = path
        self._connection = open_database(path, migrations)
        self._apply = write
        self._room = room
        self._waiting: queue.SimpleQueue[_Commit[Change] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_until_closed, name=f"write {path.name}", daemon=True)
        self._thread.start()

    def load(self, read: Callable[[sqlite3.Connection], Contents]) -> Contents:
        """Read everything by ``read``. Blocks; called once, before the first commit.

        Raises:
            StoreUnusable: a row is damaged.
        """
        try:
            return read(self._connection)
        except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
            raise StoreUnusable(str(self.path), f"damaged: {error}") from error

    async def commit(self, changes: Sequence[Change]) -> None:
        """Make ``changes`` durable, all or none. Once called it takes effect even if the caller is cancelled.

        Raises:
            StoreUnusable: the disk is full or broken; nothing was changed.
        """
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.put(_Commit(changes, done, loop))
        await done

    def close(self) -> None:
        """Finish what was handed in, then close. Blocks."""
        self._waiting.put(None)
        self._thread.join()
        self._connection.close()

    def _write_until_closed(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            closing = False
            while not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    closing = True
                    break
                batch.append(following)
            self._write_batch(batch)
            if closing:
                return
            if self._room is not None and self._waiting.empty():
                self._room.extend()

    def _write_batch(self, batch: Sequence[_Commit[Change]]) -> None:
        try:
            self._write([change for commit in batch for change in commit.changes])
        except Exception as error:  # whatever the error is, the waiting caller must learn it and the thread must go on
            if len(batch) > 1:  # one bad commit must not fail its neighbours
                for commit in batch:
                    self._write_batch([commit])
                return
            batch[0].finish(StoreUnusable(str(self.path), str(error)))
        else:
            for commit in batch:
                commit.finish(None)

    def _write(self, changes: Sequence[Change]) -> None:
        with self._connection:  # commits, or rolls back on an exception
            self._connection.execute("BEGIN IMMEDIATE")
            for change in changes:
                self._apply(self._connection, change)


@asynccontextmanager
async def run_database(
    path: Path,
    migrations: Sequence[str],
    write: Callable[[sqlite3.Connection, Change], None],
    room: LogRoom | None = None,
) -> AsyncIterator[Database[Change]]:
    """Open the database at ``path``, making it and its directory if missing.

    Args:
        migrations: as of `open_database`.
        write: carries out one change; runs in the writing thread.
        room: made between commits; for a database with so many commits that the first ones may take longer.

    Raises:
        StoreUnusable: not ours, from a newer version, damaged, in use by another process, or closed to us.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(Database, path, migrations, write, room))
    try:
        database = await to_the_end(opening)
    except asyncio.CancelledError:
        # The thread cannot be stopped, and the file it opened would stay locked as long as this process lives.
        if opening.exception() is None:
            await asyncio.to_thread(opening.result().close)
        raise
    try:
        yield database
    finally:
        await asyncio.to_thread(database.close)
