"""Make the kubelet's calls of a recording to a plugin that runs already, at its socket, and compare its answers.

The plugin is not told of a kubelet, and goes on with the one it has: it is called as that kubelet calls it, so no pod
should get devices from it meanwhile. Answers are compared as by `plugbay.testing.tracing.replay`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from plugbay.errors import PathUnusable, RpcFailed, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.tasks import ungrouped
from plugbay.testing.local.opening import private_directory
from plugbay.testing.tracing.comparing import compare_call
from plugbay.testing.tracing.played_kubelet import CALL_S, DIAL_S, PlayedKubelet, played_kubelet
from plugbay.testing.tracing.replay_plan import ReplayedCall, plan_of
from plugbay.testing.tracing.report import ReplayedStep, ReplayReport
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.records import TrafficRecord


async def replay_to_socket(
    records: Iterable[TrafficRecord], socket: Path, selection: Selection, *, source: str
) -> ReplayReport:
    """Replay the calls for one resource to the plugin at ``socket``; only what is selected is called.

    Raises:
        InvalidDocument: the recording has nothing that can be played.
        UsageError: it is of several resources, and none is selected.
        PathUnusable, PathTooLong: no plugin serves there.
    """
    calls = [
        call
        for life in plan_of(records, source, resources=selection.resources)
        for registration in life.registrations
        for call in (*registration.dialled, *registration.calls)
    ]
    resources = sorted({call.resource for call in calls})
    if len(resources) > 1:
        raise UsageError(f"{source} is of {', '.join(resources)}; say with --resource which of them the plugin serves")
    report = ReplayReport()
    if not resources:
        return report
    with ungrouped(), private_directory() as root:
        async with played_kubelet(KubeletPaths(root)) as kubelet:
            try:
                await kubelet.dial_socket(resources[0], socket)
            except TimeoutError:
                raise PathUnusable(str(socket), f"no plugin serves here; it was tried for {DIAL_S:g} s") from None
            for call in calls:
                if not selection.methods or call.title.partition(" ")[0] in selection.methods:
                    report.steps.append(await _called(kubelet, call))
    return report


async def _called(kubelet: PlayedKubelet, call: ReplayedCall) -> ReplayedStep:
    answer, failure = None, None
    title = f"{call.resource}  {call.title}"
    try:
        answer = await kubelet.call(call.resource, call.method, call.request)
    except RpcFailed as error:
        failure = error
    except TimeoutError:
        return ReplayedStep(title, (f"no list came within {CALL_S:g} s",))
    return ReplayedStep(title, tuple(compare_call(call, answer, failure)) if call.is_answered else None)
