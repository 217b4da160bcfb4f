"""The store of record: assignments, calls to be made and resource names in SQLite, written by one thread.

WAL with full sync: a commit that was answered survives power loss. Commits waiting at the same time share one
transaction, so admissions running side by side pay for one sync. The file belongs to one process at a time. It lies
outside the device-plugins directory, whose entries change how a kubelet starts.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from plugbay.errors import StoreUnusable
from plugbay.manager.commits import Change, Stored
from plugbay.manager.tables import MIGRATIONS, read, write
from plugbay.ops.databases import open_database
from plugbay.ops.log_room import LogRoom


@dataclass(frozen=True, slots=True)
class _Commit:
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


class Store:
    """An open store. Made by `open_store`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_database(path, MIGRATIONS)
        self._room = LogRoom(path)
        self._waiting: queue.SimpleQueue[_Commit | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_until_closed, name="plugbay-store", daemon=True)
        self._thread.start()

    def load(self) -> Stored:
        """Everything the store holds. Blocks; called once, before the first commit.

        Raises:
            StoreUnusable: a row is damaged.
        """
        try:
            return read(self._connection)
        except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
            raise StoreUnusable(str(self._path), f"damaged: {error}") from error

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
            if self._waiting.empty():
                self._room.extend()

    def _write_batch(self, batch: Sequence[_Commit]) -> None:
        try:
            self._write([change for commit in batch for change in commit.changes])
        except Exception as error:  # whatever it is, who waits must learn it and the thread must go on
            if len(batch) > 1:  # one bad commit must not fail its neighbours
                for commit in batch:
                    self._write_batch([commit])
                return
            batch[0].finish(StoreUnusable(str(self._path), str(error)))
        else:
            for commit in batch:
                commit.finish(None)

    def _write(self, changes: Iterable[Change]) -> None:
        with self._connection:  # commits, or rolls back on an exception
            self._connection.execute("BEGIN IMMEDIATE")
            for change in changes:
                write(self._connection, change)


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[Store]:
    """Open the store at ``path``, making it and its directory if missing.

    Raises:
        StoreUnusable: not ours, from a newer version, damaged, in use by another process, or closed to us.
    """
    loop = asyncio.get_running_loop()
    opening = loop.run_in_executor(None, Store, path)
    try:
        store = await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])  # nothing stops the thread, and what it opens is locked for as long as we live
        if opening.exception() is None:
            await loop.run_in_executor(None, opening.result().close)
        raise
    try:
        yield store
    finally:
        await asyncio.to_thread(store.close)
