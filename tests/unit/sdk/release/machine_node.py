"""A node: pods, a kubelet and a process of the plugin, and all that can happen to them."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.release.uses import GRACE_S, SETTLE_S
from tests.unit.sdk.release.machine_kubelet import Kubelet
from tests.unit.sdk.release.machine_plugin import UNITS, Conduct, Disk, Fate, Process, is_kill, proc_root
from tests.unit.sdk.release.machine_pods import Container, Pod, Truth
from tests.unit.sdk.virtual_loop import VirtualLoop

MEMORY = Path("/dev/shm")
"""Where waiting for the disk costs nothing."""
PACE_S = 0.001
STOPPING_S = 32.0
"""From a pod's refusal by a kubelet that was restarted to the end of its containers, spec 4.7."""
FINALLY_S = SETTLE_S + GRACE_S + 130.0
"""Enough for two readings after everything that is waited for, and for a release that is tried again."""


class Node:
    """To be closed; before that, `finish` ends all pods and checks what must come of it.

    Attributes:
        paces: how long the next things take that a kubelet does.
        downtime_s: from the death of a process to the next.
        next_fate: of the process that is started next.

    Args:
        sees_pods: whether the plugin sees the kubelet's directories of pods.
        sees_cgroups: whether it sees their control groups.
        has_store: whether the kubelet names its store.
    """

    def __init__(
        self,
        *,
        is_strict: bool = True,
        hears_stops: bool = False,
        sees_pods: bool = True,
        sees_cgroups: bool = True,
        has_store: bool = False,
    ) -> None:
        self.loop = VirtualLoop()
        self._directory = tempfile.TemporaryDirectory(prefix="pb", dir=MEMORY if MEMORY.is_dir() else None)
        self.paths = KubeletPaths(Path(self._directory.name))
        self.truth = Truth()
        self.truth.is_strict, self.truth.hears_stops = is_strict, hears_stops
        self.paces: deque[float] = deque()
        self.conduct = Conduct()
        self.disk = Disk()
        self.downtime_s = PACE_S
        self.next_fate = Fate()
        self._sees_pods, self._sees_cgroups = sees_pods, sees_cgroups
        self._boots = 0
        self._process: Process | None = None
        self.kubelet = Kubelet(
            self.loop,
            self.paths,
            UNITS,
            self.truth,
            pace=self._pace,
            written=self._checkpoint_written,
            has_store=has_store,
        )
        if sees_pods:
            (self.paths.root / "pods" / "plugin").mkdir()
        self._cgroups = self.paths.root / "cgroup/kubepods"
        self._cgroups.mkdir(parents=True)
        if sees_cgroups:
            proc = proc_root(self.paths) / "self"
            proc.mkdir(parents=True)
            (proc / "mountinfo").write_text(f"1 1 0:1 / {self._cgroups.parent} rw - cgroup2 cgroup2 rw\n")
        self.kubelet.start()
        self.kubelet.is_ready = True
        self._life = self.loop.create_task(self._processes())

    def _pace(self) -> float:
        return self.paces.popleft() if self.paces else PACE_S

    def _checkpoint_written(self) -> None:
        if self._process is not None:
            self._process.checkpoint_changed()

    # --- the plugin -------------------------------------------------------------------------------------------------

    async def _processes(self) -> None:
        """One after the other, as a DaemonSet does it."""
        while True:
            self._process = self._new_process()
            try:
                await self._process.run()
            finally:
                self._process = None
            await asyncio.sleep(self.downtime_s)

    def _new_process(self) -> Process:
        fate, self.next_fate = self.next_fate, Fate()
        boot = f"boot {self._boots}"
        return Process(self.kubelet, self.truth, boot=boot, fate=fate, conduct=self.conduct, disk=self.disk)

    @property
    def process(self) -> Process:
        """The one of now; waits for it."""
        while self._process is None or not self._process.serves:
            self.loop.run_for(max(self.downtime_s, PACE_S))
        return self._process

    def kill_at(self, effect: int | None, *, tears: bool = False) -> Fate:
        """Just before so many effects more of the process of now, or of the next when there is none."""
        fate = self.next_fate if self._process is None else self._process.fate
        fate.left, fate.tears, fate.seen = effect, tears, []
        return fate

    def look(self) -> None:
        """A background look is due."""
        if self._process is not None and self._process.serves:
            self._process.release.context.next_look.make_urgent()

    def stop_plugin(self) -> None:
        """The orderly way, and the next one starts."""
        self._life.cancel()
        self.loop.run_until_complete(asyncio.wait([self._life]))
        self._life = self.loop.create_task(self._processes())

    # --- pods -------------------------------------------------------------------------------------------------------

    def admit(self, *containers: Container, is_refused: bool = False) -> Pod:
        """A pod has come; whether it was admitted shows later."""
        pod = Pod(f"p{len(self.truth.pods)}", list(containers), is_refused=is_refused)
        self.truth.pods[pod.uid] = pod
        if self._sees_pods:
            (self.paths.root / "pods" / pod.uid).mkdir()
        self._cgroup(pod).mkdir(parents=True)
        if self.kubelet.is_up:
            self.kubelet.spawn(self.kubelet.admit(pod))
        return pod

    def end_pod(self, pod: Pod, *, after_s: float = 0.0) -> None:
        """Its containers have stopped; the kubelet takes it for active for another ``after_s``."""
        pod.end()
        if self._cgroup(pod).exists():
            self._cgroup(pod).rmdir()
        if after_s:
            self.loop.call_later(after_s, self._forget, pod)
        else:
            self._forget(pod)

    def _forget(self, pod: Pod) -> None:
        pod.is_active = False
        if self._sees_pods and (directory := self.paths.root / "pods" / pod.uid).exists():
            directory.rmdir()

    def force_pod_away(self, pod: Pod, *, stops_in_s: float) -> None:
        """The kubelet counts it no more, and its containers have still to be stopped."""
        pod.is_active = False
        self.loop.call_later(stops_in_s, self.end_pod, pod)

    def is_known(self, pod: Pod) -> bool:
        """Whether the plugin can see if the pod runs: it has written down whose the devices are."""
        if not self._sees_cgroups or self._process is None or not self._process.serves:
            return False
        uses = [use for use in self._process.release.ledger.uses() if not pod.units.isdisjoint(use.units)]
        return all(use.pod == pod.uid for use in uses)

    def _cgroup(self, pod: Pod) -> Path:
        """Its container's."""
        return self._cgroups / f"pod{pod.uid}" / "container"

    def create_container(self, pod: Pod) -> None:
        if self.kubelet.is_up:
            self.kubelet.spawn(self.kubelet.create_next_container(pod))

    # --- the kubelet ------------------------------------------------------------------------------------------------

    def restart_kubelet(self, *, refuses: bool = False, is_lost: bool = False, down_s: float = 0.0) -> None:
        """It may refuse the pods that run, and it may begin without its checkpoint."""
        if self.kubelet.is_up:
            self.kubelet.stop()
        if is_lost:
            self.kubelet.lose_checkpoint()
        self.loop.run_for(down_s)
        if self.kubelet.is_up:
            return
        self.kubelet.start()
        if refuses:
            for pod in self.truth.pods.values():
                if pod.has_begun and pod.is_active:
                    pod.is_active = False
                    self.loop.call_later(STOPPING_S, self.end_pod, pod)
        if self._process is not None and self._process.serves:
            self._process.kubelet_is_up()
        for pod in self.truth.pods.values():
            if pod.is_active and not pod.has_begun:
                self.kubelet.spawn(self.kubelet.admit(pod))

    def reboot(self) -> None:
        """The power fails: what is not on the disk is lost, and no container runs."""
        self._life.cancel()
        if self.kubelet.is_up:
            self.kubelet.stop()
        process = self._process
        self.loop.run_until_complete(asyncio.wait([self._life]))
        if process is not None and process.journal.path.exists():
            with process.journal.path.open("r+b") as journal:
                journal.truncate(self.disk.synced)
        for pod in self.truth.pods.values():
            self.end_pod(pod)
        self.truth.rebooted(self.loop.time())
        self._boots += 1
        self.loop.run_for(10)
        self.kubelet.start()
        self._life = self.loop.create_task(self._processes())

    # --- in the end -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """All pods end, nothing goes wrong any more: every device is released."""
        self.paces.clear()
        self.kubelet.spoiled.clear()
        self.conduct.allocate_s = self.conduct.release_s = 0.0
        self.conduct.fails, self.conduct.refuses = 0, False
        self.disk.is_full = False
        self.downtime_s = PACE_S
        self.kill_at(None)
        if not self.kubelet.is_up:
            self.restart_kubelet()
        self.kubelet.is_ready = True
        self.loop.run_for(60)  # whatever runs comes to its end
        for pod in self.truth.pods.values():
            self.end_pod(pod)
        self.loop.run_for(FINALLY_S)
        self.check()
        left = [
            use for use in self.process.release.ledger.uses() if not self.truth.unproven.issuperset(use.units.values())
        ]
        assert not left, left
        assert self.truth.dirty <= self.truth.unproven, self.truth.dirty

    def check(self) -> None:
        """Nothing happened that must not."""
        assert not self.truth.wrong, self.truth.wrong
        troubles = [error for error in self.loop.troubles if not is_kill(error)]
        assert not troubles, troubles

    def close(self) -> None:
        self.loop.end()
        self._directory.cleanup()
