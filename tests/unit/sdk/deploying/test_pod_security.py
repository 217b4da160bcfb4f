"""The Pod Security Standards: each rule refuses what it is about, and says why a plugin has it."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay import Capability, HostDirectory, Privileged
from plugbay.errors import NeedsRefused
from plugbay.sdk.author.needs import Need
from plugbay.sdk.deploying.chart_values import plain
from plugbay.sdk.deploying.objects import check_pod_security, manifest
from plugbay.sdk.deploying.pod_security import PodSecurity, level_of, violations
from tests.unit.sdk.deploying.test_daemonset import deployment

SAFE: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}
CONFINED = {"seccompProfile": {"type": "RuntimeDefault"}}
FILES = {"name": "files", "configMap": {"name": "x"}}
SOCKETS = (
    "HostPath Volumes: the host's /var/lib/kubelet/device-plugins "
    "(the kubelet's socket, and the plugin's own beside it)"
)
ROOT = "the kubelet's directory of sockets is open to root only"


def pod(*, security: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **fields: Any) -> Any:
    """A pod that every level admits, with changes; a field of the security context that is None is left out."""
    of_container = {key: value for key, value in (SAFE | (security or {})).items() if value is not None}
    containers = [{"name": "plugin", "securityContext": of_container, **(container or {})}]
    return {"securityContext": CONFINED, "volumes": [FILES], "containers": containers, **fields}


def named(part: object) -> str:
    return part if isinstance(part, str) else ""


BASELINE = [
    ({"hostNetwork": True}, "Host Namespaces", "hostNetwork is true"),
    ({"hostPID": True}, "Host Namespaces", "hostPID is true"),
    ({"hostIPC": True}, "Host Namespaces", "hostIPC is true"),
    ({"security": {"privileged": True}}, "Privileged Containers", "a privileged container"),
    (
        {"security": {"capabilities": {"drop": ["ALL"], "add": ["KILL", "NET_ADMIN"]}}},
        "Capabilities",
        "the capability NET_ADMIN",
    ),
    ({"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]}, "HostPath Volumes", "the host's /dev"),
    ({"container": {"ports": [{"containerPort": 1}, {"hostPort": 9400}]}}, "Host Ports", "the host's port 9400"),
    ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "Seccomp", "seccompProfile.type is Unconfined"),
]
RESTRICTED = [
    (
        {"volumes": [FILES, {"name": "share", "nfs": {"server": "x", "path": "/"}}]},
        "Volume Types",
        "the volume share of type nfs",
    ),
    (
        {"security": {"allowPrivilegeEscalation": None}},
        "Privilege Escalation",
        "allowPrivilegeEscalation is not false",
    ),
    ({"security": {"runAsNonRoot": None}}, "Running as Non-root", "runAsNonRoot is not true"),
    ({"security": {"runAsUser": 0}}, "Running as Non-root user", "runAsUser is 0"),
    (
        {"securityContext": {**CONFINED, "runAsNonRoot": True, "runAsUser": 0}},
        "Running as Non-root user",
        "runAsUser is 0",
    ),
    ({"securityContext": {}}, "Seccomp", "no seccompProfile of type RuntimeDefault or Localhost"),
    ({"security": {"capabilities": {"drop": ["KILL"]}}}, "Capabilities", "not all capabilities are dropped"),
    (
        {"security": {"capabilities": {"drop": ["ALL"], "add": ["KILL", "NET_BIND_SERVICE"]}}},
        "Capabilities",
        "the capability KILL",
    ),
]


def found(changed: Any, level: PodSecurity) -> list[tuple[str, str]]:
    return [(each.rule, each.what) for each in violations(changed, level)]


@pytest.mark.parametrize(("changes", "rule", "what"), BASELINE, ids=named)
def test_rules_of_baseline(changes: dict[str, Any], rule: str, what: str) -> None:
    changed = pod(**changes)
    assert found(changed, PodSecurity.BASELINE) == [(rule, what)]
    assert (rule, what) in found(changed, PodSecurity.RESTRICTED)
    assert level_of(changed) is PodSecurity.PRIVILEGED


@pytest.mark.parametrize(
    ("changes", "rule", "what"), RESTRICTED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_rules_of_restricted(changes: dict[str, Any], rule: str, what: str) -> None:
    changed = pod(**changes)
    assert found(changed, PodSecurity.RESTRICTED) == [(rule, what)]
    assert level_of(changed) is PodSecurity.BASELINE


def test_a_pod_without_rights_is_admitted_everywhere() -> None:
    assert level_of(pod()) is PodSecurity.RESTRICTED
    of_pod = {**CONFINED, "runAsNonRoot": True}
    assert level_of(pod(security={"runAsNonRoot": None}, securityContext=of_pod)) is PodSecurity.RESTRICTED


@pytest.mark.parametrize(
    ("needs", "problems"),
    [
        ((), [SOCKETS]),
        (
            (HostDirectory("/dev", "x.example/card watches /dev/cards"),),
            [SOCKETS, "HostPath Volumes: the host's /dev (x.example/card watches /dev/cards)"],
        ),
        (
            (Capability("NET_ADMIN", "it configures card0"),),
            ["Capabilities: the capability NET_ADMIN (it configures card0)", SOCKETS],
        ),
        (
            (Privileged("it opens /dev/card0"),),
            ["Privileged Containers: a privileged container (it opens /dev/card0)", SOCKETS],
        ),
    ],
    ids=["nothing", "directory", "capability", "privileged"],
)
def test_needs_that_contradict_the_level_are_named_with_their_reasons(
    needs: tuple[Need, ...], problems: list[str]
) -> None:
    made = deployment(*needs)
    check_pod_security(made, PodSecurity.PRIVILEGED)
    with pytest.raises(NeedsRefused) as caught:
        check_pod_security(made, PodSecurity.BASELINE)
    assert str(caught.value) == f"Pod Security level baseline refuses what the plugins need: {'; '.join(problems)}"
    with pytest.raises(NeedsRefused, match="Running as Non-root user: runAsUser is 0") as caught:
        check_pod_security(made, PodSecurity.RESTRICTED)
    refused = str(caught.value).partition("need: ")[2].split("; ")
    assert f"Running as Non-root: runAsNonRoot is not true ({ROOT})" in refused
    assert set(problems) <= set(refused)


def test_manifests_break_the_same_rules_without_their_notes() -> None:
    daemon_set: Any = plain(manifest(deployment(Privileged("it opens /dev/card0")))[-1])
    spec = daemon_set["spec"]["template"]["spec"]
    assert [each.rule for each in violations(spec, PodSecurity.BASELINE)] == [
        "Privileged Containers",
        "HostPath Volumes",
    ]
    assert {each.reason for each in violations(spec, PodSecurity.RESTRICTED)} == {""}
