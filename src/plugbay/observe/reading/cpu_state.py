"""The CPU manager's file: the exclusive CPUs of containers, without asking the kubelet.

Source: kubelet 1.37 ``cm/cpumanager/state/checkpoint.go`` and ``state.go``; cpuset(7), "List format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from plugbay.kernel.files import read_regular
from plugbay.observe.view import ReadingProblem, Witness
from plugbay.printers import v1

ExclusiveCpus: TypeAlias = dict[tuple[str, str], tuple[int, ...]]
_MAX_CPU: Final = 1 << 16


def read_cpu_state(path: Path) -> tuple[ExclusiveCpus | None, tuple[ReadingProblem, ...]]:
    """Exclusive CPUs by the pod's UID and container; None without a file.

    Those that a pod has as a whole, and none of its containers, are told without a container.
    """
    try:
        state = json.loads(read_regular(path)[0])
        entries = v1.mapping(state, "entries")
        found = {
            (uid, container): tuple(_cpus(v1.text(containers, container)))
            for uid, containers in entries.items()
            for container in v1.mapping(containers)
        }
        for uid, entry in v1.mapping(state, "podEntries").items():
            of_containers = {cpu for name in v1.mapping(entries, uid) for cpu in found[uid, name]}
            if shared := [cpu for cpu in _cpus(v1.text(entry, "cpuSet")) if cpu not in of_containers]:
                found[uid, ""] = tuple(shared)
        return found, ()
    except (FileNotFoundError, NotADirectoryError):
        return None, ()
    except OSError as error:
        sentence = f"the CPU manager's {path} cannot be read: {(error.strerror or str(error)).lower()}"
    except (ValueError, RecursionError):
        sentence = f"the CPU manager's {path} is not in a form that is known"
    return None, (ReadingProblem(Witness.CPUS, sentence),)


def _cpus(text: str) -> Iterator[int]:
    """The numbers of a list such as ``0-3,8``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        start, end = int(first), int(last or first)
        if not 0 <= start <= end < _MAX_CPU:
            raise ValueError(f"{part} are not CPUs")
        yield from range(start, end + 1)
