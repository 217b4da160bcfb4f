"""The uses of one resource as ``/status`` shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from plugbay.documents import Json
from plugbay.sdk.release.uses import ENOUGH_ABSENCES, Use, UsePhase

if TYPE_CHECKING:
    from plugbay.sdk.release.evidence.evidence import LastReading
    from plugbay.sdk.release.release import Release  # few plugins need it, and it takes memory


def release_status(release: Release, time_of: Callable[[float], str]) -> Json:
    """The page's part about releases, for `plugbay.ops.slices.json_pieces`: the uses are an iterator.

    Args:
        time_of: turns a moment of the event loop's time into what the page shows.
    """
    settings, last = release.context.shared.settings, release.evidence.last
    return {
        "source": settings.source.value,
        "synthesised": release.evidence.synthesises,
        "policy": release.context.plugin.release_policy.value,
        "intervalSeconds": settings.interval_s,
        "journal": str(release.ledger.path),
        "isOurs": release.ledger.is_ours,
        "lastReading": None if last is None else {"time": time_of(last[1]), "problem": last[0]},
        "podResources": release.context.shared.pod_lists.problem,
        "open": (_use(use, release, last, time_of) for use in release.ledger.uses()),  # all by the same reading
    }


def _use(use: Use, release: Release, last: LastReading | None, time_of: Callable[[float], str]) -> Json:
    return {
        "key": use.key,
        "deviceIDs": list(use.units),
        "since": time_of(use.since),
        "owners": [
            {"namespace": owner.namespace, "pod": owner.pod, "container": owner.container, "uid": owner.uid}
            for owner in use.owners
        ],
        "phase": use.phase.value,
        "waitsFor": waits_for(use, release, last),
    }


def waits_for(use: Use, release: Release, last: LastReading | None) -> str:
    """Why ``use`` is not released yet, as the last reading of the checkpoint tells."""
    if use.phase is UsePhase.ALLOCATING:
        is_answered = use.key in release.ledger.allocating
        return "its Allocate" if is_answered else "its Allocate was given up; it is released soon"
    if use.phase is UsePhase.RELEASING:
        failure = release.ending.failures.get(use.key, "")
        return f"release() failed and is tried again: {failure}" if failure else "release() runs"
    if not release.ledger.is_ours:
        return "another process of this plugin, which is the one that releases"
    if not release.evidence.looks_at(use):
        return "the kubelet to call Deallocate"
    if last is None:
        return "a first look at the kubelet's checkpoint"
    if problem := last[0]:
        return f"a checkpoint of the kubelet: {problem}"
    if use.key in release.sweep.doubts:
        return release.sweep.doubts[use.key]
    if use.absences:
        return f"{ENOUGH_ABSENCES - use.absences} more checkpoint without it"
    if use.seen_in and (problem := release.context.shared.pod_lists.problem):
        return f"its pod to end, which the kubelet notices only when another pod with devices comes: {problem}"
    return "its pod to end" if use.seen_in else "a checkpoint that lists it, or some seconds without one"
