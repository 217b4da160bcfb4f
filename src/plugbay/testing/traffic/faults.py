"""Switches of faults between a kubelet and its plugins: at any time, by method, so many times or until switched off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import Enum
from typing import Final

from plugbay.errors import RegistrationRefused, RpcCode, RpcFailed, UsageError
from plugbay.values import dataclass
from plugbay.wire.grpc import texts
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.message_values import KubeletVersion, known_method, method_name

REFUSAL: Final = "registration refused by a fault switch"


class FaultKind(Enum):
    """The kinds of faults; see the methods of `FaultSwitches` that switch them on."""

    DELAY = "delay"
    HANG = "hang"
    DROP = "drop"
    RESET = "reset"
    RESET_CONNECTION = "reset connection"
    REFUSE = "refuse"
    STRIP = "strip newer fields"


_BREAKING: Final = frozenset({FaultKind.RESET, FaultKind.RESET_CONNECTION})


@dataclass(eq=False)
class FaultSwitch:
    """A fault that was switched on.

    Attributes:
        method: the name of the only method that it concerns, such as ``Allocate``; None for every method.
        resource: the only resource that it concerns; None for every resource.
        left: how many times it still acts; None for no limit.
        used: how many times it has acted.
        seconds, text, version: see the methods of `FaultSwitches`.
    """

    kind: FaultKind
    method: str | None = None
    resource: str | None = None
    left: int | None = None
    seconds: float = 0.0
    text: str = ""
    version: KubeletVersion | None = None
    used: int = 0
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _acted: asyncio.Event = field(default_factory=asyncio.Event)

    def off(self) -> None:
        """Switch the fault off: calls that hang because of it go on. Harmless twice."""
        self.left = 0
        self._ended.set()

    async def until_off(self) -> None:
        await self._ended.wait()

    async def until_used(self, *, timeout_s: float) -> None:
        """Wait until it has acted at least once.

        Raises:
            TimeoutError: it has not acted in time.
        """
        async with asyncio.timeout(timeout_s):
            await self._acted.wait()

    def concerns(self, method: str, resource: str) -> bool:
        """Whether it still acts on calls of a method's path, for a plugin of ``resource`` (empty if not known)."""
        return (
            self.left != 0
            and self.method in (None, method_name(method))
            and (self.resource is None or self.resource == resource)
        )

    def use(self) -> None:
        """Count that it acts."""
        self.used += 1
        if self.left is not None:
            self.left -= 1
        self._acted.set()


@dataclass(frozen=True, slots=True)
class Breakage:
    """The end of a call that did not come from its answerer.

    Attributes:
        kind: the fault that broke it; None when its channel was closed.
    """

    failure: RpcFailed
    kind: FaultKind | None = None


class DisturbedCall:
    """A call under way that faults may break.

    Args:
        break_connection: breaks the connection that the call is made on.

    Attributes:
        broken: done when a fault, or the end of the channel, breaks the call.
    """

    def __init__(self, method: str, resource: str, break_connection: Callable[[], object]) -> None:
        self.method = method
        self.resource = resource
        self.broken: asyncio.Future[Breakage] = asyncio.get_running_loop().create_future()
        self._break_connection = break_connection

    def break_by(self, kind: FaultKind) -> None:
        """Break the call, or the whole connection that it is made on."""
        self.end(Breakage(failure_of(kind), kind))
        if kind is FaultKind.RESET_CONNECTION:
            self._break_connection()

    def end(self, breakage: Breakage) -> None:
        if not self.broken.done():
            self.broken.set_result(breakage)


def failure_of(kind: FaultKind) -> RpcFailed:
    """The failure of a call that a fault has broken, in the words of Go's gRPC."""
    if kind is FaultKind.RESET:
        return texts.reset(ErrorCode.INTERNAL_ERROR)
    return RpcFailed(RpcCode.UNAVAILABLE, texts.reading_failed("connection reset by peer"))


