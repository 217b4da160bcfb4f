"""What the checkpoint view costs after one admission, with 1,000 pods and 10,000 devices on the node.

Counted is the process's CPU time for one view, in whichever thread: what the event loop can lose at most. The file
and the checksums are written for real. The first views are not counted: they hash everything (0.1 s) and then build
the tables (0.5 s), once per start and apart from the event loop.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.figures import Figure, Pace
from plugbay.allocation.table import DeviceTable
from plugbay.manager.checkpoint.view import holdings_of, open_view
from plugbay.manager.state import HeldDevices, Live, ManagerState
from plugbay.manager.store.store import open_store
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.ops.clock import SystemClock
from plugbay.wire.convert import edits_to_pb

_PODS: Final = 1_000
_DEVICES: Final = 10_000
_WARM_UP: Final = 3
_RESOURCE: Final = ResourceName("example.com/gopher")
_TARGET_MS: Final = 10


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    state = _state()
    costs_ms: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        async with (
            open_store(root / "state" / "manager.db") as store,
            open_view(
                root / "device-plugins" / "kubelet_internal_checkpoint",
                store=store,
                clock=SystemClock(),
                holdings=lambda: holdings_of(state),
                known=(),
            ) as view,
        ):
            for number in range(_WARM_UP + (50 if pace is Pace.FULL else 10)):
                state.restore(_assignment(_PODS + number))
                before = time.process_time()
                await view.write()
                costs_ms.append((time.process_time() - before) * 1000)
    yield Figure("view_ms_1000", statistics.median(costs_ms[_WARM_UP:]), "ms", _TARGET_MS)


def _state() -> ManagerState:
    state = ManagerState()
    resource = state.resource(_RESOURCE)
    resource.endpoint = Live("gopher.sock", datetime.now(UTC), PluginOptions())
    resource.replace_table(DeviceTable.of(_listed(number) for number in range(_DEVICES)))
    for number in range(_PODS):
        state.restore(_assignment(number))
    return state


def _listed(number: int) -> ListedDevice:
    return ListedDevice(_id(number), "Healthy", (number % 2,))


def _assignment(number: int) -> HeldDevices:
    """Of pods whose order is not that of their admission, as with a kubelet."""
    pod = PodUid(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))))
    device = _id(number)
    edits = ContainerEdits(
        env={"GOPHERS": device},
        mounts=(Mount(f"/run/gophers/{device}", container_path="/run/gophers", read_only=True),),
        device_nodes=(DeviceNode(f"/dev/{device}"),),
    )
    answer = edits_to_pb(edits).SerializeToString()
    return HeldDevices(pod, ContainerName("app"), _RESOURCE, {number % 2: (device,)}, answer)


def _id(number: int) -> DeviceId:
    return DeviceId(f"gopher-{number:05}")
