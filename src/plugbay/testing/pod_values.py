"""Short ways to write pods in tests, and to check their state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugbay.model.ids import ContainerName
from plugbay.model.pods import Container, Pod, PodSpec, RestartPolicy
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.pods.record import PodRecord, Running, Waiting
from plugbay.pods.status import PodPhase, phase
from plugbay.testing.fake_node import GOPHER


def container(name: str, kind: ContainerKind = ContainerKind.APP, *, gophers: int = 0, **fields: Any) -> Container:
    amounts = {str(GOPHER): Quantity.parse(str(gophers))} if gophers else {}
    resources = {"requests": amounts, "limits": amounts}
    return Container(ContainerName(name), "i", ("run",), kind=kind, **{**resources, **fields})


def pod(*containers: Container, name: str = "p", policy: RestartPolicy = RestartPolicy.ALWAYS, **spec: Any) -> Pod:
    """Make a pod of ``containers``, each in its place; without any, of one app container ``c``."""
    made = containers or (container("c"),)
    apps = tuple(each for each in made if each.kind is ContainerKind.APP)
    inits = tuple(each for each in made if each.kind is not ContainerKind.APP)
    return Pod(name, PodSpec(apps, inits, restart_policy=policy, **spec))


def is_in(wanted: PodPhase) -> Callable[[PodRecord], bool]:
    return lambda record: phase(record) is wanted


def state_of(record: PodRecord, name: str = "c") -> Any:
    """The state of a container; its type is open, because a test knows which state it waited for."""
    return record.containers[ContainerName(name)].state


def waits_for(reason: str, name: str = "c") -> Callable[[PodRecord], bool]:
    def wanted(record: PodRecord) -> bool:
        state = state_of(record, name)
        return isinstance(state, Waiting) and state.reason == reason

    return wanted


def runs(attempt: int, name: str = "c") -> Callable[[PodRecord], bool]:
    return lambda record: (
        isinstance(state_of(record, name), Running) and record.containers[ContainerName(name)].attempt == attempt
    )