class FaultSwitches:
    """The faults of one kubelet. Every method may be called at any time while its manager runs.

    A switch concerns the calls of one ``method`` by its name, such as ``Allocate``, ``ListAndWatch`` or ``Register``,
    or of every method; of one ``resource`` or of every resource; it acts ``times`` times, or until it is switched off.
    For ListAndWatch each list counts, for other methods each call.

    Raises:
        UsageError: there is no such method, or a delay or a number of times is negative.
    """

    def __init__(self) -> None:
        self._switches: list[FaultSwitch] = []
        self._calls: set[DisturbedCall] = set()

    # --- for a test -------------------------------------------------------------------------------------------------

    def delay(
        self, seconds: float, *, method: str | None = None, resource: str | None = None, times: int | None = None
    ) -> FaultSwitch:
        """Let requests, and lists of ListAndWatch, arrive so much later."""
        return self._on(FaultSwitch(FaultKind.DELAY, method, resource, times, seconds=seconds))

    def hang(self, *, method: str | None = None, resource: str | None = None, times: int | None = None) -> FaultSwitch:
        """Hold requests, and lists, back until the switch is off. Deadlines of calls pass meanwhile."""
        return self._on(FaultSwitch(FaultKind.HANG, method, resource, times))

    def drop(self, *, method: str | None = None, resource: str | None = None, times: int | None = None) -> FaultSwitch:
        """Lose answers: the request arrives, and its caller waits until its deadline. A list is lost, its stream goes
        on."""
        return self._on(FaultSwitch(FaultKind.DROP, method, resource, times))

    def reset(self, *, method: str | None = None, resource: str | None = None, times: int | None = 1) -> FaultSwitch:
        """Break calls by RST_STREAM: those under way at once, later ones in place of their answer."""
        return self._on(FaultSwitch(FaultKind.RESET, method, resource, times))

    def reset_connection(
        self, *, method: str | None = None, resource: str | None = None, times: int | None = 1
    ) -> FaultSwitch:
        """Break the connection under a call, and so all calls on it: at once if one is under way, else in place of the
        answer of a later one."""
        return self._on(FaultSwitch(FaultKind.RESET_CONNECTION, method, resource, times))

    def refuse(self, text: str = REFUSAL, *, resource: str | None = None, times: int | None = None) -> FaultSwitch:
        """Refuse registrations, by either route, with ``text``. What was registered before goes on."""
        return self._on(FaultSwitch(FaultKind.REFUSE, None, resource, times, text=text))

    def strip_newer(
        self,
        version: KubeletVersion | None = None,
        *,
        method: str | None = None,
        resource: str | None = None,
        times: int | None = None,
    ) -> FaultSwitch:
        """Take the fields that kubelets of ``version``, such as ``(1, 26)``, do not heed out of every message.

        Without a version, only the fields go that no kubelet has: our own, from number 101 on.
        """
        return self._on(FaultSwitch(FaultKind.STRIP, method, resource, times, version=version))

    def all_off(self) -> None:
        """Switch everything off that was switched on."""
        for switch in self._switches:
            switch.off()
        self._switches.clear()

    # --- for what they act on ---------------------------------------------------------------------------------------

    def take(self, kind: FaultKind, method: str, resource: str) -> FaultSwitch | None:
        """The first switch of a kind that acts on a call now; counted as used."""
        for switch in self._switches:
            if switch.kind is kind and switch.concerns(method, resource):
                switch.use()
                return switch
        return None

    def check_admission(self, resource: str) -> None:
        """Let a registration pass, or not.

        Raises:
            RegistrationRefused: a switch is on for it.
        """
        if (switch := self.take(FaultKind.REFUSE, "", resource)) is not None:
            raise RegistrationRefused(switch.text)

    @contextmanager
    def under_way(self, call: DisturbedCall) -> Iterator[None]:
        """Let faults break ``call`` during the block."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)

    def _on(self, switch: FaultSwitch) -> FaultSwitch:
        if switch.method is not None:
            switch.method = known_method(switch.method)
        if switch.seconds < 0 or (switch.left is not None and switch.left < 0):
            raise UsageError(f"a fault ({switch.kind.value}) lasts 0 s or more, and acts 0 times or more")
        self._switches = [each for each in self._switches if each.left != 0 or not each._ended.is_set()]
        self._switches.append(switch)
        if switch.kind in _BREAKING:
            for call in tuple(self._calls):
                if not call.broken.done() and switch.concerns(call.method, call.resource):
                    switch.use()
                    call.break_by(switch.kind)
        return switch
