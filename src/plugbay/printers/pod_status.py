"""The columns READY, STATUS and RESTARTS of a v1 Pod. Pure.

Source: Kubernetes 1.36 ``pkg/printers/internalversion/printers.go``, ``printPod``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from plugbay.documents import Json
from plugbay.printers import v1
from plugbay.printers.ages import duration
from plugbay.values import dataclass

_FINAL_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodSummary:
    """The state of a pod in the words of a table.

    Attributes:
        ready, total: number of containers that are ready, and of all that should be.
        last_restart: when the last container that was restarted had ended.
    """

    ready: int
    total: int
    status: str
    restarts: int
    last_restart: datetime | None

    @property
    def readiness(self) -> str:
        return f"{self.ready}/{self.total}"

    def restarts_text(self, now: datetime) -> str:
        if not self.restarts or self.last_restart is None:
            return str(self.restarts)
        return f"{self.restarts} ({duration(now - self.last_restart)} ago)"


def state_text(pod: Json) -> str:
    """The state of a pod, to end a sentence: ``the pod is Pending (0/1 ready): 1 Insufficient example.com/gopher``."""
    if not pod:
        return "the pod is gone"
    summary = summarize(pod)
    reason = _why(pod)
    return f"the pod is {summary.status} ({summary.readiness} ready){f': {reason}' if reason else ''}"


def _why(pod: Json) -> str:
    """The first message that explains the state of a pod; often there is none."""
    statuses = v1.objects(pod, "status", "initContainerStatuses") + v1.objects(pod, "status", "containerStatuses")
    messages = [v1.text(pod, "status", "message")]
    messages += [v1.text(each, "state", state, "message") for each in statuses for state in ("waiting", "terminated")]
    conditions = v1.objects(pod, "status", "conditions")
    messages += [v1.text(each, "message") for each in conditions if each.get("type") == "PodScheduled"]
    return next((line.strip() for message in messages for line in message.splitlines()[:1]), "")


def summarize(pod: Json) -> PodSummary:
    sidecars = {v1.text(each, "name") for each in v1.objects(pod, "spec", "initContainers") if _is_sidecar(each)}
    inits = v1.objects(pod, "status", "initContainerStatuses")
    apps = v1.objects(pod, "status", "containerStatuses")
    total = len(v1.objects(pod, "spec", "containers")) + len(sidecars)
    initializing, ready = _walk_inits(pod, inits, sidecars)
    plain = v1.text(pod, "status", "reason") or v1.text(pod, "status", "phase") or "Unknown"
    status = initializing or ("SchedulingGated" if _is_gated(pod) else plain)
    if initializing and not _holds(pod, "Initialized"):
        counted = inits
    else:
        counted = [each for each in inits if v1.text(each, "name") in sidecars] + apps
        status = _status_of_apps(pod, apps) or status
        ready += sum(_is_ready(each) for each in apps)
    if v1.at(pod, "metadata", "deletionTimestamp") and v1.text(pod, "status", "phase") not in _FINAL_PHASES:
        status = "Terminating"
    restarts = sum(v1.number(each, "restartCount") for each in counted)
    return PodSummary(ready, total, status, restarts, _last_end(counted))


def _is_gated(pod: Json) -> bool:
    conditions = v1.objects(pod, "status", "conditions")
    return any(
        v1.text(each, "type") == "PodScheduled" and v1.text(each, "reason") == "SchedulingGated" for each in conditions
    )


def _walk_inits(pod: Json, inits: list[Json], sidecars: set[str]) -> tuple[str, int]:
    """The status while init containers have not all done their part, else empty; and how many sidecars are ready."""
    ready = 0
    for index, container in enumerate(inits):
        terminated = v1.mapping(container, "state", "terminated")
        if terminated and v1.number(terminated, "exitCode") == 0:
            continue
        if v1.text(container, "name") in sidecars and container.get("started") is True:
            ready += container.get("ready") is True
            continue
        waiting = v1.text(container, "state", "waiting", "reason")
        if terminated:
            return f"Init:{_end(terminated)}", ready
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}", ready
        return f"Init:{index}/{len(v1.objects(pod, 'spec', 'initContainers'))}", ready
    return "", ready


def _status_of_apps(pod: Json, apps: list[Json]) -> str:
    """The first container that does not run gives the pod its status; empty when all run."""
    status = ""
    for container in reversed(apps):
        terminated = v1.mapping(container, "state", "terminated")
        if waiting := v1.text(container, "state", "waiting", "reason"):
            status = waiting
        elif terminated:
            status = _end(terminated)
    if status == "Completed" and any(_is_ready(each) for each in apps):
        return "Running" if _holds(pod, "Ready") else "NotReady"
    return status


def _end(terminated: Json) -> str:
    if reason := v1.text(terminated, "reason"):
        return reason
    if signal := v1.number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{v1.number(terminated, 'exitCode')}"


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _is_ready(container: Json) -> bool:
    return container.get("ready") is True and "running" in v1.mapping(container, "state")


def _holds(pod: Json, condition: str) -> bool:
    conditions = v1.objects(pod, "status", "conditions")
    return any(each.get("type") == condition and each.get("status") == "True" for each in conditions)


def _last_end(containers: Iterable[Json]) -> datetime | None:
    ends = [v1.moment(each, "lastState", "terminated", "finishedAt") for each in containers]
    return max((end for end in ends if end is not None), default=None)
