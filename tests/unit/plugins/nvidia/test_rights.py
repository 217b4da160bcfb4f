"""The rights of NVIDIA's plugin in a manifest, and in the values of the chart."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugbay.cli.main import make_parser
from plugbay.cli.plugins.manifest import deployment_of
from plugbay.sdk.deploying.chart_values import plain, values_of
from plugbay.sdk.deploying.objects import manifest

DROP_ALL = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SYS_ADMIN = {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}
ALWAYS = {"readOnlyRootFilesystem": True, "runAsUser": 0}


@pytest.mark.parametrize(
    ("flags", "rights"),
    [
        ((), DROP_ALL),
        (("--pass-device-specs",), {"privileged": True}),
        (("--mig-strategy=single",), SYS_ADMIN),
        (("--device-list-strategy=volume-mounts",), SYS_ADMIN),
    ],
    ids=["nothing", "compatWithCPUManager", "MIG", "volume-mounts"],
)
def test_117_the_chart_gives_what_flags_need(flags: tuple[str, ...], rights: dict[str, object]) -> None:
    arguments = make_parser().parse_args(["manifest", "nvidia", "--image=r.example/plugbay:1", *flags])
    deployment = deployment_of(arguments)
    daemon_set: Any = plain(manifest(deployment)[-1])
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {**rights, **ALWAYS}
    values = yaml.safe_load(values_of(deployment))
    of_plugin = values["plugins"]["nvidia-plugin"]
    assert of_plugin.get("securityContext", values["defaults"]["securityContext"]) == container["securityContext"]


@pytest.mark.parametrize(
    ("flags", "overlap"),
    [((), True), (("--device-list-strategy=cdi-annotations",), False), (("--mps-root=/run/nvidia/mps",), False)],
    ids=["plain", "CDI", "MPS"],
)
def test_processes_that_write_for_the_node_are_replaced_one_after_the_other(
    flags: tuple[str, ...], overlap: bool
) -> None:
    arguments = make_parser().parse_args(["manifest", "nvidia", "--image=r.example/plugbay:1", *flags])
    daemon_set: Any = plain(manifest(deployment_of(arguments))[-1])
    assert ("maxSurge" in daemon_set["spec"]["updateStrategy"]["rollingUpdate"]) is overlap
