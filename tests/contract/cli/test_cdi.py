"""``plugbay cdi``, as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from plugbay.model.ids import DeviceId
from plugbay.sdk.cdi.entries import entry_name
from tests.contract.conftest import Plugbay

SPEC = """
cdiVersion: 0.5.0
kind: vendor.example/gopher
containerEdits: {env: [BURROW=1]}
devices:
- name: g0
  containerEdits: {env: [GOPHER=g0], deviceNodes: [{path: /dev/gopher0, hostPath: /dev/null, permissions: rw}]}
- name: g1
  containerEdits: {env: [GOPHER=g1]}
"""
PLUGIN = """
from plugbay import Device, DeviceNode, Mount, plugin

@plugin("vendor.example/gopher")
def gophers():
    yield Device("g0", env={"A": "1"}, device_nodes=[DeviceNode("/dev/null", container_path="/dev/g0")])
    yield Device("1", mounts=[Mount("/usr/lib", container_path="/opt/g", read_only=True)])
"""
ODD_PLUGIN = """
from plugbay import Device, plugin

@plugin("vendor.example/gopher")
def gophers():
    yield Device("usb 1/2", env={"A": "1"})
    yield Device("bare")
    yield Device("noted", env={"A": "1"}, annotations={"a": "b"})
    yield Device("g0", env={"A": "1"})
"""
BARE_PLUGIN = """
from plugbay import Device, plugin

@plugin("vendor.example/gopher")
def gophers():
    yield Device("bare")
