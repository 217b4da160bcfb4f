from __future__ import annotations

import pytest

from plugbay.model.sharing import physical_id, replica_id


@pytest.mark.parametrize("device", ["gpu0", "gpu::x", "::0", "a::1"])
def test_replica_names_its_device(device: str) -> None:
    assert physical_id(replica_id(device, 12)) == device


@pytest.mark.parametrize("device", ["gpu0", "gpu::x", "gpu::", "gpu:0"])
def test_device_without_replicas_is_its_own(device: str) -> None:
    assert physical_id(device) == device
