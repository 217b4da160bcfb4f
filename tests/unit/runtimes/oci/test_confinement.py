"""What an engine is given for a container with CDI devices: the whole ``config.json``, without running it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay.cdi.convert import to_cdi
from plugbay.cdi.directories import save
from plugbay.cdi.spec import Spec, SpecDevice
from plugbay.cdi.text import Format
from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.runtimes.oci.confinement import Grounds, OciConfinement
from plugbay.runtimes.oci.engines import OciEngine
from plugbay.runtimes.oci.rootfs import HostView
from plugbay.runtimes.oci.rootless import FileOwner
from plugbay.runtimes.oci.shares import UNSHARED
from plugbay.runtimes.port import ContainerId, ContainerSpec
from tests.container_specs import changed, container_spec

SPEC = container_spec()
ENGINE = OciEngine("/usr/bin/runc", "runc 1.4.0", Path("/nowhere"), {}, oci_version=(1, 3))
GPU = "GPU-8f1c2a3b-0000-0000-0000-000000000001"

Launch = Callable[..., Any]


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    (tmp_path / "cdi").mkdir()
    (tmp_path / "root").mkdir()
    return tmp_path / "cdi"


@pytest.fixture
def config(cdi: Path) -> Launch:
    def launch(spec: ContainerSpec, *, engine: OciEngine = ENGINE, owner: FileOwner | None = None) -> Any:
        grounds = Grounds(HostView(cdi.parent / "root"), "p", (), (cdi,), shares_of=lambda pod: UNSHARED, owner=owner)
        made = OciConfinement(engine, grounds).launch(spec, ContainerId("u_c_0"), cdi, is_given_up=lambda: False)
        return json.loads(made.files["config.json"])

    return launch


def write(directory: Path, kind: str, devices: dict[str, Any], edits: dict[str, Any] | None = None) -> None:
    content = {
        "cdiVersion": "1.1.0",
        "kind": kind,
        "devices": [{"name": name, "containerEdits": each} for name, each in devices.items()],
        **({"containerEdits": edits} if edits else {}),
    }
    (directory / f"{kind.replace('/', '-')}.json").write_text(json.dumps(content))


def gopher(*names: str) -> ContainerSpec:
    return changed(SPEC, edits=ContainerEdits(cdi_devices=tuple(f"vendor.example/gopher={each}" for each in names)))


def test_every_kind_of_edit_stands_where_the_specification_has_it(cdi: Path, config: Launch) -> None:
    plain = config(SPEC)
    rdt = {"closID": "fast", "l3CacheSchema": "L3:0=f", "memBwSchema": "MB:0=70", "schemata": ["L2:0=3"]}
    hook = {"hookName": "startContainer", "path": "/bin/hook", "args": ["hook", "-x"], "env": ["A=b"], "timeout": 7}
    g0: dict[str, Any] = {
        "env": ["GOPHER=g0", "PATH=/gopher"],
        "deviceNodes": [{"path": "/dev/g0", "type": "c", "major": 1, "minor": 5, "fileMode": 384, "permissions": "r"}],
        "mounts": [{"hostPath": "/lib", "containerPath": "/run/lib", "type": "bind", "options": ["bind", "ro"]}],
        "hooks": [hook],
        "additionalGids": [0, 777],
        "intelRdt": rdt | {"enableMonitoring": True},
        "netDevices": [{"hostInterfaceName": "enp1s0f0v3", "name": "gopher0"}],
    }
    write(cdi, "vendor.example/gopher", {"g0": g0}, {"env": ["FILE=once"], "intelRdt": {"closID": "slow"}})
    after = config(gopher("g0"))
    linux = after["linux"]
    assert linux["netDevices"] == {"enp1s0f0v3": {"name": "gopher0"}}
    assert linux["intelRdt"] == rdt | {"enableMonitoring": True}, "the last one is the one"
    assert linux["devices"] == [{"path": "/dev/g0", "type": "c", "major": 1, "minor": 5, "fileMode": 384}]
    rules = plain["linux"]["resources"]["devices"]
    assert linux["resources"]["devices"] == [
        *rules,
        {"allow": True, "type": "c", "major": 1, "minor": 5, "access": "r"},
    ]
    assert after["hooks"] == {"startContainer": [{each: hook[each] for each in ("path", "args", "env", "timeout")}]}
    assert after["process"]["env"] == ["PATH=/gopher", "HOSTNAME=web", "FILE=once", "GOPHER=g0"]
    assert after["process"]["user"]["additionalGids"] == [777]
    mount = {"destination": "/run/lib", "source": "/lib", "type": "bind", "options": ["bind", "ro"]}
    assert [each for each in after["mounts"] if each not in plain["mounts"]] == [mount]
    depths = [each["destination"].count("/") for each in after["mounts"]]
    assert depths == sorted(depths)
    untouched = ("ociVersion", "root", "hostname", "annotations")
    assert {each: after[each] for each in untouched} == {each: plain[each] for each in untouched}


def test_network_device_that_the_engine_would_pass_over_is_refused(cdi: Path, config: Launch) -> None:
    write(cdi, "vendor.example/gopher", {"g0": {"netDevices": [{"hostInterfaceName": "eth7", "name": "g"}]}})
    old = replace(ENGINE, version="runc 1.1.5", oci_version=(1, 0))
    with pytest.raises(ContainerStartError, match=r"runc 1\.1\.5 cannot move the network device eth7 .* knows 1\.0$"):
        config(gopher("g0"), engine=old)


def test_without_root_rights_cdi_devices_are_shown_from_where_they_are(cdi: Path, config: Launch) -> None:
    write(cdi, "vendor.example/gopher", {"g0": {"deviceNodes": [{"path": "/dev/g0", "hostPath": "/dev/null"}]}})
    mounts = config(gopher("g0"), owner=FileOwner(1000, 1000))["mounts"]
    (shown,) = (each for each in mounts if each["destination"] == "/dev/g0")
    assert (shown["type"], shown["source"]) == ("bind", "/dev/null")


# --- the handler nvidia --------------------------------------------------------------------------------------------


def node(number: int) -> dict[str, Any]:
    return {"path": f"/dev/nvidia{number}", "type": "c", "major": 195, "minor": number}


@pytest.fixture
def gpus(cdi: Path) -> None:
    one, other = ({"deviceNodes": [node(number)]} for number in (0, 1))
    write(cdi, "nvidia.com/gpu", {"0": one, "1": other, GPU: other}, {"env": ["DRIVER=there"]})


def seen(config: Launch, spec: ContainerSpec) -> tuple[list[str], bool]:
    made = config(changed(spec, runtime_class="nvidia"))
    nodes = [each["path"] for each in made["linux"]["devices"]]
    return nodes, "DRIVER=there" in made["process"]["env"]


def with_variable(value: str | None, **changes: Any) -> ContainerSpec:
    return changed(SPEC, env={} if value is None else {"NVIDIA_VISIBLE_DEVICES": value}, **changes)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("value", [None, "", "void", "none"])
def test_container_that_names_no_devices_runs_untouched(config: Launch, value: str | None) -> None:
    spec = with_variable(value)
    assert config(changed(spec, runtime_class="nvidia")) == config(spec)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("value", "nodes"),
    [
        ("0", ["/dev/nvidia0"]),
        ("1,0", ["/dev/nvidia1", "/dev/nvidia0"]),
        ("0,,0,", ["/dev/nvidia0"]),
        (GPU, ["/dev/nvidia1"]),
        ("nvidia.com/gpu=0", ["/dev/nvidia0"]),
        ("all", ["/dev/nvidia0", "/dev/nvidia1"]),
    ],
)
def test_devices_come_with_the_drivers_files(config: Launch, value: str, nodes: list[str]) -> None:
    """``all`` stands for every device where the spec defines none of that name."""
    assert seen(config, with_variable(value)) == (nodes, True)


def test_what_a_spec_calls_all_is_all(cdi: Path, config: Launch) -> None:
    write(cdi, "nvidia.com/gpu", {"0": {"deviceNodes": [node(0)]}, "all": {"deviceNodes": [node(9)]}})
    assert seen(config, with_variable("all"))[0] == ["/dev/nvidia9"]


@pytest.mark.usefixtures("gpus")
def test_devices_may_be_named_by_mounts(config: Launch) -> None:
    at = "/var/run/nvidia-container-devices"
    mounts = tuple(Mount("/dev/null", container_path=f"{at}/{name}") for name in (GPU, "0"))
    spec = with_variable(at, edits=ContainerEdits(mounts=(*mounts, Mount("/dev/null", container_path="/elsewhere/1"))))
    assert sorted(seen(config, spec)[0]) == ["/dev/nvidia0", "/dev/nvidia1"]
    assert seen(config, with_variable(at)) == ([], False)


@pytest.mark.usefixtures("gpus")
def test_devices_that_a_plugin_gave_through_cdi_are_not_asked_for_again(cdi: Path, config: Launch) -> None:
    """Their spec says so by the variable: other names than the handler's own may mean them."""
    write(cdi, "plugin.example/gpu", {"g": {"deviceNodes": [node(5)]}}, {"env": ["NVIDIA_VISIBLE_DEVICES=void"]})
    spec = with_variable("unknown-here", edits=ContainerEdits(cdi_devices=("plugin.example/gpu=g",)))
    assert seen(config, spec) == (["/dev/nvidia5"], False)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("7", r"failed to inject CDI devices: unresolvable CDI devices nvidia\.com/gpu=7 \(looked in .*\)$"),
        ("0,GPU-x,9", r"unresolvable CDI devices nvidia\.com/gpu=GPU-x, nvidia\.com/gpu=9 \("),
        ("other.example/gpu=0", r"unresolvable CDI devices other.example/gpu=0 \("),
        ("no way", "no way"),
    ],
)
def test_unknown_device_fails_the_start(config: Launch, value: str, problem: str) -> None:
    with pytest.raises(ContainerStartError, match=problem) as caught:
        config(changed(with_variable(value), runtime_class="nvidia"))
    assert caught.value.reason == "StartError"


def test_without_any_spec_all_is_unknown(config: Launch) -> None:
    with pytest.raises(ContainerStartError, match=r"unresolvable CDI devices nvidia\.com/gpu=all"):
        config(changed(with_variable("all"), runtime_class="nvidia"))


@pytest.mark.parametrize("form", Format)
def test_generated_spec_serves_as_well_as_a_written_one(cdi: Path, config: Launch, form: Format) -> None:
    edits = to_cdi(
        ContainerEdits(env={"DRIVER": "there"}, device_nodes=(DeviceNode("/dev/null", container_path="/dev/nvidia3"),))
    )
    save(Spec("0.5.0", "nvidia.com/gpu", devices=(SpecDevice(GPU, edits=edits),)), cdi, "nvidia.com-gpu", form=form)
    for value in (GPU, "all"):
        assert seen(config, with_variable(value)) == (["/dev/nvidia3"], True)
