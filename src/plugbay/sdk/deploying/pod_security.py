"""The Pod Security Standards, as far as pods of plugins can break them: each rule with what breaks it, and why. Pure.

Source: Kubernetes 1.36 ``pod-security-admission/policy/check_*.go``, version ``latest``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from plugbay.sdk.deploying.noted_yaml import Noted
from plugbay.values import dataclass

Fields = Mapping[str, Any]

_ADDABLE: Final = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT".split()
)
_ADDABLE_RESTRICTED: Final = frozenset({"NET_BIND_SERVICE"})
_VOLUMES: Final = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split()
)
_CONFINED: Final = frozenset({"RuntimeDefault", "Localhost"})


class PodSecurity(Enum):
    """A level of the standards, the most permissive first; each has the rules of those before it."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class Violation:
    """A part of a pod that a rule refuses.

    Attributes:
        rule: the control, as the standards name it.
        what: the field with its value, in words.
        reason: why the plugin has it; empty if nothing says so.
    """

    rule: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}" + (f" ({self.reason})" if self.reason else "")


def violations(pod: Fields, level: PodSecurity) -> list[Violation]:
    """The parts of a pod's spec, with notes or without, that an admission at ``level`` refuses."""
    match level:
        case PodSecurity.PRIVILEGED:
            rules: tuple[_Rule, ...] = ()
        case PodSecurity.BASELINE:
            rules = _BASELINE
        case PodSecurity.RESTRICTED:
            rules = (*_BASELINE, *_RESTRICTED)
    return [each for rule in rules for each in rule(pod)]


def level_of(pod: Fields) -> PodSecurity:
    """The strictest level that admits the pod."""
    return next(level for level in reversed(PodSecurity) if not violations(pod, level))


_Rule = Callable[[Fields], Iterator[Violation]]


def _host_namespaces(pod: Fields) -> Iterator[Violation]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if _value(pod.get(field)):
            yield Violation("Host Namespaces", f"{field} is true", _note(pod[field]))


def _privileged(pod: Fields) -> Iterator[Violation]:
    for security in _securities(pod):
        if _value(security.get("privileged")):
            yield Violation("Privileged Containers", "a privileged container", _note(security["privileged"]))


def _capabilities(pod: Fields, allowed: frozenset[str] = _ADDABLE) -> Iterator[Violation]:
    for security in _securities(pod):
        for each in _value(_value(security.get("capabilities", {})).get("add", ())):
            if _value(each) not in allowed:
                yield Violation("Capabilities", f"the capability {_value(each)}", _note(each))


def _host_paths(pod: Fields) -> Iterator[Violation]:
    for volume in map(_value, _value(pod.get("volumes", ()))):
        if "hostPath" in volume:
            path = _value(_value(volume["hostPath"])["path"])
            yield Violation("HostPath Volumes", f"the host's {path}", _reason_to_mount(pod, volume["name"]))


def _host_ports(pod: Fields) -> Iterator[Violation]:
    for container in _containers(pod):
        for port in map(_value, _value(container.get("ports", ()))):
            if number := _value(port.get("hostPort")):
                yield Violation("Host Ports", f"the host's port {number}", "")


def _seccomp(pod: Fields) -> Iterator[Violation]:
    for kind in _seccomp_types(pod):
        if kind == "Unconfined":
            yield Violation("Seccomp", "seccompProfile.type is Unconfined", "")


_BASELINE: Final[tuple[_Rule, ...]] = (
    _host_namespaces,
    _privileged,
    _capabilities,
    _host_paths,
    _host_ports,
    _seccomp,
)


def _volume_types(pod: Fields) -> Iterator[Violation]:
    for volume in map(_value, _value(pod.get("volumes", ()))):
        for kind in volume.keys() - {"name", "hostPath"} - _VOLUMES:
            yield Violation("Volume Types", f"the volume {volume['name']} of type {kind}", "")


def _escalation(pod: Fields) -> Iterator[Violation]:
    for security in _securities(pod):
        if _value(security.get("allowPrivilegeEscalation")) is not False:
            reason = _note(security.get("privileged"))
            yield Violation("Privilege Escalation", "allowPrivilegeEscalation is not false", reason)


def _not_as_root(pod: Fields) -> Iterator[Violation]:
    of_pod = _value(pod.get("securityContext", {}))
    for security in _securities(pod):
        if _value(security.get("runAsNonRoot", of_pod.get("runAsNonRoot"))) is not True:
            reason = _note(security.get("runAsUser", of_pod.get("runAsUser")))
            yield Violation("Running as Non-root", "runAsNonRoot is not true", reason)


def _no_root_user(pod: Fields) -> Iterator[Violation]:
    for security in (_value(pod.get("securityContext", {})), *_securities(pod)):
        if _value(security.get("runAsUser")) == 0:
            yield Violation("Running as Non-root user", "runAsUser is 0", _note(security["runAsUser"]))


def _confined(pod: Fields) -> Iterator[Violation]:
    if not all(kind in _CONFINED for kind in _seccomp_types(pod)):
        yield Violation("Seccomp", "no seccompProfile of type RuntimeDefault or Localhost", "")


def _dropped(pod: Fields) -> Iterator[Violation]:
    for security in _securities(pod):
        if "ALL" not in map(_value, _value(_value(security.get("capabilities", {})).get("drop", ()))):
            yield Violation("Capabilities", "not all capabilities are dropped", _note(security.get("privileged")))
    known = {each.what for each in _capabilities(pod)}
    yield from (each for each in _capabilities(pod, _ADDABLE_RESTRICTED) if each.what not in known)


_RESTRICTED: Final[tuple[_Rule, ...]] = (_volume_types, _escalation, _not_as_root, _no_root_user, _confined, _dropped)


def _containers(pod: Fields) -> Iterator[Fields]:
    yield from (_value(each) for name in ("initContainers", "containers") for each in _value(pod.get(name, ())))


def _securities(pod: Fields) -> Iterator[Fields]:
    """The security context of every container."""
    return (_value(each.get("securityContext", {})) for each in _containers(pod))


def _seccomp_types(pod: Fields) -> Iterator[str | None]:
    """The type of every container's profile, which is the pod's if it has none; None if there is none at all."""
    of_pod = _value(_value(pod.get("securityContext", {})).get("seccompProfile", {})).get("type")
    for security in _securities(pod):
        yield _value(_value(security.get("seccompProfile", {})).get("type", of_pod))


def _reason_to_mount(pod: Fields, volume: str) -> str:
    mounts = (each for container in _containers(pod) for each in _value(container.get("volumeMounts", ())))
    return next((_note(each) for each in mounts if _value(each)["name"] == volume), "")


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Noted) else value


def _note(value: object) -> str:
    """The note as a part of a sentence."""
    if not isinstance(value, Noted):
        return ""
    note = value.note.rstrip(".")
    return f"{note[0].lower()}{note[1:]}" if note[1:2].islower() else note
