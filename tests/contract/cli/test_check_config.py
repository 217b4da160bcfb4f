"""``plugbay check`` of configs of the generic plugin, and the presets and the schema that lead to such."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.conftest import Done

DEADLINE_S = 30
GOOD = """\
domain: example.com
devices:
  - name: tty
    groups:
      - paths: [{path: "/dev/ttyUSB*", mountPath: /dev/serial/}, {path: /dev/control, limit: 9, optional: true}]
  - name: shared
    paths: [{path: /dev/one}]
    count: 3
"""


async def plugbay(directory: Path, *words: str, environ: Mapping[str, str] | None = None) -> Done:
    pipe = asyncio.subprocess.PIPE
    argv = (sys.executable, "-m", "plugbay", *words)
    variables = {**os.environ, **(environ or {})}
    process = await asyncio.create_subprocess_exec(*argv, cwd=directory, stdout=pipe, stderr=pipe, env=variables)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    return Done(process.returncode or 0, out.decode(), err.decode())


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine whose device nodes are files."""
    for name in ("ttyUSB0", "ttyUSB1", "one"):
        path = tmp_path / "machine/dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "machine/sys").mkdir()
    return tmp_path / "machine"


async def test_a_good_config_shows_what_it_matches_with_the_ids(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"compat: anyFile\n{GOOD}")
    done = await plugbay(tmp_path, "check", "c.yaml", "--machine-root", str(machine))
    assert done == (
        0,
        "RESOURCE             UNITS   ID                                                    GIVES\n"
        "example.com/shared   3       d07749feb3247ad4bdba09ce2d885b96ccf2a39a and 2 more   /dev/one\n"
        "example.com/tty      1       244c4eb967dd5fcfdc3d774106a9b1a20992aa12              "
        "/dev/ttyUSB0 as /dev/serial/ttyUSB0\n"
        "example.com/tty      1       3ad960f592ac6c2e3cf7bbaa81d0c0c01af40060              "
        "/dev/ttyUSB1 as /dev/serial/ttyUSB1\n",
        "",
    )


async def test_a_config_that_matches_nothing_says_so(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "c.toml").write_text('domain = "example.com"\n[[devices]]\nname = "x"\npaths = ["/dev/nothing*"]\n')
    done = await plugbay(tmp_path, "check", "c.toml", "--machine-root", str(machine))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split(maxsplit=2) == ["example.com/x", "0", "nothing matches now"]


async def test_a_resource_whose_devices_another_gives_is_not_said_to_match_nothing(
    tmp_path: Path, machine: Path
) -> None:
    two = 'domain: a.b\ncompat: anyFile\ndevices: [{name: one, paths: [/dev/one]}, {name: two, paths: ["/dev/on?"]}]\n'
    (tmp_path / "c.yaml").write_text(two)
    done = await plugbay(tmp_path, "check", "c.yaml", "--machine-root", str(machine))
    assert done.out.splitlines()[2].split(maxsplit=2) == ["a.b/two", "0", "nothing now; the note says why"]
    assert done.err.startswith("note: a.b/two: /dev/one: the entry 'one', line 3 gives this already")


async def test_of_several_files_each_has_its_name_above_what_it_matches(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "a.yaml").write_text("domain: a.b\ndevices: [{name: seats, tokens: 1}]\n")
    (tmp_path / "b.yaml").write_text("domain: a.b\ndevices: [{name: one, paths: [/dev/one]}]\n")
    done = await plugbay(tmp_path, "check", "a.yaml", "b.yaml", "--machine-root", str(machine))
    assert [line.split()[0] for line in done.out.splitlines()] == [
        *("a.yaml:", "RESOURCE", "a.b/seats"),
        *("b.yaml:", "RESOURCE", "a.b/one"),
    ]
    assert done.err.startswith("note: b.yaml: a.b/one: /dev/one matches '/dev/one' and is not a device node")


async def test_a_unit_of_which_no_device_can_be_made_is_not_shown_as_offered(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "domain: a.b\ncompat: anyFile\ndevices:\n"
        '- {name: one, paths: [/dev/one], count: 3, mounts: [{hostPath: "/x/{serial}", containerPath: /y}]}\n'
        '- {name: tty, paths: [/dev/ttyUSB0], mounts: [{hostPath: "{hostPath}.d", containerPath: "/z{hostPath}"}]}\n'
    )
    done = await plugbay(tmp_path, "check", "c.yaml", "--machine-root", str(machine))
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [["a.b/one", "0"], ["a.b/tty", "1"]]
    (note,) = done.err.splitlines()
    assert note.startswith("note: a.b/one: not offered: device ")
    assert note.endswith("/x/{serial}: the device has no serial")


