"""The pods that have directories on a node: their names, and since when they have been there.

A kubelet's directories are named by UID alone; those of logs have the names too. So the names of pods are known without
an API server, and without asking the kubelet.

Source: kubelet 1.36 ``kuberuntime/helpers.go``, ``BuildPodLogsDirectory``; ``pkg/kubelet/kubelet_getters.go``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.observe.evidence import KnownPod
from plugbay.observe.reading.moments import moment_of
from plugbay.observe.view import ReadingProblem, Witness

_STATIC: Final = re.compile("[0-9a-f]{32}")
"""The UID of a pod that a manifest in a directory makes is a hash; others are UUIDs with dashes."""
_MADE_EARLY: Final = ("plugins", "volumes", "containers", "etc-hosts")
"""Entries of a pod's directory; the oldest tells when the pod was set up."""


def read_pod_names(pods: Path, logs: Path) -> tuple[dict[str, KnownPod], tuple[ReadingProblem, ...]]:
    """The pods by UID; directories that are missing are not a problem."""
    problems: list[ReadingProblem] = []
    moments = {uid: _made(pods / uid) for uid in _entries(pods, problems)}
    names = {}
    for entry in _entries(logs, problems):
        if (told := named_by_logs(entry)) is not None:
            uid, namespace, name = told
            names[uid] = namespace, name
            moments.setdefault(uid, _made(logs / entry))
    known = {}
    for uid, moment in moments.items():
        namespace, name = names.get(uid, ("", ""))
        requested_by = "a static manifest" if _STATIC.fullmatch(uid) else ""
        known[uid] = KnownPod(namespace=namespace, name=name, since=moment, requested_by=requested_by)
    return known, tuple(problems)


def named_by_logs(entry: str) -> tuple[str, str, str] | None:
    """UID, namespace and name of a pod by its directory of logs; None for any other entry there."""
    namespace, _, rest = entry.partition("_")
    name, _, uid = rest.rpartition("_")
    return (uid, namespace, name) if namespace and name and uid else None


def _entries(directory: Path, problems: list[ReadingProblem]) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        sentence = f"names of pods in {directory} cannot be read: {(error.strerror or str(error)).lower()}"
        problems.append(ReadingProblem(Witness.PODS, sentence))
        return []


def _made(directory: Path) -> datetime | None:
    found = min(_stamps(directory), default=None)
    return None if found is None else moment_of(found)


def _stamps(directory: Path) -> Iterator[float]:
    at = str(directory)  # a path for each entry would take longer than the look at it
    for path in (at, *(f"{at}/{name}" for name in _MADE_EARLY)):
        try:
            yield os.lstat(path).st_mtime
        except OSError:
            continue
