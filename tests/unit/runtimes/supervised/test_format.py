"""The records of a container on disk: a later plugbay reads what an earlier one wrote, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest

from plugbay.kernel.processes import ProcessIdentity
from plugbay.model.actions import ExecAction
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.images import PullPolicy
from plugbay.model.limits import CgroupLimits
from plugbay.model.pods import Container, EmptyDir, EnvVar, Pod, PodSpec, Volume, VolumeMount
from plugbay.model.ports import ContainerPort, Protocol
from plugbay.model.quantity import Quantity
from plugbay.model.security import Seccomp, Security
from plugbay.model.termination import MessagePolicy
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.supervised.launch import encode_launch
from plugbay.runtimes.supervised.records import (
    AskedRecord,
    ExitRecord,
    LimitsRecord,
    MessageRecord,
    ProcessRecord,
    SpecRecord,
    container_id,
    decode_exit,
    decode_process,
    decode_spec,
    encode_spec,
    parse_marker,
)

GOLDEN: Final = Path(__file__).parents[3] / "golden/runtimes/supervised"
CONTAINER: Final = Container(
    ContainerName("digger"),
    image="example.com/digger:1",
    command=("/bin/sh",),
    args=("-c", "dig"),
    working_dir="/work",
    env=(EnvVar("DEPTH", "3"), EnvVar("ÉTÉ", "oui")),
    requests={"memory": Quantity.parse("32Mi")},
    volume_mounts=(VolumeMount("soil", "/soil", read_only=True),),
    pre_stop=ExecAction(("true",)),
    ports=(ContainerPort(80, 8080, Protocol.UDP, "127.0.0.1", "web"),),
    security=Security(
        run_as_user=1000,
        run_as_group=1001,
        run_as_non_root=True,
        supplemental_groups=(5, 6),
        privileged=False,
        added_capabilities=("NET_ADMIN",),
        dropped_capabilities=("ALL",),
        read_only_root=True,
        allow_privilege_escalation=False,
        fs_group=7,
        seccomp=Seccomp.RUNTIME_DEFAULT,
    ),
    pull_policy=PullPolicy.ALWAYS,
    message_path="/var/log/end",
    message_policy=MessagePolicy.FALLBACK_TO_LOGS,
)
POD: Final = Pod(
    "burrow",
    PodSpec(
        (CONTAINER,),
        volumes=(Volume("soil", EmptyDir()),),
        termination_grace_period_s=5,
        hostname="burrow-1",
        runtime_class="kata",
    ),
    namespace="lab",
    uid=PodUid("6f1c2d3e-0000-4000-8000-000000000001"),
)
SPEC: Final = ContainerSpec(
    POD,
    CONTAINER,
    attempt=2,
    limits=CgroupLimits(cpu_shares=512, cpu_quota_us=50_000, memory_bytes=1 << 26, memory_and_swap_bytes=1 << 26),
    mounts=(Mount(host_path="/srv/soil", container_path="/soil", read_only=True),),
    edits=ContainerEdits(
        env={"GOPHER": "g1"},
        mounts=(Mount(host_path="/opt/gopher", container_path="/gopher", read_only=False),),
        device_nodes=(DeviceNode(host_path="/dev/null", container_path="/dev/gopher0", permissions="rw"),),
        annotations={"gopher": "yes"},
        cdi_devices=("example.com/gopher=g1",),
    ),
)
CREATED_AT: Final = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
SPEC_RECORD: Final = SpecRecord(
    AskedRecord(
        POD.uid,
        CONTAINER.name,
        attempt=2,
        argv=("/bin/sh", "-c", "dig"),
        working_dir="/work",
        limits=LimitsRecord(1 << 26),
        message=MessageRecord(MessagePolicy.FALLBACK_TO_LOGS),
    ),
    env={"PATH": "/bin", "DEPTH": "3"},
    working_dir="/work",
    created_at=CREATED_AT,
)
PROCESS_RECORD: Final = ProcessRecord(
    "0b9e2c7a-boot", ProcessIdentity(40, start_ticks=4000), ProcessIdentity(41, start_ticks=4100), 1767323045.5
)
EXIT_RECORD: Final = ExitRecord(1767323046.25, 137, signal=9, failed_step="exec", errno=2)
READ: Final = {
    "spec.json": (decode_spec, SPEC_RECORD),
    "process.json": (decode_process, PROCESS_RECORD),
    "exit.json": (decode_exit, EXIT_RECORD),
}


def test_a_spec_is_written_as_ever(golden: Callable[[str, str], None]) -> None:
    written = encode_spec(SPEC, env=SPEC_RECORD.env, working_dir="/work", created_at=CREATED_AT)
    golden("spec.json", msgspec.json.format(written).decode() + "\n")
    assert decode_spec(written) == SPEC_RECORD


@pytest.mark.parametrize("name", READ)
def test_a_record_of_an_earlier_plugbay_is_read(name: str) -> None:
    decode, record = READ[name]
    assert decode((GOLDEN / name).read_bytes()) == record


@pytest.mark.parametrize(("name", "record"), [("process.json", PROCESS_RECORD), ("exit.json", EXIT_RECORD)])
def test_what_the_wrapper_writes_has_these_members(
    name: str, record: object, golden: Callable[[str, str], None]
) -> None:
    golden(name, msgspec.json.format(msgspec.json.encode(record)).decode() + "\n")


def test_a_record_with_what_was_always_there_is_read() -> None:
    """As plugbay wrote it before images, limits and hooks were known."""
    read = decode_spec((GOLDEN / "spec-oldest.json").read_bytes())
    assert (read.asked.name, read.asked.argv, read.asked.limits.memory_bytes) == ("digger", ("dig",), 0)
    assert read.asked.message.policy is MessagePolicy.FILE


def test_the_golden_record_says_something_of_each_field() -> None:
    container = Container(ContainerName("c"), image="i:1")
    plain = ContainerSpec(Pod("p", PodSpec((container,))), container, attempt=0)
    written = [
        msgspec.json.decode(encode_spec(each, env={}, working_dir="/", created_at=CREATED_AT))["spec"]
        for each in (SPEC, plain)
    ]
    assert written[0].keys() == written[1].keys()
    assert not [name for name, value in written[0].items() if value == written[1][name]]


def test_names_of_a_container_on_disk_stay() -> None:
    assert container_id(SPEC) == "6f1c2d3e-0000-4000-8000-000000000001_digger_2"
    assert parse_marker("ran_0b9e2c7a-boot_40_4000_41_4100", started_at=1767323045.5) == PROCESS_RECORD


def test_the_wrapper_is_told_as_ever() -> None:
    launch = encode_launch(("/bin/echo", "héllo"), working_dir="/work", env={"A": "1", "B": ""})
    assert launch == "/work\0002\0/bin/echo\0héllo\0A=1\0B=\0".encode()
