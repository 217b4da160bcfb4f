"""Random pods on a machine in trouble: no room, no descriptors, no engine, a clock that is set, a node that is killed.

What happens does not wait until what happened before has had its effects: so races come about.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from plugbay.errors import PodExists, PodNotFound, StoreUnusable
from plugbay.model.actions import SleepAction
from plugbay.model.ids import PodUid
from plugbay.model.pods import EmptyDir, Pod, RestartPolicy, Volume, VolumeMount, pod_request
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import HOLDS_RESOURCES, PodStage
from plugbay.pods.record import PodRecord, Terminated
from plugbay.pods.status import PodPhase, phase, pod_status
from plugbay.runtimes.port import RunState
from plugbay.testing.fake_node import GOPHER
from plugbay.testing.pod_values import container, pod
from tests.unit.pods.engine_machine import EngineMachine
from tests.unit.pods.shaky_node import ShakyNode

NAMES = ("p", "q", "r")
TURNS = st.integers(0, 12) | st.none()
"""Of the event loop after what happened; None is for all that follows from it."""
BACKWARDS = {(PodPhase.RUNNING, PodPhase.PENDING)} | {
    (end, other) for end in (PodPhase.SUCCEEDED, PodPhase.FAILED) for other in PodPhase if other is not end
}
LONGEST_REST_S = 15
"""Longer than any wait for the next try of what has to succeed in the end."""


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    kinds = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=2))
    mounts = (VolumeMount("v", "/v", sub_path=draw(st.sampled_from(["", "sub"]))),)
    containers = [
        container(f"{kind.value}{number}", kind, gophers=draw(st.integers(0, 1)), **_extras(draw, kind))
        for number, kind in enumerate([*kinds, ContainerKind.APP])
    ]
    last = containers[-1]
    containers[-1] = container(str(last.name), gophers=draw(st.integers(0, 2)), volume_mounts=mounts)
    return pod(
        *containers,
        name=draw(st.sampled_from(NAMES)),
        policy=draw(st.sampled_from(RestartPolicy)),
        node_name=draw(st.sampled_from([None, "n1"])),
        active_deadline_s=draw(st.sampled_from([None, None, 25])),
        termination_grace_period_s=draw(st.sampled_from([0, 5])),
        volumes=(Volume("v", EmptyDir()),),
    )


def _extras(draw: st.DrawFn, kind: ContainerKind) -> dict[str, Any]:
    return {"pre_stop": draw(st.sampled_from([None, SleepAction(1)]))} if kind is ContainerKind.SIDECAR else {}


class Complaints(logging.Handler):
    """What is logged as an error: anything with a traceback, and all while there is no trouble."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.tracebacks: list[str] = []
        self.others: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.tracebacks.append(self.format(record))
        else:
            self.others.append(record.getMessage())