async def test_every_problem_has_its_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD.replace("limit: 9", "limt: 9").replace("count: 3", "count: three"))
    wrong = (
        'c.yaml:5:87: devices[0].groups[0].paths[1].limt: is not a known field; did you mean "limit"?\n'
        "c.yaml:8:12: devices[1].count: wants a whole number from 0 to 100000, without quotes, found the text 'three'\n"
    )
    assert await plugbay(tmp_path, "check", "c.yaml") == (1, wrong, "")
    done = await plugbay(tmp_path, "check", "c.yaml", "-o", "json")
    (document,) = json.loads(done.out)
    assert (done.code, document["file"]) == (1, "c.yaml")
    assert [(each["line"], each["column"], each["field"]) for each in document["errors"]] == [
        (5, 87, "devices[0].groups[0].paths[1].limt"),
        (8, 12, "devices[1].count"),
    ]


async def test_the_lenient_are_warned(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD.replace("limit: 9", "limt: 9"))
    done = await plugbay(tmp_path, "check", "c.yaml", "--lenient", "--machine-root", str(machine))
    assert done.code == 0
    assert done.err.splitlines()[0].startswith("warning: c.yaml:5:87: ")


async def test_programs_get_units_by_resource(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"compat: [anyFile]\n{GOOD}")
    done = await plugbay(tmp_path, "check", "c.yaml", "-o", "json", "--machine-root", str(machine))
    (document,) = json.loads(done.out)
    assert [(each["copy"], each["nodes"]) for each in document["resources"]["example.com/tty"]] == [
        (0, ["/dev/ttyUSB0"]),
        (0, ["/dev/ttyUSB1"]),
    ]
    assert sorted(each["copy"] for each in document["resources"]["example.com/shared"]) == [0, 1, 2]
    ids = {each["id"] for units in document["resources"].values() for each in units}
    assert "244c4eb967dd5fcfdc3d774106a9b1a20992aa12" in ids  # 0/dev/ttyUSB0


async def test_rules_are_explained_for_a_device(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"compat: [anyFile]\n{GOOD}")
    options = ("--explain", "/dev/one", "--machine-root", str(machine))
    done = await plugbay(tmp_path, "check", "c.yaml", *options)
    what, tty, shared = done.out.splitlines()
    assert (done.code, what) == (0, "/dev/one is not a device node.")
    assert tty == "c.yaml:6: tty: Its path is none of '/dev/ttyUSB*', '/dev/control'."
    assert shared.startswith("c.yaml:7: shared: It is given by example.com/shared as ")
    done = await plugbay(tmp_path, "check", "c.yaml", "-o", "json", *options)
    (document,) = json.loads(done.out)
    assert [(each["name"], len(each["ids"])) for each in document["explanation"]["rules"]] == [
        ("tty", 0),
        ("shared", 3),
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("c.yaml", "p.py"), "configs and Python files are checked by a command each"),
        (("p.py", "--lenient"), "--lenient is for configs of the generic plugin"),
        (("p.py", "--explain", "/dev/x"), "--explain is for configs of the generic plugin"),
    ],
)
async def test_misuse_is_told(tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    done = await plugbay(tmp_path, "check", *words)
    assert done.code == 2
    assert problem in done.err


@pytest.mark.parametrize("name", ["devices", "devices.conf", "devices.YAML"])
async def test_a_file_of_any_name_is_yaml_as_when_it_is_served(tmp_path: Path, machine: Path, name: str) -> None:
    (tmp_path / name).write_text("domain: a.b\ndevices: [{name: seats, tokens: 2}]\n")
    done = await plugbay(tmp_path, "check", name, "--machine-root", str(machine))
    assert (done.code, done.out.splitlines()[1].split()) == (0, "a.b/seats 2 token-0 and 1 more a token".split())
    (tmp_path / name).write_text("devices: [")
    done = await plugbay(tmp_path, "check", name)
    assert done.code == 1
    assert done.out.startswith(f"{name}:1:")
    assert "not valid YAML" in done.out


async def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert await plugbay(tmp_path, "check", "c.yaml") == (
        1,
        "",
        "plugbay: error: c.yaml: cannot be read: No such file or directory\n",
    )


async def test_presets_are_listed_and_printed_as_one_config(tmp_path: Path) -> None:
    listed = await plugbay(tmp_path, "presets")
    assert [line.split()[0] for line in listed.out.splitlines()][:3] == ["NAME", "kvm", "fuse"]
    printed = await plugbay(tmp_path, "presets", "kvm", "fuse")
    (tmp_path / "c.yaml").write_text(printed.out)
    checked = await plugbay(tmp_path, "check", "c.yaml", "-o", "json")
    (document,) = json.loads(checked.out)
    assert set(document["resources"]) == {"devices.example.com/kvm", "devices.example.com/fuse"}
    wrong = await plugbay(tmp_path, "presets", "fues")
    assert (wrong.code, wrong.err) == (2, 'plugbay: error: there is no preset "fues"; did you mean "fuse"?\n')


async def test_the_schema_is_printed_for_editors(tmp_path: Path) -> None:
    done = await plugbay(tmp_path, "schema", "generic")
    schema = json.loads(done.out)
    assert {"domain", "devices"} <= set(schema["properties"])
    assert "group" in schema["$defs"]
