"""A manager in a process of its own, told by lines of JSON what to do, that can die at a named point.

Usage: ``crashing_manager.py ROOT [POINT NUMBER]``: killed when it passes POINT, a `CrashPoint` or one below, for
the NUMBER-th time. Feature gates come from the environment, FEATURE_GATES. A request,
``{"id": 1, "do": "admit", "pod": "p", "count": 2}``, is answered by a line with its id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Final

from plugbay.errors import AdmissionError, StoreUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import parse_feature_gates
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.clock import SystemClock

RESOURCE: Final = ResourceName("example.com/gopher")
AFTER_ANSWER: Final = "after answer"
BEFORE_VIEW: Final = "before view"
AFTER_VIEW: Final = "after view"
"""Of views that show a pod: how many others there are is a matter of how busy the machine is."""


class Fate(logging.Handler):
    """Kills the process at the ``number``-th time it passes ``point``."""

    def __init__(self, point: str = "", number: int = 0) -> None:
        super().__init__(logging.DEBUG)
        self._point = point
        self._left = number
        self._shows_a_pod = False

    def passed(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def emit(self, record: logging.LogRecord) -> None:
        _, is_effect, point = record.getMessage().partition("effect: ")
        if is_effect and (point != AFTER_VIEW or self._shows_a_pod):
            self.passed(point)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The checkpoint view is replaced by a rename: the last moment of the old one."""
        if event == "os.rename" and str(arguments[1]).endswith("kubelet_internal_checkpoint"):
            self._shows_a_pod = b"PodUID" in Path(arguments[0]).read_bytes()
            if self._shows_a_pod:
                self.passed(BEFORE_VIEW)


async def main(root: Path, fate: Fate) -> None:
    gates = parse_feature_gates(os.environ.get("FEATURE_GATES", ""))
    config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db", gates=gates)
    requests = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    async with run_manager(config, clock=SystemClock()) as manager, asyncio.TaskGroup() as tasks:
        answer(id=0)
        async for line in requests:
            tasks.create_task(serve(manager, json.loads(line), fate))


async def serve(manager: DeviceManager, request: dict[str, Any], fate: Fate) -> None:
    pod = PodUid(request.get("pod", ""))
    match request["do"]:
        case "admit":
            try:
                await manager.admit(request_of(pod, request["count"]))
            except AdmissionError as error:
                answer(id=request["id"], refused=str(error))
            else:
                answer(id=request["id"], held=held_by(manager, pod))
                fate.passed(AFTER_ANSWER)
        case "release":
            try:
                await manager.release_pod(pod)
            except StoreUnusable as error:
                answer(id=request["id"], refused=str(error))
            else:
                await manager.until_deallocated(pod)
                answer(id=request["id"])
        case "ended":
            manager.container_ended(pod, ContainerName("app"), request["instance"])
            answer(id=request["id"])
        case "limit":  # no file can grow beyond: what a full disk is to a process
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], most))
            answer(id=request["id"])
        case "wait":
            async for _ in manager.changes():
                if any(count.allocatable for count in manager.resources().values()):
                    break
            answer(id=request["id"])
        case "settled":
            async for _ in manager.changes():
                if not manager.release_operations():
                    break
            answer(id=request["id"])
        case "state":
            answer(id=request["id"], pods={pod: held_by(manager, pod) for pod in manager.assigned_pods()})


def request_of(pod: PodUid, count: int) -> PodRequest:
    """An init container and an app container that takes its devices over."""
    containers = [("init", ContainerKind.INIT), ("app", ContainerKind.APP)]
    limits = {RESOURCE: count}
    return PodRequest(
        pod, "default", pod, tuple(ContainerRequest(ContainerName(name), kind, limits) for name, kind in containers)
    )


def held_by(manager: DeviceManager, pod: PodUid) -> dict[str, list[str]]:
    """Container to devices."""
    return {container: sorted(devices[RESOURCE]) for container, devices in manager.devices_of(pod).items()}


def answer(**members: object) -> None:
    sys.stdout.write(json.dumps(members) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    fate = Fate(sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 2 else Fate()
    logging.getLogger("plugbay").setLevel(logging.DEBUG)
    logging.getLogger("plugbay").addHandler(fate)
    sys.addaudithook(fate.audit)
    asyncio.run(main(Path(sys.argv[1]), fate))
