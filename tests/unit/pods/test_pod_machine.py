"""Random pods and random deaths of processes, the node's own among them, over fakes: what must always hold."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from plugbay.model.actions import ExecAction, SleepAction
from plugbay.model.pods import Pod, RestartPolicy
from plugbay.model.probes import ContainerProbe, Probes
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import HOLDS_RESOURCES, PodStage
from plugbay.pods.record import Running, restarts
from plugbay.pods.status import PodPhase, phase, pod_status
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, pod
from tests.unit.pods.engine_machine import EngineMachine

NAMES = ("p", "q", "r")
HOOKS = st.sampled_from([None, None, SleepAction(1)])
KINDS = st.sampled_from(ContainerKind)
QUESTIONS = ("up", "live", "ready")


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    kinds = [*draw(st.lists(KINDS, max_size=3)), ContainerKind.APP]
    containers = [
        container(f"{kind.value}{number}", kind, gophers=draw(st.integers(0, 2)), **_hooks(draw, kind))
        for number, kind in enumerate(kinds)
    ]
    return pod(
        *containers,
        name=draw(st.sampled_from(NAMES)),
        policy=draw(st.sampled_from(RestartPolicy)),
        active_deadline_s=draw(st.sampled_from([None, None, 25])),
        termination_grace_period_s=draw(st.sampled_from([0, 5])),
    )


def _hooks(draw: st.DrawFn, kind: ContainerKind) -> dict[str, Any]:
    if kind is ContainerKind.INIT:
        return {}
    probes = Probes(*(draw(st.sampled_from([None, None, _probe(question)])) for question in QUESTIONS))
    return {"post_start": draw(HOOKS), "pre_stop": draw(HOOKS), "probes": probes}


def _probe(question: str) -> ContainerProbe:
    return ContainerProbe(ExecAction((question,)), period_s=5, failure_threshold=2, grace_s=1)


class PodMachine(EngineMachine[FakeNode]):
    """Time passes, and the engine works, only inside rules; after each one it has nothing more to do."""

    def __init__(self) -> None:
        super().__init__(FakeNode)
        self._final: dict[str, PodPhase] = {}

    @initialize(count=st.integers(0, 4))
    def start(self, count: int) -> None:
        self._node.devices.offer(count)
        self._run(self._start())

    @rule(wanted=pods())
    def create(self, wanted: Pod) -> None:
        if wanted.name not in {record.pod.name for record in self._node.pods}:
            self._run(self._running.create(wanted))

    @rule(name=st.sampled_from(NAMES), grace_s=st.sampled_from([None, 0, 3]))
    def delete(self, name: str, grace_s: int | None) -> None:
        if name in {record.pod.name for record in self._node.pods}:
            self._run(self._running.delete("default", name, grace_s=grace_s))

    @rule(which=st.integers(0), code=st.sampled_from([0, 1, 137]))
    def process_ends(self, which: int, code: int) -> None:
        if running := self._node.runtime.running():
            self._node.runtime.finish(running[which % len(running)].id, code)
            self._run()

    @rule(seconds=st.sampled_from([1, 10, 40, 300]))
    def time_passes(self, seconds: int) -> None:
        self._node.clock.advance(seconds)
        self._run()

    @rule(count=st.integers(0, 4))
    def devices_come_and_go(self, count: int) -> None:
        self._node.devices.offer(count)
        self._run()

    @rule(deaf=st.booleans())
    def containers_stop_hearing(self, deaf: bool) -> None:
        self._node.runtime.deaf = {"app0", "app1", "sidecar0"} if deaf else set()

    @rule(codes=st.fixed_dictionaries({question: st.sampled_from([0, 0, 1]) for question in QUESTIONS}))
    def probes_find_something_else(self, codes: dict[str, int | None]) -> None:
        self._node.runtime.exec_codes = codes

    @rule(which=st.lists(st.integers(0), max_size=2), reboot=st.booleans())
    def node_restarts(self, which: list[int], reboot: bool) -> None:
        """Meanwhile some processes end, or all of them without a witness."""
        self._run(self._end())
        for number in which:
            if running := self._node.runtime.running():
                self._node.runtime.finish(running[number % len(running)].id, number % 2)
        if reboot:
            self._node.runtime.lose_all()
        self._run(self._start())

    @invariant()
    def every_process_belongs_to_a_container_that_knows_it(self) -> None:
        known = {
            state.id
            for record in self._node.pods
            for state in (each.state for each in record.containers.values())
            if isinstance(state, Running)
        }
        assert {each.id for each in self._node.runtime.running()} == known

    @invariant()
    def only_pods_that_have_their_place_hold_devices(self) -> None:
        placed = {record.uid for record in self._node.pods if record.stage in HOLDS_RESOURCES}
        assert self._node.devices.held.keys() <= placed

    @invariant()
    def a_pod_that_has_ended_runs_nothing_and_stays_as_it_is(self) -> None:
        for record in self._node.pods:
            if record.stage is PodStage.ENDED:
                assert not record.running()
                assert self._final.setdefault(record.uid, phase(record)) is phase(record)
                assert phase(record) in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @invariant()
    def app_containers_run_only_behind_their_init_containers(self) -> None:
        for record in self._node.pods:
            inits = [each for each in record.containers.values() if each.kind is ContainerKind.INIT]
            apps = [each for each in record.containers.values() if each.kind is ContainerKind.APP]
            if any(isinstance(each.state, Running) for each in apps):
                assert all(getattr(each.state, "exit_code", None) == 0 for each in inits)

    @invariant()
    def what_should_not_be_restarted_is_not(self) -> None:
        """A container that a probe has killed is started again however it ended."""
        for record in self._node.pods:
            policy = record.pod.spec.restart_policy
            for spec in record.pod.spec.all_containers:
                each = record.containers[spec.name]
                may_be_killed = (spec.probes.startup or spec.probes.liveness) and policy is not RestartPolicy.NEVER
                if each.attempt > 0 and each.last is not None and not may_be_killed:
                    assert restarts(each.kind, policy, each.last)

    @invariant()
    def only_what_runs_is_started_or_ready(self) -> None:
        for record in self._node.pods:
            status: Any = pod_status(record, runtime="fake")
            for each in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
                is_done = each["state"].get("terminated", {}).get("exitCode") == 0
                assert each["started"] is False or "running" in each["state"]
                assert each["ready"] is False or each["started"] or is_done

    @invariant()
    def the_store_knows_what_is(self) -> None:
        assert self._node.kept.pods == {record.uid: record for record in self._node.pods}
        for record in self._node.pods:
            pod_status(record, runtime="fake")

    def teardown(self) -> None:
        """Everything can be deleted, and then nothing is left."""
        try:
            for record in list(self._node.pods):
                self._run(self._running.delete("default", record.pod.name, grace_s=0))
            assert (list(self._node.pods), self._node.runtime.instances, self._node.devices.held) == ([], {}, {})
        finally:
            self._close()


TestPods = PodMachine.TestCase
TestPods.settings = settings(stateful_step_count=25)