class FaultMachine(EngineMachine[ShakyNode]):
    def __init__(self) -> None:
        super().__init__(ShakyNode)
        self._complaints = Complaints()
        self._was_in_trouble = False
        self._phases: dict[PodUid, PodPhase] = {}
        for name in ("plugbay", "asyncio"):
            logging.getLogger(name).addHandler(self._complaints)
        save = self._node.shaky_store.save_pod

        def save_pod(record: PodRecord) -> None:
            self._shown(record)
            save(record)

        self._node.shaky_store.save_pod = save_pod  # type: ignore[method-assign]  # a watch tells the newest state only

    def _shown(self, record: PodRecord) -> None:
        before, now = self._phases.get(record.uid, PodPhase.PENDING), phase(record)
        assert (before, now) not in BACKWARDS, f"{before} became {now}: {record}"
        self._phases[record.uid] = now

    @initialize(count=st.integers(1, 3), latency=st.integers(0, 3))
    def start(self, count: int, latency: int) -> None:
        self._node.trouble.latency = latency
        self._node.devices.offer(count)
        self._run(self._start())

    @rule(wanted=pods(), turns=TURNS)
    def create(self, wanted: Pod, turns: int | None) -> None:
        if wanted.name not in self._names():
            self._ask(self._running.create(wanted), turns)

    @rule(name=st.sampled_from(NAMES), grace_s=st.sampled_from([None, 0, 3]), turns=TURNS)
    def delete(self, name: str, grace_s: int | None, turns: int | None) -> None:
        if name in self._names():
            self._ask(self._running.delete("default", name, grace_s=grace_s), turns)

    @rule(which=st.integers(0), code=st.sampled_from([0, 0, 1]), turns=TURNS)
    def process_ends(self, which: int, code: int, turns: int | None) -> None:
        if running := self._node.runtime.running():
            self._node.runtime.finish(running[which % len(running)].id, code)
            self._run(turns=turns)

    @rule(seconds=st.sampled_from([1, 10, 40]), turns=TURNS)
    def time_passes(self, seconds: int, turns: int | None) -> None:
        self._node.clock.advance(seconds)
        self._node.shaky_store.write()
        self._run(turns=turns)

    @rule(seconds=st.sampled_from([-7200, -5, 5, 7200]))
    def clock_is_set(self, seconds: int) -> None:
        self._node.clock.set_by(seconds)

    @rule(is_full=st.booleans(), has_descriptors=st.booleans(), has_engine=st.booleans(), turns=TURNS)
    def trouble_comes_or_goes(self, is_full: bool, has_descriptors: bool, has_engine: bool, turns: int | None) -> None:
        trouble = self._node.trouble
        trouble.is_full, trouble.has_descriptors, trouble.has_engine = is_full, has_descriptors, has_engine
        self._was_in_trouble |= not trouble.is_over
        self._run(turns=turns)

    @rule(names=st.sets(st.sampled_from(["app0", "init0", "init1"]), max_size=1), deaf=st.booleans())
    def containers_change(self, names: set[str], deaf: bool) -> None:
        self._node.shaky_runtime.cannot_run = names
        self._node.runtime.deaf = {"app0", "app1", "app2"} if deaf else set()

    @rule(turns=TURNS)
    def health_changes(self, turns: int | None) -> None:
        for record in self._node.pods:
            self._node.devices.set_health(record.uid, {})
        self._run(turns=turns)

    @rule(which=st.lists(st.integers(0), max_size=2), is_killed=st.booleans(), reboot=st.booleans(), turns=TURNS)
    def node_restarts(self, which: list[int], is_killed: bool, reboot: bool, turns: int | None) -> None:
        """Meanwhile some processes end, or all of them without a witness."""
        self._loop.run_until_complete(self._end())
        if is_killed:
            self._node.shaky_store.lose_what_is_not_written()
        for number in which:
            if running := self._node.runtime.running():
                self._node.runtime.finish(running[number % len(running)].id, number % 2)
        if reboot:
            self._node.runtime.lose_all()
        # Between the end and the new start nothing tells; what was lost may be shown again.
        self._phases = {uid: phase(record) for uid, record in self._node.shaky_store.pods.items()}
        self._run(self._start(), turns=turns)

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_ends_in_a_traceback(self) -> None:
        assert not self._complaints.tracebacks, "\n".join(self._complaints.tracebacks)
        assert self._was_in_trouble or self._complaints.others == []

    @invariant()
    def what_runs_holds_its_devices(self) -> None:
        """Else they might be another pod's as well."""
        for instance in self._node.runtime.running():
            if instance.pod_uid in self._node.pods:
                request = pod_request(self._node.pods[instance.pod_uid].pod)
                wanted = sum(each.limits.get(GOPHER, 0) for each in request.containers)
                assert len(self._node.shaky_devices.devices_of(instance.pod_uid)) == wanted

    @invariant()
    def what_has_ended_holds_nothing(self) -> None:
        for record in self._node.pods:
            if record.stage is PodStage.ENDED:
                assert not record.running()
                assert phase(record) in (PodPhase.SUCCEEDED, PodPhase.FAILED)
            if record.stage not in HOLDS_RESOURCES:
                assert not self._node.shaky_devices.devices_of(record.uid)

    @invariant()
    def ends_are_told_as_they_were(self) -> None:
        for record in self._node.pods:
            pod_status(record, runtime="fake")
            for each in record.containers.values():
                for end in (each.state, each.last):
                    if isinstance(end, Terminated) and end.id is not None:
                        truth = self._node.runtime.instances.get(end.id)
                        assert truth is None or truth.state is RunState.LOST or truth.exit_code == end.exit_code

    def teardown(self) -> None:
        """Once the trouble is over everything can be deleted, soon, and then nothing is left."""
        try:
            trouble = self._node.trouble
            trouble.is_full, trouble.has_descriptors, trouble.has_engine = False, True, True
            for name in self._names():
                if name in self._names():  # what was being deleted goes meanwhile
                    self._ask(self._running.delete("default", name, grace_s=0), None)
            for _ in range(4):  # a fault's rest, and the rests of what was tried anew then
                self._node.clock.advance(LONGEST_REST_S)
                self._run()
            assert (list(self._node.pods), self._node.runtime.instances, self._node.devices.held) == ([], {}, {})
            assert self._node.shaky_devices.owners == {}
            assert not [*self._node.volumes_left()]
            self.nothing_ends_in_a_traceback()
        finally:
            for name in ("plugbay", "asyncio"):
                logging.getLogger(name).removeHandler(self._complaints)
            self._close()

    # --- the machine --------------------------------------------------------------------------------------------------

    def _names(self) -> set[str]:
        return {record.pod.name for record in self._node.pods}

    def _ask(self, work: Any, turns: int | None) -> None:
        async def asked() -> None:
            with contextlib.suppress(StoreUnusable, PodExists, PodNotFound):  # which the client is told
                await work

        self._run(asked(), turns=turns)


TestFaults = FaultMachine.TestCase
TestFaults.settings = settings(stateful_step_count=30)
