from __future__ import annotations

import pytest

from plugbay.plugins.nvidia.nvml.placement import MigPlacement, placement_in

GPU = "GPU-b8ea3855-276c-c9cb-b366-c6fa655957c5"


@pytest.mark.parametrize(
    ("uuid", "placement"),
    [
        (f"MIG-{GPU}/3/0", MigPlacement(GPU, 3, 0)),
        ("MIG-b8ea3855-276c-c9cb-b366-c6fa655957c5", None),
        (GPU, None),
        (f"MIG-{GPU}/3", None),
        (f"MIG-{GPU}/a/b", None),
        (f"MIG-{GPU}/3/-1", None),
        (f"{GPU}/3/0", None),
        ("", None),
    ],
)
def test_scenario_101_legacy_uuids_tell_the_place_of_a_mig_device(uuid: str, placement: MigPlacement | None) -> None:
    assert placement_in(uuid) == placement
