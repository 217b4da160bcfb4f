"""The lives of one kubelet for tests, one after the other: a Device Manager alone, or a node with one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from plugbay.errors import UsageError
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.listening import TcpAddress
from plugbay.ops.tasks import background
from plugbay.testing.local.holding import Held, hold
from plugbay.testing.local.switchboard import Switchboard
from plugbay.values import dataclass

if TYPE_CHECKING:
    from plugbay.node.control import RunningNode


@dataclass(frozen=True, slots=True)
class TestedLife:
    """One of them. ``node`` is None for a Device Manager alone."""

    manager: DeviceManager
    node: RunningNode | None = None


class KubeletLives:
    """Starts and stops the kubelet, and gives what lives now.

    Args:
        changes: told of every change that the manager tells of.
        environ: the environment of containers.
        is_node: whether it is a node, which runs pods.
        api: where the node serves its API over TCP, if it does.
    """

    def __init__(
        self,
        config: ManagerConfig,
        tasks: asyncio.TaskGroup,
        switchboard: Switchboard,
        *,
        clock: Clock,
        changes: Changes,
        environ: Mapping[str, str],
        is_node: bool,
        api: TcpAddress | None,
    ) -> None:
        self.is_node = is_node
        self._api = api
        self._config = config
        self._tasks = tasks
        self._switchboard = switchboard
        self._clock = clock
        self._changes = changes
        self._environ = environ
        self._held: Held[TestedLife] | None = None

    @property
    def is_running(self) -> bool:
        return self._held is not None

    @property
    def now(self) -> TestedLife:
        """The present life.

        Raises:
            UsageError: it is stopped.
        """
        if self._held is None:
            raise UsageError("this kubelet is stopped; start it first")
        return self._held.value

    async def start(self, *, keep_sockets: bool) -> None:
        """Begin a life; see `LocalKubelet.start_kubelet`."""
        if self._held is not None:
            raise UsageError("this kubelet runs already")
        self._switchboard.begin(keep_sockets=keep_sockets)
        self._held = await hold(self._tasks, self._life(), name="kubelet of a test")

    async def stop(self, *, crash: bool) -> None:
        """End the life, if there is one; see `LocalKubelet.stop_kubelet`."""
        if self._held is not None:
            if crash:
                self._switchboard.crash()
            held, self._held = self._held, None
            await held.close()

    def _life(self) -> AbstractAsyncContextManager[TestedLife]:
        switchboard = self._switchboard

        def start(config: ManagerConfig, **settings: Any) -> AbstractAsyncContextManager[DeviceManager]:
            of_test: dict[str, Any] = {
                "transport": switchboard.transport,  # in place of the one by which a node records
                "prepare": switchboard.prepare,
                "crashes": lambda: switchboard.is_crashing,
                "endpoints": switchboard.endpoints,
            }
            return run_manager(config, **(settings | of_test))

        return self._node_life(start) if self.is_node else self._manager_life(start)

    @asynccontextmanager
    async def _manager_life(
        self, start: Callable[..., AbstractAsyncContextManager[DeviceManager]]
    ) -> AsyncIterator[TestedLife]:
        async with (
            start(self._config, clock=self._clock) as manager,
            serve_pod_resources(
                self._config.paths.pod_resources_socket,
                manager.pod_resources(),
                manager.admitted_pods,
                clock=self._clock,
                gates=self._config.gates,
                refusals=self._switchboard.pod_resources_refusals,
            ),
            background(self._tell(manager), name="changes of the manager"),
        ):
            yield TestedLife(manager)

    @asynccontextmanager
    async def _node_life(
        self, start: Callable[..., AbstractAsyncContextManager[DeviceManager]]
    ) -> AsyncIterator[TestedLife]:
        from plugbay.testing.local.nodes import node_life  # few tests run pods, and a node needs h11

        async with (
            node_life(self._config, start, environ=self._environ, clock=self._clock, api=self._api) as node,
            background(self._tell(node.devices), name="changes of the manager"),
        ):
            yield TestedLife(node.devices, node)

    async def _tell(self, manager: DeviceManager) -> None:
        async for _ in manager.changes():
            self._changes.notify()
