"""A kubelet for tests, fakes and clocks: for plugins and kubelets in any language, over real sockets. Public.

The names of ``__all__`` are public; `docs/python.md` shows their use. The rest serves our own tests.

May live here: kubelets and plugins to test with, clocks that stand still, conformance suites. May not: anything that
needs pytest or hypothesis when a fake alone is imported, or a private module of theirs at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugbay.doors import opens

if TYPE_CHECKING:
    from plugbay.errors import AdmissionError, RpcCode
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.model.devices import PluginOptions
    from plugbay.model.ids import DeviceId
    from plugbay.model.releases import OperationId, ReleaseReason
    from plugbay.sdk.process.runner import serving
    from plugbay.testing.clock import ManualClock
    from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
    from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin, refusing
    from plugbay.testing.fakes.watched_plugin import FakeWatchedPlugin, fake_watched_plugin
    from plugbay.testing.local.expectations import ExpectationFailed, PluginNotReady
    from plugbay.testing.local.facade import Kubelet
    from plugbay.testing.local.fault_controls import FaultControl, FaultControls
    from plugbay.testing.local.kubelet import LocalKubelet
    from plugbay.testing.local.opening import local_kubelet
    from plugbay.testing.local.plugins import PluginInTest
    from plugbay.testing.local.pods import AdmittedPod, FinishedPod
    from plugbay.testing.local.settings import KubeletOptions
    from plugbay.testing.traffic.faults import FaultSwitch, FaultSwitches
    from plugbay.testing.traffic.transport import DisturbedTransport
    from plugbay.traffic.recorder import TrafficRecorder
    from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord

__all__ = [
    "AdmissionError",
    "AdmittedPod",
    "DeviceId",
    "DisturbedTransport",
    "ExpectationFailed",
    "FakeKubelet",
    "FakePlugin",
    "FakeWatchedPlugin",
    "FaultControl",
    "FaultControls",
    "FaultSwitch",
    "FaultSwitches",
    "FinishedPod",
    "Kubelet",
    "KubeletOptions",
    "KubeletPaths",
    "LocalKubelet",
    "ManualClock",
    "OperationId",
    "Party",
    "PluginInTest",
    "PluginNotReady",
    "PluginOptions",
    "RegisteredPlugin",
    "ReleaseReason",
    "RpcCode",
    "TrafficEvent",
    "TrafficRecord",
    "TrafficRecorder",
    "fake_kubelet",
    "fake_plugin",
    "fake_watched_plugin",
    "local_kubelet",
    "refusing",
    "serving",
]

if not TYPE_CHECKING:  # else a misspelt name would go unnoticed
    __getattr__, __dir__ = opens(
        __name__,
        {
            "plugbay.errors": ["AdmissionError", "RpcCode"],
            "plugbay.kubelet.paths": ["KubeletPaths"],
            "plugbay.model.devices": ["PluginOptions"],
            "plugbay.model.ids": ["DeviceId"],
            "plugbay.model.releases": ["OperationId", "ReleaseReason"],
            "plugbay.sdk.process.runner": ["serving"],
            "plugbay.testing.clock": ["ManualClock"],
            "plugbay.testing.fakes.kubelet": ["FakeKubelet", "RegisteredPlugin", "fake_kubelet"],
            "plugbay.testing.fakes.plugin": ["FakePlugin", "fake_plugin", "refusing"],
            "plugbay.testing.fakes.watched_plugin": ["FakeWatchedPlugin", "fake_watched_plugin"],
            "plugbay.testing.local.expectations": ["ExpectationFailed", "PluginNotReady"],
            "plugbay.testing.local.facade": ["Kubelet"],
            "plugbay.testing.local.fault_controls": ["FaultControl", "FaultControls"],
            "plugbay.testing.local.kubelet": ["LocalKubelet"],
            "plugbay.testing.local.opening": ["local_kubelet"],
            "plugbay.testing.local.plugins": ["PluginInTest"],
            "plugbay.testing.local.pods": ["AdmittedPod", "FinishedPod"],
            "plugbay.testing.local.settings": ["KubeletOptions"],
            "plugbay.testing.traffic.faults": ["FaultSwitch", "FaultSwitches"],
            "plugbay.traffic.recorder": ["TrafficRecorder"],
            "plugbay.traffic.records": ["Party", "TrafficEvent", "TrafficRecord"],
            "plugbay.testing.traffic.transport": ["DisturbedTransport"],
        },
    )
