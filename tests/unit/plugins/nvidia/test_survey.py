from __future__ import annotations

import pytest

from plugbay.plugins.nvidia.survey import (
    Fabric,
    GpuUuid,
    LinkMatrix,
    MigMinors,
    MigProfile,
    P2PLevel,
    architecture_of,
    normalise_bus_id,
)

A100_BYTES = 42505273344


@pytest.mark.parametrize(
    ("gpu_profile", "compute_profile", "memory_mib", "name"),
    [
        (0, 0, 4864, "1g.5gb"),
        (1, 1, 9856, "2g.10gb"),
        (2, 2, 19968, "3g.20gb"),
        (3, 3, 19968, "4g.20gb"),
        (4, 4, 40192, "7g.40gb"),
        (7, 0, 4864, "1g.5gb+me"),
        (7, 7, 4864, "1g.5gb+me"),
        (9, 0, 9856, "1g.10gb"),
        (2, 0, 19968, "1c.3g.20gb"),
        (10, 0, 4864, "1g.5gb+gfx"),
        (13, 0, 4864, "1g.5gb-me"),
        (15, 0, 4864, "1g.5gb+me.all"),
        (17, 2, 19968, "3g.20gb+gfx"),
    ],
)
def test_mig_profiles_have_the_names_of_the_reference(
    gpu_profile: int, compute_profile: int, memory_mib: int, name: str
) -> None:
    profile = MigProfile.of_device(
        gpu_instance_profile=gpu_profile,
        compute_instance_profile=compute_profile,
        memory_mib=memory_mib,
        gpu_memory_bytes=A100_BYTES,
    )
    assert str(profile) == name
    assert profile.is_split == ("c." in name)


def test_a_profile_of_a_gpu_without_known_memory_has_no_gb() -> None:
    profile = MigProfile.of_gpu_instance(gpu_instance_profile=0, memory_mib=4864, gpu_memory_bytes=0)
    assert str(profile) == "1g.0gb"


def test_profiles_that_nvml_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="18 is not the index of a GPU instance profile"):
        MigProfile.of_gpu_instance(gpu_instance_profile=18, memory_mib=1, gpu_memory_bytes=A100_BYTES)
    with pytest.raises(ValueError, match="9 is not the index of a compute instance profile"):
        MigProfile.of_device(
            gpu_instance_profile=0, compute_instance_profile=9, memory_mib=1, gpu_memory_bytes=A100_BYTES
        )


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 6), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((10, 3), "blackwell"),
        ((12, 0), "blackwell"),
        ((13, 0), "rubin"),
        ((4, 0), "undefined"),
    ],
)
def test_architectures(capability: tuple[int, int], family: str) -> None:
    assert architecture_of(capability) == family


@pytest.mark.parametrize(
    ("told", "normal"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("0000:af:00.0", "0000:af:00.0"), ("00010000:01:00.0", "00010000:01:00.0")],
)
def test_bus_ids_are_written_as_sysfs_writes_them(told: str, normal: str) -> None:
    assert normalise_bus_id(told) == normal


def test_minors_of_mig_instances_are_read() -> None:
    minors = MigMinors.parse(
        "config 1\nmonitor 2\ngpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\nodd\ngpu1/gi0/access x\n"
    )
    assert minors == MigMinors({(0, 7): 66}, {(0, 7, 0): 67}, 1, 2)


def test_links_are_seen_from_the_first_gpu() -> None:
    one, other = GpuUuid("GPU-a"), GpuUuid("GPU-b")
    links = LinkMatrix((one, other), ((None, P2PLevel.NODE), (P2PLevel.NODE, None)), ((0, 4), (2, 0)))
    assert (links.nvlink_count(one, other), links.nvlink_count(other, one)) == (4, 2)
    assert links.level(one, other) is P2PLevel.NODE
    assert (links.level(one, GpuUuid("GPU-c")), links.nvlink_count(GpuUuid("GPU-c"), one)) == (None, 0)


def test_matrices_fit_their_gpus() -> None:
    with pytest.raises(ValueError, match="does not fit 1 GPUs"):
        LinkMatrix((GpuUuid("GPU-a"),), (), ())


def test_a_fabric_is_attached_when_it_is_complete_without_error() -> None:
    assert Fabric("6f3a0000-0000-0000-0000-000000000000", 1, 3, 0).is_attached
    assert not Fabric("00000000-0000-0000-0000-000000000000", 1, 3, 0).is_attached
    assert not Fabric("6f3a0000-0000-0000-0000-000000000000", 1, 2, 0).is_attached
