"""The kubelet of a test, for code that is not async: pytest, unittest, a REPL."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from plugbay.errors import AdmissionError, PlugbayError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.edits import ContainerEdits
from plugbay.model.podresources import PodResources
from plugbay.testing.local.clients import ApiClients
from plugbay.testing.local.expectations import ExpectationFailed
from plugbay.testing.local.fault_controls import FaultControls
from plugbay.testing.local.kubelet import LocalKubelet
from plugbay.testing.local.loop_thread import LoopThread
from plugbay.testing.local.opening import local_kubelet
from plugbay.testing.local.plugins import PluginInTest
from plugbay.testing.local.pods import AdmittedPod, FinishedPod, Limits, PodInput
from plugbay.testing.local.settings import KubeletOptions, settings_of
from plugbay.testing.local.stock.versions import release_of
from plugbay.traffic.records import TrafficRecord
from plugbay.wire.message_values import MessageValue

_Result = TypeVar("_Result")


class Kubelet:
    """A kubelet for tests, in a thread of its own, from now until `close`, or to the end of the block::

        with Kubelet() as kubelet:
            kubelet.plugin(cards)
            assert kubelet.admit({"example.com/card": 1})["app"].env == {"CARD": "0"}

    It does what `LocalKubelet` does. One that is not closed is closed when Python exits.

    Args:
        options: see `KubeletOptions`.

    Attributes:
        paths: its directories and sockets.
        faults: switches of faults between it and its plugins.
    """

    def __init__(self, **options: Unpack[KubeletOptions]) -> None:
        release_of(settings_of(options).as_kubelet)  # refused here, before there is a thread
        self._thread: LoopThread[LocalKubelet] = LoopThread(lambda: local_kubelet(**options), name="plugbay kubelet")
        self.paths: KubeletPaths = self._thread.value.paths
        self.faults = FaultControls(self._thread.value.faults, self._thread)

    def close(self) -> None:
        """End its plugins and the kubelet; nothing is left. Harmless twice."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- plugins and pods -------------------------------------------------------------------------------------------

    def plugin(
        self,
        *plugins: Any,
        env: Mapping[str, str] | None = None,
        private_root: bool = False,
        resources: Sequence[str] = (),
        within_s: float | None = None,
        wait: bool = True,
    ) -> PluginInTest:
        """See `LocalKubelet.plugin`."""
        __tracebackhide__ = True
        return self._do(
            lambda kubelet: kubelet.plugin(
                *plugins, env=env, private_root=private_root, resources=resources, within_s=within_s, wait=wait
            )
        )

    def end_plugin(self, plugin: PluginInTest) -> None:
        """See `LocalKubelet.end_plugin`."""
        __tracebackhide__ = True
        self._do(lambda kubelet: kubelet.end_plugin(plugin))

    def signal_plugin(self, plugin: PluginInTest, number: signal.Signals) -> None:
        """See `LocalKubelet.signal_plugin`."""
        __tracebackhide__ = True
        self._look(lambda kubelet: kubelet.signal_plugin(plugin, number))

    def reload_plugin(self, plugin: PluginInTest) -> None:
        """See `LocalKubelet.reload_plugin`."""
        __tracebackhide__ = True
        self._look(lambda kubelet: kubelet.reload_plugin(plugin))

    def admit(
        self,
        pod: PodInput,
        *,
        init: Mapping[str, Limits] | None = None,
        sidecars: Mapping[str, Limits] | None = None,
        name: str = "",
    ) -> AdmittedPod:
        """See `LocalKubelet.admit`."""
        __tracebackhide__ = True
        return self._do(lambda kubelet: kubelet.admit(pod, init=init, sidecars=sidecars, name=name))

    def run(
        self, pod: PodInput, *, command: Sequence[str] = (), name: str = "", within_s: float | None = None
    ) -> FinishedPod:
        """See `LocalKubelet.run`."""
        __tracebackhide__ = True
        return self._do(lambda kubelet: kubelet.run(pod, command=command, name=name, within_s=within_s))

    def start(self, pod: AdmittedPod | str, container: str | None = None) -> Mapping[str, ContainerEdits]:
        """See `LocalKubelet.start`."""
        __tracebackhide__ = True
        return self._do(lambda kubelet: kubelet.start(pod, container))

    def end(self, pod: AdmittedPod | str) -> None:
        """See `LocalKubelet.end`."""
        __tracebackhide__ = True
        self._do(lambda kubelet: kubelet.end(pod))

    # --- what it sees -----------------------------------------------------------------------------------------------

    @property
    def capacity(self) -> dict[str, int]:
        """See `LocalKubelet.capacity`."""
        return self._look(lambda kubelet: kubelet.capacity)

    @property
    def allocatable(self) -> dict[str, int]:
        """See `LocalKubelet.allocatable`."""
        return self._look(lambda kubelet: kubelet.allocatable)

    @property
    def health(self) -> dict[str, dict[str, str]]:
        """See `LocalKubelet.health`."""
        return self._look(lambda kubelet: kubelet.health)

    @property
    def pod_resources(self) -> tuple[PodResources, ...]:
        """See `LocalKubelet.pod_resources`."""
        return self._look(lambda kubelet: kubelet.pod_resources)

    def calls(self, method: str) -> list[MessageValue]:
        """See `LocalKubelet.calls`."""
        return self._look(lambda kubelet: kubelet.calls(method))

    @property
    def records(self) -> tuple[TrafficRecord, ...]:
        """All that has passed between it and its plugins so far: the records of `LocalKubelet.traffic`."""
        return self._look(lambda kubelet: tuple(kubelet.traffic.records))

    @property
    def kubeconfig(self) -> Path:
        """See `LocalKubelet.kubeconfig`."""
        return self._look(lambda kubelet: kubelet.kubeconfig)

    @property
    def clients(self) -> ApiClients:
        """See `LocalKubelet.clients`."""
        return self._look(lambda kubelet: kubelet.clients)

    def wait_for(
        self,
        condition: Callable[[], bool] | None = None,
        *,
        capacity: Mapping[str, int | None] | None = None,
        allocatable: Mapping[str, int | None] | None = None,
        devices: Mapping[str, Collection[str]] | None = None,
        health: Mapping[str, Mapping[str, str]] | None = None,
        within_s: float | None = None,
    ) -> None:
        """See `LocalKubelet.wait_for`. The condition may look at this kubelet."""
        __tracebackhide__ = True
        self._do(
            lambda kubelet: kubelet.wait_for(
                condition,
                capacity=capacity,
                allocatable=allocatable,
                devices=devices,
                health=health,
                within_s=within_s,
            )
        )

    # --- its lives --------------------------------------------------------------------------------------------------

    def restart(
        self, *, crash: bool = False, keep_sockets: bool = False, wait: bool = True, within_s: float | None = None
    ) -> Mapping[str, AdmissionError]:
        """See `LocalKubelet.restart`."""
        __tracebackhide__ = True
        return self._do(
            lambda kubelet: kubelet.restart(crash=crash, keep_sockets=keep_sockets, wait=wait, within_s=within_s)
        )

    def admit_again(self) -> Mapping[str, AdmissionError]:
        """See `LocalKubelet.admit_again`."""
        __tracebackhide__ = True
        return self._do(lambda kubelet: kubelet.admit_again())

    def start_kubelet(self, *, keep_sockets: bool = False) -> None:
        """See `LocalKubelet.start_kubelet`."""
        __tracebackhide__ = True
        self._do(lambda kubelet: kubelet.start_kubelet(keep_sockets=keep_sockets))

    def stop_kubelet(self, *, crash: bool = False) -> None:
        """See `LocalKubelet.stop_kubelet`."""
        __tracebackhide__ = True
        self._do(lambda kubelet: kubelet.stop_kubelet(crash=crash))

    # ----------------------------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[LocalKubelet], Coroutine[Any, Any, _Result]]) -> _Result:
        __tracebackhide__ = True
        try:
            return self._thread.do(lambda: work(self._thread.value))
        except (ExpectationFailed, PlugbayError) as error:
            raise error.with_traceback(None)  # noqa: B904  # the frames are this package's; the text says it all

    def _look(self, work: Callable[[LocalKubelet], _Result]) -> _Result:
        __tracebackhide__ = True
        return self._thread.look(lambda: work(self._thread.value))
