"""What an engine can is read from what it tells of itself."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import ContainerEngineUnusable, ContainerStartError, RpcCode, RpcFailed
from plugbay.model.cri import CgroupDriver, EngineStatus, EngineVersion, Image
from plugbay.model.security import Security
from plugbay.ops.clock import SystemClock
from plugbay.runtimes.cri.engine import absences, injects_cdi, open_engine
from plugbay.runtimes.cri.images import check_user, checked_name
from plugbay.wire.generated import cri_v1_pb2 as v1
from tests.container_specs import container_spec
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine


@pytest.mark.parametrize(
    ("name", "version", "config", "expected"),
    [
        pytest.param("containerd", "1.6.20", {"snapshotter": "overlayfs"}, False, id="containerd-1.6"),
        pytest.param("containerd", "1.7.24", {"enableCDI": False}, False, id="containerd-1.7-off"),
        pytest.param("containerd", "1.7.24", {"enableCDI": True}, True, id="containerd-1.7-on"),
        pytest.param("containerd", "v2.1.9", {"enableCDI": True}, True, id="containerd-2"),
        pytest.param("containerd", "v2.1.9", {"enableCDI": False}, False, id="containerd-2-off"),
        pytest.param("containerd", "2.3.0", {}, True, id="containerd-without-the-setting"),
        pytest.param("cri-o", "1.22.1", None, False, id="old-cri-o"),
        pytest.param("cri-o", "1.30.0", None, True, id="cri-o"),
        pytest.param("cri-o", "main", None, False, id="cri-o-of-no-version"),
        pytest.param("other", "9.9.9", [], False, id="unknown"),
    ],
)
def test_who_knows_cdi(name: str, version: str, config: object, expected: bool) -> None:
    status = EngineStatus({}, "" if config is None else json.dumps(config))
    assert injects_cdi(EngineVersion(name, version), status) is expected


SYSTEMD = {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": True}}}}}


@pytest.mark.parametrize(
    ("name", "answer", "config", "expected"),
    [
        pytest.param("containerd", None, {}, CgroupDriver.CGROUPFS, id="containerd-1.6"),
        pytest.param("containerd", None, SYSTEMD, CgroupDriver.SYSTEMD, id="containerd-1.6-with-systemd"),
        pytest.param("cri-o", None, None, CgroupDriver.SYSTEMD, id="cri-o-1.27"),
        pytest.param("containerd", v1.SYSTEMD, {}, CgroupDriver.SYSTEMD, id="it-says-systemd"),
        pytest.param("cri-o", v1.CGROUPFS, None, CgroupDriver.CGROUPFS, id="it-says-cgroupfs"),
        pytest.param("containerd", "nothing", SYSTEMD, CgroupDriver.SYSTEMD, id="it-says-nothing-of-linux"),
    ],
)
async def test_who_makes_control_groups(
    sockets: Path, name: str, answer: Any, config: object, expected: CgroupDriver
) -> None:
    """``answer`` is that to RuntimeConfig, None of an engine that does not know the call."""
    engine = ScriptedEngine(name)
    engine.config = config
    if answer is not None:
        engine.lacking.clear()
        engine.driver = None if answer == "nothing" else answer
    async with engine.serve(sockets / "cri"):
        client, traits = await open_engine(sockets / "cri", SystemClock())
        await client.close()
    assert traits.cgroup_driver is expected
    assert traits.version == EngineVersion(name, "1.6.20")


@pytest.mark.parametrize("code", [RpcCode.UNKNOWN, RpcCode.UNAVAILABLE])
async def test_an_engine_that_still_looks_around_is_waited_for(sockets: Path, code: RpcCode) -> None:
    engine = ScriptedEngine()
    engine.failures["Status"] = [RpcFailed(code, "server is not initialized yet"), None]
    async with engine.serve(sockets / "cri"):
        client, _ = await open_engine(sockets / "cri", SystemClock())
        await client.close()
    assert len(engine.asked("Status")) == 2


async def test_one_that_speaks_another_cri_is_refused(sockets: Path) -> None:
    engine = ScriptedEngine()
    engine.lacking |= {"Version"}
    async with engine.serve(sockets / "cri"):
        with pytest.raises(ContainerEngineUnusable, match=r"it has no CRI v1 .* code = Unimplemented"):
            await open_engine(sockets / "cri", SystemClock())


@pytest.mark.parametrize("image", ["", "a/B", "a b", "a:", "a//b", "a@sha256:short", "-a", "a/:1"])
def test_no_image_can_be_called_so(image: str) -> None:
    with pytest.raises(ContainerStartError) as caught:
        checked_name(image)
    assert caught.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    "image", ["a", "a/b_c/d-e:V1.2_x", "Example.COM:5000/a:1", "127.0.0.1:1/none:1", f"a@sha256:{'0' * 64}"]
)
def test_these_are_names_of_images(image: str) -> None:
    assert checked_name(image).startswith(image)


IMAGE_ROOT, IMAGE_USER, IMAGE_NAMED = Image("i"), Image("i", 1000), Image("i", None, "web")


@pytest.mark.parametrize(
    ("security", "image", "problem"),
    [
        pytest.param(Security(), IMAGE_ROOT, "", id="may-be-root"),
        pytest.param(Security(run_as_non_root=True), IMAGE_ROOT, "image will run as root", id="image-is-root"),
        pytest.param(Security(run_as_non_root=True), Image("i", 0), "image will run as root", id="image-says-root"),
        pytest.param(Security(run_as_non_root=True), IMAGE_USER, "", id="image-is-not"),
        pytest.param(Security(run_as_non_root=True), IMAGE_NAMED, "non-numeric user (web)", id="nobody-knows"),
        pytest.param(Security(run_as_non_root=True, run_as_user=7), IMAGE_NAMED, "", id="pod-says-who"),
        pytest.param(Security(run_as_non_root=True, run_as_user=0), IMAGE_USER, "breaks non-root", id="pod-says-root"),
    ],
)
def test_who_must_not_be_root_is_not(security: Security, image: Image, problem: str) -> None:
    spec = container_spec(image="i", security=security)
    if not problem:
        check_user(spec, image)
        return
    with pytest.raises(ContainerStartError, match=re.escape(problem)) as caught:
        check_user(spec, image)
    assert caught.value.reason == "CreateContainerConfigError"


async def test_an_engine_that_hangs_is_away_until_it_answers(sockets: Path) -> None:
    engine = ScriptedEngine()
    async with engine.serve(sockets / "cri.sock"):
        client, _ = await open_engine(sockets / "cri.sock", SystemClock())
        engine.held["Version"] = released = asyncio.Event()
        told = absences(client, SystemClock(), look_s=0.05, answer_s=0.3)
        assert await anext(told) == "it does not answer"
        del engine.held["Version"]
        released.set()
        assert await anext(told) == ""
        await client.close()


async def test_an_engine_that_ends_is_away_until_there_is_another(sockets: Path) -> None:
    engine = ScriptedEngine()
    async with engine.serve(sockets / "cri.sock"):
        client, _ = await open_engine(sockets / "cri.sock", SystemClock())
    told = absences(client, SystemClock())
    assert await anext(told) == "nothing answers at its socket"
    async with engine.serve(sockets / "cri.sock"):
        engine.failures["Version"] = [RpcFailed(RpcCode.UNAVAILABLE, "not yet")]
        assert await anext(told) == ""
        await client.close()
