"""The rules that `plugbay migrate` writes for squat's plugin: its units, device IDs, and answers."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

TEMPLATE = resources.files("plugbay.cli.plugins") / "templates" / "path_rules.py.txt"


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "path_rules"}
    exec(compile(TEMPLATE.read_text(encoding="utf-8"), "path_rules.py", "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    ("copy", "paths", "id"),
    [
        (0, ["/dev/ttyUSB0"], "244c4eb967dd5fcfdc3d774106a9b1a20992aa12"),
        (1, ["/dev/ttyUSB0"], "ec099ded7c33914c2c8146a7e7bff5b24eb166b8"),
        (10, ["/dev/fuse"], "f7e8f333e072c3f7168aa29d521ea71277d1e45b"),
        (0, ["/dev/snd/controlC0", "/dev/snd/pcmC0D0c"], "8e312365c4c43caed695c0e3bad2b52cb3dd6fa4"),
    ],
)
def test_device_ids_are_those_of_squat(rules: dict[str, Any], copy: int, paths: list[str], id: str) -> None:
    assert rules["unit"](copy, [({}, path) for path in paths]).id == id


@pytest.mark.parametrize(
    ("group", "units"),
    [
        ([{"path": "t*"}], ["t0", "t1", "t2"]),
        ([{"path": "t*"}, {"path": "c"}], ["t0 c"]),
        ([{"path": "t*"}, {"path": "c", "limit": 10}], ["t0 c", "t1 c", "t2 c"]),
        ([{"path": "t*"}, {"path": "c", "limit": 2}], ["t0 c", "t1 c"]),
        ([{"path": "gone"}, {"path": "t0"}], []),
        ([{"path": "gone", "optional": True}, {"path": "t0"}, {"path": "t1", "optional": True}], ["t0 t1"]),
        ([{"path": "gone", "optional": True}], []),
        ([{"path": "../{here}/t[01]"}], ["t0", "t1"]),
        ([{"path": "t[^01]"}], ["t2"]),
        ([{"path": "*.hidden"}], [".hidden"]),
        ([{"path": "dang*"}], ["dangling"]),
        ([{"path": "dangling"}], []),
    ],
)
def test_units_are_those_of_squat(
    rules: dict[str, Any], group: list[dict[str, Any]], units: list[str], tmp_path: Path
) -> None:
    for name in ("t0", "t1", "t2", "c", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    group = [{**rule, "path": f"{tmp_path}/{rule['path'].replace('{here}', tmp_path.name)}"} for rule in group]
    found = [" ".join(Path(path).name for _, path in each) for each in rules["units"](group)]
    assert found == units
    plugin = rules["PathRules"]("example.com/x", [{"paths": group, "count": 2}])
    assert len(plugin.discover()) == 2 * len(units)
    assert plugin.watch == [str(tmp_path)]


def test_a_container_gets_nodes_and_mounts_where_the_rules_say(rules: dict[str, Any]) -> None:
    edits = rules["unit"](
        0,
        [
            ({"mountPath": "/dev/serial/"}, "/dev/ttyUSB0"),
            ({"permissions": "r", "mountPath": "/dev/x"}, "/dev/c"),
            ({"type": "Mount", "readOnly": True}, "/run/s"),
        ],
    ).edits
    assert [(each.host_path, each.container_path, each.permissions) for each in edits.device_nodes] == [
        ("/dev/ttyUSB0", "/dev/serial/ttyUSB0", "mrw"),
        ("/dev/c", "/dev/x", "r"),
    ]
    assert [(each.host_path, each.container_path, each.read_only) for each in edits.mounts] == [
        ("/run/s", "/run/s", True)
    ]
