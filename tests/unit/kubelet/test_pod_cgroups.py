"""Which pods have containers, by trees of control groups as kubelets make them."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plugbay.kubelet.pod_cgroups import PodCgroups
from plugbay.model.ids import PodUid

POD = PodUid("6f0e9d5c-0f0a-4c57-8d2a-2b6c1c9a7e11")
STATIC = PodUid("91e0fa8d5874e673d82bc04e33222e19")
WORDS = POD.replace("-", "_")

PLACES = [
    f"kubepods/pod{POD}",
    f"kubepods/burstable/pod{POD}",
    f"own/kubepods/besteffort/pod{POD}",
    f"kubepods.slice/kubepods-pod{WORDS}.slice",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{WORDS}.slice",
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{WORDS}.slice",
]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(
        f"30 29 0:26 / /proc rw - proc proc rw\n31 29 0:27 / {tmp_path}/top rw,relatime - cgroup2 cgroup2 rw\n"
    )
    (tmp_path / "top/system.slice/kubelet.service").mkdir(parents=True)
    return tmp_path / "top"


@pytest.fixture
def cgroups(top: Path) -> PodCgroups:
    return PodCgroups(proc_root=top.parent)


@pytest.mark.parametrize("place", PLACES)
def test_a_populated_cgroup_tells_of_containers(top: Path, cgroups: PodCgroups, place: str) -> None:
    (top / place / "cri-1").mkdir(parents=True)
    events = top / place / "cgroup.events"
    events.write_text("populated 1\nfrozen 0\n")
    assert cgroups.with_containers([POD, STATIC]) == {POD}
    events.write_text("populated 0\nfrozen 0\n")
    assert cgroups.with_containers([POD]) == frozenset()


@pytest.mark.parametrize("place", PLACES)
def test_in_version_1_a_container_has_a_cgroup_as_long_as_it_runs(top: Path, cgroups: PodCgroups, place: str) -> None:
    container = top / place / "0a1b"
    container.mkdir(parents=True)
    (top / place / "cgroup.procs").touch()
    assert cgroups.with_containers([POD]) == {POD}
    container.rmdir()
    assert cgroups.with_containers([POD]) == frozenset()


def test_uids_of_static_pods_have_no_hyphens(top: Path, cgroups: PodCgroups) -> None:
    (top / f"kubepods/besteffort/pod{STATIC}/0a1b").mkdir(parents=True)
    assert cgroups.with_containers([POD, STATIC]) == {STATIC}


def test_units_of_systemd_are_not_searched(top: Path, cgroups: PodCgroups) -> None:
    (top / f"system.slice/a.service/kubepods/pod{POD}/0a1b").mkdir(parents=True)
    assert cgroups.with_containers([POD]) == frozenset()


def test_where_the_kubelet_makes_no_cgroups_nothing_is_seen(cgroups: PodCgroups) -> None:
    assert cgroups.with_containers([POD]) == frozenset()


def test_no_proc_file_system_is_nothing_seen(tmp_path: Path) -> None:
    assert PodCgroups(proc_root=tmp_path).with_containers([POD]) == frozenset()


@contextmanager
def without_descriptors() -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_pods_that_cannot_be_looked_at_are_taken_to_have_containers(top: Path, cgroups: PodCgroups) -> None:
    """Else devices would be released in use; and they are looked for again."""
    (top / PLACES[0] / "cri-1").mkdir(parents=True)
    for _ in range(2):
        with without_descriptors():
            assert cgroups.with_containers([POD, STATIC]) == {POD, STATIC}
            assert cgroups.with_containers([]) == frozenset()
        assert cgroups.with_containers([POD, STATIC]) == {POD}
