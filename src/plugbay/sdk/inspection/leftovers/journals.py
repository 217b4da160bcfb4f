"""Journals of plugins that release devices. One with a use that is not released stays: nothing else knows of it."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.kernel.files import remove_unfinished
from plugbay.model.ids import is_extended_resource
from plugbay.sdk.inspection.leftovers.leftover import STAYS, Leftover, unlinked, without_directory
from plugbay.sdk.release.ledger import lines

_OURS: Final = re.compile(r"(?P<stem>.+)\.(journal|lock|writing)")
_UNFINISHED: Final = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
"""A journal that was being rewritten when its plugin was killed; it goes with the journal."""
_HASH: Final = re.compile("[0-9a-f]{64}")
"""In place of a resource name that is too long for a file."""
_MOST_NAMES: Final = 5


def left_journals(directory: Path) -> Iterator[Leftover]:
    """The journals in a state directory, with the files beside each, and the directory itself.

    Raises:
        OSError: the directory cannot be listed.
    """
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    stems = {name: _stem(name) for name in names}
    is_needed = any(not stem and _UNFINISHED.fullmatch(name) is None for name, stem in stems.items())
    for stem in dict.fromkeys(filter(None, stems.values())):
        journal = directory / f"{stem}.journal"
        needed = _needed(journal)
        is_needed |= bool(needed)
        yield Leftover(journal, "journal of devices in use", needed, partial(_remove, journal))
    why = STAYS if is_needed else ""
    yield Leftover(directory, "directory of journals", why, partial(without_directory, directory))


def _stem(name: str) -> str:
    """The start of the names of one journal's files; empty for a file that is none of them."""
    found = _OURS.fullmatch(name)
    stem = found["stem"] if found else ""
    return stem if is_extended_resource(stem.replace("_", "/", 1)) or _HASH.fullmatch(stem) else ""


def _needed(journal: Path) -> str:
    """Why a journal has to stay."""
    with _alone(journal) as problem:
        return problem or _unreleased(journal)


def _remove(journal: Path) -> str:
    with _alone(journal) as problem:
        if needed := problem or _unreleased(journal):
            return needed
        remove_unfinished(journal.parent, of=journal)
        # The lock last: a plugin that starts now finds it held, and then no journal.
        return unlinked(journal, journal.with_suffix(".writing"), journal.with_suffix(".lock"))


@contextmanager
def _alone(journal: Path) -> Iterator[str]:
    """Keep every plugin from the journal for as long as the block takes; gives why that is not possible."""
    held: list[int] = []
    problem = ""
    try:
        for path in (journal.with_suffix(".lock"), journal.with_suffix(".writing")):
            try:
                held.append(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
                fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except FileNotFoundError:
                continue
            except BlockingIOError:
                problem = "a plugin that runs keeps it"
                break
            except OSError as error:
                problem = f"{path} cannot be opened: {error.strerror}"
                break
        yield problem
    finally:
        for descriptor in held:
            os.close(descriptor)


def _unreleased(journal: Path) -> str:
    """Say what is lost with the journal: uses that are not released yet."""
    try:
        content = lines.read(journal.read_bytes())
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if content.newer:
        return f"a newer plugbay wrote it (format {content.newer}); that version can tell what it holds"
    if content.bad_lines:
        return f"{len(content.bad_lines)} of its lines are damaged, so that it may hold a use that is not released"
    if not content.uses:
        return ""
    devices = sorted({device for use in content.uses for device in use.units.values()})
    shown = ", ".join(devices[:_MOST_NAMES]) + (" and more" if len(devices) > _MOST_NAMES else "")
    pods = sorted({f"{owner.namespace}/{owner.pod}" for use in content.uses for owner in use.owners})
    of_pods = f" (of {', '.join(pods[:_MOST_NAMES])})" if pods else ""
    return (
        f"not released yet: {shown}{of_pods}; start the plugin once more to release them, or remove the file by hand "
        "once they are clean"
    )
