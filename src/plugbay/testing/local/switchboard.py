"""A test's hand on its kubelet's end and start: a crash, sockets that stay, connections that break all at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from weakref import WeakSet

from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.endpoints.registration import prepare_directory
from plugbay.testing.local.stock.endpoints import StockEndpoints
from plugbay.testing.local.stock.pod_resources import refusals_of
from plugbay.testing.local.stock.versions import KubeletRelease, Quirk
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.transport import DisturbedChannel, DisturbedTransport
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.wire.grpc.channel import LOCALHOST


class Switchboard:
    """The manager's way to plugins, and the manner of its end and its next start.

    Attributes:
        transport: the way to plugins.
        endpoints: makes what follows the plugins.
        pod_resources_refusals: the methods of PodResources that it does not serve.
        is_crashing: whether the manager's end is to look like that of a killed process.
    """

    def __init__(self, recorder: TrafficRecorder, faults: FaultSwitches, release: KubeletRelease) -> None:
        quirks = release.quirks
        self.transport = _KnownChannels(recorder, faults, names_paths=Quirk.PATH_AS_AUTHORITY in quirks)
        self.endpoints: Callable[..., Endpoints] = partial(StockEndpoints, quirks=quirks) if quirks else Endpoints
        self.pod_resources_refusals = refusals_of(quirks)
        self._marks_deprecation = Quirk.DEPRECATION_FILE in quirks
        self.is_crashing = False
        self._keeps_sockets = False

    def begin(self, *, keep_sockets: bool) -> None:
        """Prepare for the manager's next start."""
        self.is_crashing = False
        self._keeps_sockets = keep_sockets

    def prepare(self, directory: Path) -> None:
        """Make the device plugin directory ready. Blocks."""
        if self._keeps_sockets:
            directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        else:
            prepare_directory(directory)
        if self._marks_deprecation:
            (directory / "DEPRECATION").touch()

    def crash(self) -> None:
        """Break every connection without a word; the registration socket's file stays when the manager ends."""
        self.is_crashing = True
        for channel in tuple(self.transport.channels):
            channel.break_off()


class _KnownChannels(DisturbedTransport):
    """Attributes: ``channels``: those in use."""

    def __init__(self, recorder: TrafficRecorder, switches: FaultSwitches, *, names_paths: bool) -> None:
        super().__init__(recorder, switches)
        self._names_paths = names_paths
        self.channels: WeakSet[DisturbedChannel] = WeakSet()

    def channel(self, socket: Path, *, authority: str = LOCALHOST) -> DisturbedChannel:
        if self._names_paths and authority == LOCALHOST:
            authority = str(socket)
        channel = super().channel(socket, authority=authority)
        self.channels.add(channel)
        return channel
