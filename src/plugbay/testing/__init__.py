"""Fakes and clocks to test a plugin or a kubelet, in any language, over real sockets: public, for our users' tests too.

The names of ``__all__`` are public; `docs/python.md` shows their use. The rest serves our own tests.

May live here: fakes that speak the protocols, clocks that stand still, conformance suites. May not: anything that
needs pytest or hypothesis when a fake alone is imported, or a private module of theirs at all.
"""

from plugbay.errors import RpcCode
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.sdk.process.runner import serving
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from plugbay.testing.fake_plugin import FakePlugin, fake_plugin, refusing
from plugbay.testing.fake_watched_plugin import FakeWatchedPlugin, fake_watched_plugin

__all__ = [
    "DeviceId",
    "FakeKubelet",
    "FakePlugin",
    "FakeWatchedPlugin",
    "KubeletPaths",
    "ManualClock",
    "OperationId",
    "PluginOptions",
    "RegisteredPlugin",
    "ReleaseReason",
    "RpcCode",
    "fake_kubelet",
    "fake_plugin",
    "fake_watched_plugin",
    "refusing",
    "serving",
]