"""


@pytest.fixture
def specs(sockets: Path) -> Path:
    (sockets / "cdi").mkdir()
    (sockets / "cdi" / "gopher.yaml").write_text(SPEC)
    return sockets / "cdi"


async def test_devices_are_listed_and_bad_files_named(plugbay: Plugbay, specs: Path) -> None:
    (specs / "bad.json").write_text("{")
    done = await plugbay("cdi", "list", "--spec-dir", str(specs))
    assert done.code == 0
    assert done.rows == [
        ["vendor.example/gopher=g0", "0.5.0", str(specs / "gopher.yaml")],
        ["vendor.example/gopher=g1", "0.5.0", str(specs / "gopher.yaml")],
    ]
    assert done.err.startswith(f"warning: {specs / 'bad.json'}: line 1: not valid YAML")
    done = await plugbay("cdi", "list", "--spec-dir", str(specs), "-o", "name")
    assert done.out == "vendor.example/gopher=g0\nvendor.example/gopher=g1\n"
    done = await plugbay("cdi", "list", "--spec-dir", str(specs / "missing"))
    assert (done.code, done.out, done.err) == (0, "", "No CDI devices found.\n")


async def test_the_edits_of_devices_are_shown(plugbay: Plugbay, specs: Path) -> None:
    names = ("vendor.example/gopher=g1", "vendor.example/gopher=g0")
    done = await plugbay("cdi", "show", *names, "--spec-dir", str(specs), "-o", "json")
    assert json.loads(done.out) == {
        "env": ["BURROW=1", "GOPHER=g1", "GOPHER=g0"],
        "deviceNodes": [{"path": "/dev/gopher0", "hostPath": "/dev/null", "permissions": "rw"}],
    }


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("vendor.example/gopher=g9", "unresolvable CDI devices vendor.example/gopher=g9 (looked in {specs})"),
        ("g0", 'invalid CDI device "g0": it is unqualified: vendor/class=name is wanted, the vendor is missing'),
    ],
)
async def test_an_unknown_device_is_named(plugbay: Plugbay, specs: Path, name: str, problem: str) -> None:
    done = await plugbay("cdi", "show", name, "--spec-dir", str(specs))
    assert (done.code, done.out, done.err) == (1, "", f"plugbay: error: {problem.format(specs=specs)}\n")


async def test_files_are_validated(plugbay: Plugbay, specs: Path) -> None:
    good = str(specs / "gopher.yaml")
    (specs / "old.yaml").write_text(SPEC.replace("0.5.0", "0.4.0"))
    done = await plugbay("cdi", "validate", good, str(specs / "old.yaml"), str(specs / "none.yaml"))
    assert (done.code, done.out) == (1, f"{good}: valid\n")
    assert "the spec version must be at least v0.5.0" in done.err
    assert f"{specs / 'none.yaml'}: cannot be read: No such file or directory" in done.err


async def test_directories_are_validated_as_a_whole(plugbay: Plugbay, specs: Path) -> None:
    done = await plugbay("cdi", "validate", "--spec-dir", str(specs))
    assert (done.code, done.out, done.err) == (0, f"{specs / 'gopher.yaml'}: valid\n", "")
    (specs / "twin.yaml").write_text(SPEC)
    done = await plugbay("cdi", "validate", "--spec-dir", str(specs))
    assert (done.code, done.out) == (1, "")
    assert done.err.count('conflicting device "vendor.example/gopher=g0"') == 2


async def test_a_runtime_spec_is_injected(plugbay: Plugbay, specs: Path) -> None:
    config = specs.parent / "config.json"
    config.write_text(json.dumps({"ociVersion": "1.0.2", "process": {"env": ["GOPHER=none"]}}))
    done = await plugbay("cdi", "inject", str(config), "vendor.example/gopher=g0", "--spec-dir", str(specs))
    made = json.loads(done.out)
    assert made["process"]["env"] == ["GOPHER=g0", "BURROW=1"]
    assert made["linux"]["resources"]["devices"] == [
        {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1, column 2 is not JSON"),
        ("[]", "is not an OCI runtime spec"),
        ("[" * 100_000, "the input is nested too deep"),
        ("\N{GREEK SMALL LETTER ALPHA}", "is not JSON"),
    ],
)
async def test_a_bad_runtime_spec_is_refused(plugbay: Plugbay, specs: Path, text: str, problem: str) -> None:
    config = specs.parent / "config.json"
    config.write_text(text)
    done = await plugbay("cdi", "inject", str(config), "vendor.example/gopher=g0", "--spec-dir", str(specs))
    assert (done.code, done.out) == (1, "")
    assert problem in done.err
    assert done.err.count("\n") == 1


async def test_a_spec_is_generated_from_what_a_plugin_finds(plugbay: Plugbay, sockets: Path) -> None:
    plugin = sockets / "gophers.py"
    plugin.write_text(PLUGIN)
    done = await plugbay("cdi", "generate", "--kind", "vendor.example/gopher", str(plugin))
    assert (done.code, done.err) == (0, "")
    null = Path("/dev/null").stat()
    owned = {"fileMode": null.st_mode & 0o7777, "uid": null.st_uid, "gid": null.st_gid}
    assert yaml.safe_load(done.out) == {
        "cdiVersion": "0.5.0",
        "kind": "vendor.example/gopher",
        "devices": [
            {
                "name": "1",
                "containerEdits": {
                    "mounts": [
                        {
                            "hostPath": "/usr/lib",
                            "containerPath": "/opt/g",
                            "options": ["ro", "nosuid", "nodev", "rbind"],
                        }
                    ]
                },
            },
            {
                "name": "g0",
                "containerEdits": {
                    "env": ["A=1"],
                    "deviceNodes": [{"path": "/dev/g0", "hostPath": "/dev/null", "permissions": "rw", **owned}],
                },
            },
        ],
    }
    arguments = ("--kind", "vendor.example/gopher", str(plugin), "--write", str(sockets / "cdi"), "-o", "json")
    done = await plugbay("cdi", "generate", *arguments)
    assert done.out == f"{sockets / 'cdi' / 'vendor.example-gopher.json'}\n"
    done = await plugbay("cdi", "list", "--spec-dir", str(sockets / "cdi"), "-o", "name")
    assert done.out == "vendor.example/gopher=1\nvendor.example/gopher=g0\n"


async def test_devices_are_generated_under_the_names_of_the_plugins_own_spec(plugbay: Plugbay, sockets: Path) -> None:
    """Those that CDI cannot express are named, and are no reason to have none of the others."""
    plugin = sockets / "gophers.py"
    plugin.write_text(ODD_PLUGIN)
    done = await plugbay("cdi", "generate", "--kind", "vendor.example/gopher", str(plugin))
    assert done.code == 1
    assert [each["name"] for each in yaml.safe_load(done.out)["devices"]] == ["g0", entry_name(DeviceId("usb 1/2"))]
    assert done.err.splitlines() == [
        "plugbay: error: device bare: a CDI device needs variables, mounts or device nodes, and it has none",
        "plugbay: error: device noted: a CDI spec cannot hold the annotation a",
    ]
    arguments = ("--kind", "vendor.example/gopher", str(plugin), "--write", str(sockets / "cdi"))
    done = await plugbay("cdi", "generate", *arguments)
    assert (done.code, done.out) == (1, f"{sockets / 'cdi' / 'vendor.example-gopher.yaml'}\n")
    assert (await plugbay("cdi", "validate", "--spec-dir", str(sockets / "cdi"))).code == 0


async def test_no_spec_is_generated_where_no_device_can_be_expressed(plugbay: Plugbay, sockets: Path) -> None:
    (sockets / "gophers.py").write_text(BARE_PLUGIN)
    arguments = ("--kind", "vendor.example/gopher", str(sockets / "gophers.py"), "--write", str(sockets / "cdi"))
    done = await plugbay("cdi", "generate", *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "plugbay: error: device bare: a CDI device needs variables, mounts or device nodes, and it has none\n"
    )
    assert not (sockets / "cdi").exists()


async def test_missing_options_are_those_of_the_command_that_was_typed(plugbay: Plugbay) -> None:
    done = await plugbay("cdi", "generate", "--kind", "example.com/gopher", "directory", "--resource", "example.com/g")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("plugbay: error: `cdi generate directory` needs --path, --env\n")


async def test_a_bad_kind_is_refused(plugbay: Plugbay, sockets: Path) -> None:
    (sockets / "gophers.py").write_text(PLUGIN)
    done = await plugbay("cdi", "generate", "--kind", "gopher", str(sockets / "gophers.py"))
    assert (done.code, done.err) == (1, 'plugbay: error: invalid CDI kind "gopher": it has to be vendor/class\n')
