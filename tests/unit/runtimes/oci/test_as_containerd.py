"""What the devices of a pod decide in its OCI spec, against what containerd made of the same pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from plugbay.cdi.inject import OciSpec
from plugbay.model.ids import ContainerName, PodUid
from plugbay.runtimes.devices import find_devices
from plugbay.runtimes.oci.engines import OciEngine
from plugbay.runtimes.oci.handlers import OciHandler
from plugbay.runtimes.oci.injection import inject_cdi
from plugbay.runtimes.oci.spec import ContainerSurroundings, oci_spec
from tests.container_specs import container_spec
from tests.unit.runtimes.oci.containerd_specs import (
    FROM_HOST,
    POD_ENV,
    decided,
    edits,
    recorded,
    without_host_mode,
    write_cdi,
)

ENGINE: Final = OciEngine("runc", "runc 1.1.5", Path("/nowhere"), {})
POD: Final = PodUid("u")

pytestmark = pytest.mark.skipif(os.stat("/dev/full").st_uid != 0, reason="the host's devices are another user's here")


@pytest.fixture
def made(tmp_path: Path) -> OciSpec:
    """Ours, of the pod that was recorded."""
    write_cdi(tmp_path / "cdi", base=str(tmp_path))
    given = edits(str(tmp_path))
    spec = container_spec(uid=POD, pod="gets", name=ContainerName("main"), env=POD_ENV, edits=given)
    env = {**given.env, **POD_ENV}
    config = oci_spec(
        spec,
        env=env,
        around=ContainerSurroundings("rootfs"),
        devices=find_devices(given.device_nodes, is_given_up=lambda: False),
    )
    directories = (tmp_path / "cdi",)
    injected = inject_cdi(config, spec, handler=OciHandler.PLAIN, engine=ENGINE, directories=directories)
    return decided(injected.config, base=str(tmp_path))


def test_devices_give_what_containerd_was_seen_to_give(made: OciSpec) -> None:
    assert without_host_mode(made) == recorded()


def test_node_without_a_mode_has_the_hosts_which_containerd_leaves_to_the_engine(made: OciSpec) -> None:
    """A difference on purpose, named in ``docs/differences.md``."""
    (ours,) = (each for each in made["devices"] if each["path"] == FROM_HOST)
    (theirs,) = (each for each in recorded()["devices"] if each["path"] == FROM_HOST)
    assert ours == theirs | {"fileMode": os.stat("/dev/zero").st_mode & 0o7777}
