"""What can happen to a `StockWorld`, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st

from plugbay.model.ids import ContainerName
from plugbay.model.requests import ContainerKind, ContainerRequest
from tests.contract.rigs.stock_kubelet import OTHER, Fault
from tests.contract.rigs.stock_plugin import BADGER, GOPHER
from tests.contract.rigs.stock_world import Pod, StockWorld


@dataclass(frozen=True)
class Admit:
    """
    Attributes:
        late: another writer of the checkpoint has what is true before in hand.
    """

    containers: tuple[ContainerRequest, ...]
    while_looking: bool = False
    late: bool = False


@dataclass(frozen=True)
class End:
    which: int


@dataclass(frozen=True)
class GoOn:
    """A container of a pod starts, for the first time or anew."""

    which: int


@dataclass(frozen=True)
class Look:
    later_s: int


@dataclass(frozen=True)
class TimePasses:
    seconds: int


@dataclass(frozen=True)
class Kill:
    """The plugin dies at its next effect but ``after``; or the next process of it does.

    Attributes:
        stays_away: for one step more.
    """

    after: int
    stays_away: bool = False
    at_start: bool = False


@dataclass(frozen=True)
class RestartPlugin:
    loses_journal: bool


@dataclass(frozen=True)
class RestartKubelet:
    """See `StockWorld.restart_kubelet`.

    Attributes:
        admitting: a pod of these containers is being admitted as it dies.
    """

    is_lost: bool = False
    refuses: bool = False
    is_first: bool = True
    knows_pods: bool = True
    plugin_too: bool = False
    admitting: tuple[ContainerRequest, ...] = ()


@dataclass(frozen=True)
class KnowPods:
    """The kubelet's sources are ready."""


@dataclass(frozen=True)
class Spoil:
    fault: Fault


@dataclass(frozen=True)
class FailReleases:
    times: int


@dataclass(frozen=True)
class Reboot:
    pass


Step: TypeAlias = (
    Admit
    | End
    | GoOn
    | Look
    | TimePasses
    | Kill
    | RestartPlugin
    | RestartKubelet
    | KnowPods
    | Spoil
    | FailReleases
    | Reboot
)


class Play:
    """Takes steps in a world."""

    def __init__(self, world: StockWorld) -> None:
        self._world = world
        self._stays_away = False

    async def take(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._world.pass_time(1)
            await self._step(step)
            self._world.witness.check()
            await self._bring_back()
        self._stays_away = False
        await self._bring_back()

    async def _step(self, step: Step) -> None:
        world = self._world
        match step:
            case Admit(containers):
                if step.late:
                    await world.kubelet.write_late()
                await (world.look_while_admitting if step.while_looking else world.admit)(*containers)
            case End(which):
                if (pod := self._pod(which)) is not None:
                    await world.end_pod(pod)
            case GoOn(which):
                if (pod := self._pod(which)) is not None:
                    await world.go_on(pod)
            case Look(later_s):
                world.pass_time(later_s)
                await world.plugin.look()
            case TimePasses(seconds):
                world.pass_time(seconds)
            case Kill(after, at_start=True):
                world.kill_at_start = after
            case Kill(after, stays_away):
                world.plugin.fate.left, self._stays_away = after, stays_away
            case RestartPlugin(loses_journal):
                await world.restart_plugin(loses_journal=loses_journal)
            case RestartKubelet():
                await self._restart_kubelet(step)
            case KnowPods():
                world.is_listing = True
            case Spoil(fault):
                world.kubelet.spoil(fault)
            case FailReleases(times):
                world.witness.failing = times
            case Reboot():
                await world.reboot()

    async def _restart_kubelet(self, step: RestartKubelet) -> None:
        world = self._world
        how = {
            "is_lost": step.is_lost,
            "refuses": step.refuses,
            "is_first": step.is_first,
            "knows_pods": step.knows_pods,
            "plugin_too": step.plugin_too,
        }
        if step.admitting:
            await world.restart_kubelet_in_admission(*step.admitting, **how)
        else:
            await world.restart_kubelet(**how)

    def _pod(self, which: int) -> Pod | None:
        pods = list(self._world.pods.values())
        return pods[which % len(pods)] if pods else None

    async def _bring_back(self) -> None:
        """Start a plugin that was killed again, now or after one more step."""
        while self._world.plugin.has_ended:
            await self._world.bury_plugin()
            if self._stays_away:
                self._stays_away = False
                return
            await self._world.start_plugin()


# --- drawn at random ------------------------------------------------------------------------------------------------


def container(name: str, kind: ContainerKind, gophers: int, badgers: int = 0, others: int = 0) -> ContainerRequest:
    limits = {GOPHER: gophers, BADGER: badgers, OTHER: others}
    return ContainerRequest(ContainerName(name), kind, {resource: count for resource, count in limits.items() if count})


INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP
SHAPES = [(APP,), (APP,), (INIT, APP), (INIT, INIT, APP), (SIDECAR, APP), (INIT, SIDECAR, APP), (APP, APP)]


@st.composite
def containers(draw: st.DrawFn) -> tuple[ContainerRequest, ...]:
    gophers, badgers, others = (st.sampled_from(counts) for counts in ([1, 1, 1, 2, 0], [0, 0, 1], [0, 0, 0, 1]))
    kinds = enumerate(draw(st.sampled_from(SHAPES)))
    return tuple(container(f"c{place}", kind, draw(gophers), draw(badgers), draw(others)) for place, kind in kinds)


rarely = st.sampled_from([False, False, False, True])
which = st.integers(0, 3)
admissions = st.builds(Admit, containers(), while_looking=st.booleans(), late=rarely)
looks = st.builds(Look, st.sampled_from([1, 31]))
kubelet_restarts = st.builds(
    RestartKubelet,
    is_lost=rarely,
    refuses=rarely,
    is_first=st.booleans(),
    knows_pods=st.booleans(),
    plugin_too=rarely,
    admitting=st.just(()) | containers(),
)
disturbances: st.SearchStrategy[Step] = st.one_of(
    st.builds(RestartPlugin, st.booleans()),
    st.builds(Spoil, st.sampled_from(Fault)),
    st.builds(FailReleases, st.integers(1, 2)),
    st.builds(TimePasses, st.sampled_from([20, 80])),
    st.just(KnowPods()),
    st.just(Reboot()),
)
kills = st.builds(Kill, st.integers(0, 8), stays_away=rarely, at_start=rarely)
ends = st.builds(End, which)
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        admissions,
        admissions,
        ends,
        ends,
        looks,
        looks,
        st.builds(GoOn, which),
        kills,
        kubelet_restarts,
        disturbances,
    ),
    min_size=8,
    max_size=30,
)
