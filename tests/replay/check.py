"""Plays a recording on one of our nodes and says how it differs: a fault, or a difference that is named here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Final

import pytest

from plugbay.node import run as runner
from plugbay.node.run import PLUGINS_RETURN_S
from tests.replay.beds import Bed
from tests.replay.compare import Difference, differences, is_like
from tests.replay.driver import replay
from tests.replay.recording import read

RECORDINGS: Final = sorted((Path(__file__).parent.parent / "golden" / "kubelet-node").glob("*.json"))

_OF_CONTAINERS: Final = re.compile("(01|02|03|13|27|28|29|30|31|40|41|46|47|54|55|59)-.*")
ON_CONTAINERS: Final = [
    pytest.param(each, id=each.stem, marks=() if _OF_CONTAINERS.fullmatch(each.stem) else pytest.mark.soak)
    for each in RECORDINGS
]
"""For runtimes with real containers; the long tests replay those too that are about something else."""

UNREPLAYABLE: Final[Mapping[str, str]] = {
    "06-unknown-resource": "nobody can write into our node's status, and unknown resources are refused",
    "49-podresources-rate-limit": "has no steps; see test_podresources",
}
"""Recordings that are not replayed, and why."""

FILE_LAGS: Final = "a kubelet's file goes on listing the devices of a plugin that went, until it is written again"
STUCK: Final = "known defect: one stuck plugin blocks all admission"
LEAK: Final = "known defect: an empty Allocate answer leaks the devices"
OLD_STREAM: Final = "known defect: the stream of an older plugin goes on counting, and its end takes the newer one down"
CRASH: Final = "known defect: a device that leaves the list during Allocate crashes the kubelet"
UNKNOWN: Final = "known defect: an unknown resource is admitted silently; ours is refused"
STORE_WINS: Final = "the store is the record: a damaged or missing checkpoint loses nothing"
NO_CDI: Final = "the process runtime cannot inject CDI devices"
WARNED: Final = "a mount that is not there, or cannot be shown, is worth an event"
BY_ITSELF: Final = "a container that is waited for too long ends by itself before its pod is deleted"
ONE_LABEL: Final = "names that are refused share one label, so that no plugin fills the memory with them"
HELD: Final = "a plugin that wants PreStartContainer is waited for after a restart of the node too"
NOTHING_FAILED: Final = "a pod that is deleted before any container started has not failed"
FREED_AT_ONCE: Final = "lazy cleaning: ours knows at its start that the first pod is gone"
TRANSPORT: Final = "the end of the stream may close the connection before the call has seen that it is broken"
NO_KILLING: Final = "the recording of events ends before the pods are stopped"
SHORT: Final = "whether a connection that is given up at once gets to its first list is chance (spec 2.5)"
DUPLICATE: Final = "a device listed twice with different health is one device, with the last one's"

_ALLOCATIONS: Final = "metrics/alloc_duration_seconds_count/*"
_ASSIGNED: Final = ("entries", "list*", "get/*")
"""Of a snapshot: who holds what."""

DIFFERENT: Final[Mapping[str, Mapping[str, str]]] = {
    "10-allocate-no-container-response": dict.fromkeys(
        (
            _ALLOCATIONS,
            "plugins/p/admissions",
            "pods/s10-[bcd]-*",
            "events/s10-[bcd]-*",
            "snapshots/1 */entries",
            "snapshots/1 */list*",
        ),
        LEAK,
    ),
    "12-allocate-hangs": dict.fromkeys(
        ("pods/s12-d-*", "events/s12-d-*", "snapshots/1 */entries", "snapshots/*/list*", "snapshots/1 */get/*"), STUCK
    ),
    "21-second-plugin-then-first-dies": dict.fromkeys(
        ("node", _ALLOCATIONS, "plugins/second/admissions", "pods/s21-b/*", "events/s21-b", "snapshots/[234] *"),
        OLD_STREAM,
    ),
    "26-checkpoint-corrupted": dict.fromkeys(
        (_ALLOCATIONS, "plugins/p/admissions", "pods/s26-b/phases", "events/s26-b", "snapshots/[2345] *"), STORE_WINS
    ),
    "33-register-errors": {"metrics/registration_total/*": ONE_LABEL},
    "37-fifty-pods": {"events/*": NO_KILLING},
    "39-single-numa-node": dict.fromkeys(
        ("events/s39-two-of-four", "events/s39-mixed-one", "events/s39-both"), NO_KILLING
    ),
    "43-resource-known-after-admission": dict.fromkeys(
        ("plugins/p/admissions", "pods/*", "events/*", *(f"snapshots/*/{part}" for part in _ASSIGNED)), UNKNOWN
    ),
    "44-odd-device-lists": dict.fromkeys(("node", "snapshots/3 duplicate, healthy then unhealthy/*"), DUPLICATE),
    "47-pod-ends-while-kubelet-down": dict.fromkeys(
        ("pods/s47-[bc]/*", "events/s47-[bc]", *(f"snapshots/[34] */{part}" for part in _ASSIGNED)), FREED_AT_ONCE
    ),
    "50-checkpoint-deleted": dict.fromkeys(
        (
            _ALLOCATIONS,
            "plugins/p/admissions",
            "pods/s50-b/phases",
            "events/s50-b",
            *(f"snapshots/[23] */{part}" for part in _ASSIGNED),
        ),
        STORE_WINS,
    ),
    "55-prestart-options-unknown-after-restart": {"pods/s55-a/c/states": HELD, "events/s55-a": HELD},
    "56-device-vanishes-in-allocate": dict.fromkeys(
        ("metrics/*", "pods/*", "events/*", *(f"snapshots/1 */{part}" for part in _ASSIGNED)), CRASH
    ),
    "58-best-effort-and-restricted": {"events/s58-restricted-init": NO_KILLING},
}
"""By recording: patterns of the paths that differ on purpose, and why."""


_CONFINED: Final[Mapping[str, Mapping[str, str]]] = {
    "31-mount-missing-host-path": {"events/s31-a": WARNED},
    "30-cdi-and-annotations": {"pods/s30-b-*/phases": NOTHING_FAILED, "pods/s30-b-*/c/states": NOTHING_FAILED},
}
BY_RUNTIME: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "process": {
        "30-cdi-and-annotations": {"pods/*": NO_CDI, "events/*": NO_CDI},
        "31-mount-missing-host-path": {"events/s31-a": WARNED},
    },
    "oci": _CONFINED,
    "cri": _CONFINED,
}
"""The same of one runtime."""

SOMETIMES: Final[Mapping[str, Mapping[str, str]]] = {
    **{
        recording: {f"snapshots/{snapshot} */registered": FILE_LAGS}
        for recording, snapshot in (
            ("07-plugin-gone", "2"),
            ("19-stream-ends", "*"),
            ("20-expiry", "1"),
            ("24-kubelet-sigkill-plugin-away", "2"),
            ("27-restart-container-not-running", "2"),
            ("34-watcher-route", "*"),
            ("55-prestart-options-unknown-after-restart", "1"),
        )
    },
    "42-prestart-plugin-down": {"pods/s42-a/c/states": BY_ITSELF},
    "35-watcher-route-errors": dict.fromkeys(("node", "plugins/notify/connections", "snapshots/*"), SHORT),
    "46-plugin-dies-in-allocate": {"pods/s46-a/phases": TRANSPORT, "events/s46-a": TRANSPORT},
}
"""The same of what depends on who was faster, and may be as recorded."""

LEAST_RETURN_S: Final = 0.25
"""For plugins to come back to a restarted node, however fast the clock runs; it takes them 30 ms on an idle machine."""


def _speed(duration_s: float) -> float:
    """Such that most replays take one to two seconds."""
    return max(9.0, min(duration_s, 18.0), duration_s * 3 / 8)


async def check(path: Path, bed: Bed, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a node of ours does something else than was recorded, or no longer differs where it is said to."""
    if path.stem in UNREPLAYABLE:
        pytest.skip(UNREPLAYABLE[path.stem])
    recording = read(path)
    known = {**DIFFERENT.get(path.stem, {}), **BY_RUNTIME[bed.runtime].get(path.stem, {})}
    expected = [*known, *SOMETIMES.get(path.stem, {})]
    # What is recorded is a race, which a busy machine may lose when it is sped up.
    for name, slower in (("fast", 1), ("slow", 3), ("slower", 9), ("slowest", 18)):
        place, speed = root / name, _speed(recording.duration_s) / slower
        place.mkdir()
        monkeypatch.setattr(runner, "PLUGINS_RETURN_S", max(PLUGINS_RETURN_S / speed, LEAST_RETURN_S))
        found = await replay(recording, place, speed=speed, unlike=expected, bed=bed)
        unlike = differences(recording.observations, found)
        new = [each for each in unlike if not is_like(each.path, expected)]
        gone = [pattern for pattern in known if not any(is_like(each.path, [pattern]) for each in unlike)]
        if not (new or gone):
            break
    assert not new, "\n".join(map(_shown, new))
    assert not gone, f"no longer different: {gone}"


def _shown(each: Difference) -> str:
    expected, found = (pformat(value, width=200, sort_dicts=False) for value in (each.expected, each.found))
    return f"{each.path}\n  kubelet {expected}\n  ours    {found}"
