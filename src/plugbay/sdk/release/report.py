"""What an onlooker may know of the uses of one resource, for ``/status``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from plugbay.sdk.release.uses import ENOUGH_ABSENCES, Phase, Use

if TYPE_CHECKING:
    from plugbay.sdk.release.custody import Custody

Json = dict[str, object]


def release_status(custody: Custody, time_of: Callable[[float], str]) -> Json:
    """For `plugbay.ops.slices.json_pieces`: the uses are an iterator.

    Args:
        time_of: a moment of the event loop's time, as the page shows it.
    """
    last = custody.last
    return {
        "source": custody.shared.settings.source.value,
        "synthesised": custody.synthesises,
        "policy": custody.policy.value,
        "intervalSeconds": custody.shared.settings.interval_s,
        "journal": str(custody.book.path),
        "isOurs": custody.book.is_ours,
        "lastReading": None if last is None else {"time": time_of(last[1]), "problem": last[0]},
        "podResources": custody.shared.pod_lists.problem,
        "open": (_use(use, custody, time_of) for use in custody.book.uses()),
    }


def _use(use: Use, custody: Custody, time_of: Callable[[float], str]) -> Json:
    return {
        "key": use.key,
        "deviceIDs": list(use.units),
        "since": time_of(use.since),
        "owners": [
            {"namespace": owner.namespace, "pod": owner.pod, "container": owner.container, "uid": owner.uid}
            for owner in use.owners
        ],
        "phase": use.phase.value,
        "waitsFor": waits_for(use, custody),
    }


def waits_for(use: Use, custody: Custody) -> str:
    """Why ``use`` is not released yet."""
    if use.phase is Phase.ALLOCATING:
        return "its Allocate" if use.key in custody.allocating else "its Allocate was given up; it is released soon"
    if use.phase is Phase.RELEASING:
        failure = custody.ends.failures.get(use.key, "")
        return f"release() failed and is tried again: {failure}" if failure else "release() runs"
    if not custody.book.is_ours:
        return "another process of this plugin, which is the one that releases"
    if not custody.looks_at(use):
        return "the kubelet to call Deallocate"
    if custody.last is None:
        return "a first look at the kubelet's checkpoint"
    if problem := custody.last[0]:
        return f"a checkpoint of the kubelet: {problem}"
    if use.key in custody.doubts:
        return custody.doubts[use.key]
    if use.absences:
        return f"{ENOUGH_ABSENCES - use.absences} more checkpoint without it"
    if use.seen_in and (problem := custody.shared.pod_lists.problem):
        return f"its pod to end, which the kubelet notices only when another pod with devices comes: {problem}"
    return "its pod to end" if use.seen_in else "a checkpoint that lists it, or some seconds without one"
