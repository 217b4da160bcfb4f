"""Pods come and go, kubelets restart, plugins are killed between any two effects: no device is cleaned in use, none is
given dirty, and each is cleaned in the end."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.sdk.release.machine_kubelet import OTHER, Spoiled
from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_pods import Container, Kind, Pod

PACES = st.lists(st.sampled_from([0.0, 0.001, 0.002, 0.05, 0.2, 1.2]), max_size=8)
BREATHS = st.sampled_from([0.0, 0.0005, 0.0015, 0.004, 0.02, 0.3, 1.1, 5.0, 20.0, 40.0])
"""What passes between two things that happen: from the middle of a call to a whole look."""
CONTAINERS = st.builds(
    lambda inits, sidecars, apps: [*inits, *sidecars, *apps],
    st.lists(st.builds(Container, st.just("init"), st.just(Kind.INIT), st.integers(1, 2)), max_size=1),
    st.lists(st.builds(Container, st.just("sidecar"), st.just(Kind.SIDECAR), st.just(1)), max_size=1),
    st.lists(
        st.builds(Container, st.sampled_from(["x", "y"]), st.just(Kind.APP), st.integers(0, 2), st.integers(0, 1)),
        min_size=1,
        max_size=2,
        unique_by=lambda each: each.name,
    ),
)


class ReleaseMachine(RuleBasedStateMachine):
    is_strict = True
    has_store = False

    @initialize(hears_stops=st.booleans(), sees_pods=st.booleans(), sees_cgroups=st.booleans())
    def start(self, hears_stops: bool, sees_pods: bool, sees_cgroups: bool) -> None:
        self.node = Node(
            is_strict=self.is_strict,
            hears_stops=hears_stops,
            sees_pods=sees_pods,
            sees_cgroups=sees_cgroups,
            has_store=self.has_store,
        )
        self.node.loop.run_for(0.1)

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        try:
            self.node.finish()
        finally:
            self.node.close()

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "node"):
            self.node.check()

    # --- time -------------------------------------------------------------------------------------------------------

    @rule(paces=PACES, seconds=BREATHS)
    def time_passes(self, paces: list[float], seconds: float) -> None:
        """``paces``: of the kubelet."""
        self.node.paces.extend(paces)
        self.node.loop.run_for(seconds)

    @rule(moments=st.integers(0, 6), steps=st.integers(1, 12))
    def a_moment_passes(self, moments: int, steps: int) -> None:
        self.node.loop.run_moments(moments)
        self.node.loop.run_steps(steps)

    # --- pods -------------------------------------------------------------------------------------------------------

    @rule(containers=CONTAINERS, is_refused=st.booleans(), seconds=BREATHS)
    def pod_comes(self, containers: list[Container], is_refused: bool, seconds: float) -> None:
        self.node.admit(*containers, is_refused=is_refused)
        self.node.loop.run_for(seconds)

    @rule(count=st.integers(1, 3), seconds=BREATHS)
    def plain_pod_comes(self, count: int, seconds: float) -> None:
        """More often than all that can be special."""
        self.node.admit(Container("x", Kind.APP, count))
        self.node.loop.run_for(seconds)

    def _running(self) -> list[Pod]:
        return [pod for pod in self.node.truth.pods.values() if pod.runs] if hasattr(self, "node") else []

    def _known(self) -> list[Pod]:
        return [pod for pod in self._running() if pod.is_active and self.node.is_known(pod)]

    @precondition(lambda self: bool(self._running()))
    @rule(data=st.data(), after_s=st.sampled_from([0.0, 0.0, 0.01, 5.0]))
    def pod_ends(self, data: st.DataObject, after_s: float) -> None:
        self.node.end_pod(data.draw(st.sampled_from(self._running())), after_s=after_s)

    @precondition(lambda self: bool(self._known()))
    @rule(data=st.data(), stops_in_s=st.sampled_from([0.01, 2.0, 30.0, 70.0]))
    def pod_is_forced_away(self, data: st.DataObject, stops_in_s: float) -> None:
        self.node.force_pod_away(data.draw(st.sampled_from(self._known())), stops_in_s=stops_in_s)

    @precondition(lambda self: bool(self._running()))
    @rule(data=st.data(), seconds=BREATHS)
    def container_is_created(self, data: st.DataObject, seconds: float) -> None:
        self.node.create_container(data.draw(st.sampled_from(self._running())))
        self.node.loop.run_for(seconds)

    # --- the plugin -------------------------------------------------------------------------------------------------

    @rule(effect=st.integers(0, 45), tears=st.booleans(), downtime_s=st.sampled_from([0.0, 0.002, 0.5, 15.0]))
    def plugin_will_be_killed(self, effect: int, tears: bool, downtime_s: float) -> None:
        """``tears``: in the middle of a record."""
        self.node.downtime_s = downtime_s
        self.node.kill_at(effect, tears=tears)

    @rule(count=st.integers(0, 12))
    def look_begins(self, count: int) -> None:
        """Not only when nothing else happens."""
        self.node.look()
        self.node.loop.run_moments(count)

    @rule()
    def plugin_restarts(self) -> None:
        self.node.stop_plugin()

    @rule(
        allocate_s=st.sampled_from([0.0, 0.002, 12.0]),
        release_s=st.sampled_from([0.0, 0.002, 3.0, 70.0]),
        refuses=st.booleans(),
        fails=st.integers(0, 2),
    )
    def next_hooks_behave(self, allocate_s: float, release_s: float, refuses: bool, fails: int) -> None:
        conduct = self.node.conduct
        conduct.allocate_s, conduct.release_s = allocate_s, release_s
        conduct.refuses, conduct.fails = refuses, fails

    # --- the kubelet ------------------------------------------------------------------------------------------------

    @rule(kinds=st.lists(st.sampled_from(Spoiled), min_size=1, max_size=3))
    def checkpoints_go_wrong(self, kinds: list[Spoiled]) -> None:
        self.node.kubelet.spoiled.extend(kinds)

    @rule()
    def another_writer(self) -> None:
        """Another plugin sends its list."""
        self.node.kubelet.spawn(self.node.kubelet.list_arrives(OTHER))

    @precondition(lambda self: bool(self._running()))
    @rule(
        how=st.sampled_from(["plain", "refuses", "plain", "refuses", "lost"]),
        down_s=st.sampled_from([0.0, 0.003, 2.0, 40.0]),
        paces=PACES,
        is_ready=st.sampled_from([True, True, False]),
        seconds=BREATHS,
    )
    def kubelet_restarts(self, how: str, down_s: float, paces: list[float], is_ready: bool, seconds: float) -> None:
        """It may refuse pods that run, or begin with nothing; the plugin may register late."""
        self.node.paces.extend(paces)
        self.node.restart_kubelet(refuses=how == "refuses", is_lost=how == "lost", down_s=down_s)
        self.node.kubelet.is_ready = is_ready
        self.node.loop.run_for(seconds)
        self.node.look()

    @rule()
    def sources_become_ready(self) -> None:
        self.node.kubelet.is_ready = True

    @precondition(lambda self: len(self._running()) > 1)
    @rule()
    def machine_reboots(self) -> None:
        self.node.reboot()


class LazyMachine(ReleaseMachine):
    is_strict = False


class OwnMachine(ReleaseMachine):
    """On a manager that names its store no device is in doubt for ever, whoever is killed, unless that is lost."""

    has_store = True


pytestmark = pytest.mark.timeout(120 + settings().max_examples)  # shrinking what fails takes longer than finding it

TestStrict = ReleaseMachine.TestCase
TestStrict.settings = settings(max_examples=settings().max_examples * 4 // 5, stateful_step_count=30)
TestLazy = LazyMachine.TestCase
TestLazy.settings = settings(max_examples=settings().max_examples * 2 // 5, stateful_step_count=30)
TestOwn = OwnMachine.TestCase
TestOwn.settings = settings(max_examples=settings().max_examples * 2 // 5, stateful_step_count=30)
