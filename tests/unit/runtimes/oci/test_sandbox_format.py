"""The record of an oci sandbox on disk: a later plugbay undoes what an earlier one made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from plugbay.model.ids import PodUid
from plugbay.runtimes.oci.sandbox_records import SandboxRecord, SandboxRecords

GOLDEN: Final = Path(__file__).parents[3] / "golden/runtimes/oci"
RECORD: Final = SandboxRecord(
    pod_uid=PodUid("6f1c2d3e"),
    boot_id="0b9e2c7a-boot",
    container_id="6f1c2d3e",
    netns="/srv/node/oci/netns/6f1c2d3e",
    args=(("K8S_POD_NAME", "burrow"),),
    capabilities={"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
    ips=("10.88.0.2",),
    shared="/srv/node/oci/shared/6f1c2d3e",
    hostname="burrow",
    own_kinds=("network", "uts"),
    host_kinds=("ipc",),
    files={"hosts": "hostAliases"},
)


def test_a_record_is_written_as_ever(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    SandboxRecords(tmp_path).write(RECORD)
    golden("sandbox.json", msgspec.json.format((tmp_path / "6f1c2d3e.json").read_bytes()).decode() + "\n")


def test_a_record_of_an_earlier_plugbay_is_read(tmp_path: Path) -> None:
    (tmp_path / "6f1c2d3e.json").write_bytes((GOLDEN / "sandbox.json").read_bytes())
    assert SandboxRecords(tmp_path).read(PodUid("6f1c2d3e")) == RECORD


def test_a_record_with_what_was_always_there_is_read(tmp_path: Path) -> None:
    (tmp_path / "6f1c2d3e.json").write_text('{"pod_uid": "6f1c2d3e", "boot_id": "b", "container_id": "6f1c2d3e"}')
    assert SandboxRecords(tmp_path).read(PodUid("6f1c2d3e")) == SandboxRecord(PodUid("6f1c2d3e"), "b", "6f1c2d3e")
