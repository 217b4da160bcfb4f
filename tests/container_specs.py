"""Containers to start and sandboxes to make, in the words of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, EnvVar, Pod, PodSpec
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.sandboxes import HostNamespace, Network, SandboxSpec

_OF_SPEC: Final = {each.name for each in fields(ContainerSpec)}
_OF_POD_SPEC: Final = {"hostname", "runtime_class"}


def container_spec(*argv: str, **changes: Any) -> ContainerSpec:
    """The container ``c`` of the pod ``web``; ``argv`` are its args, else ``run``. ``changes``: see `changed`."""
    container = Container(ContainerName("c"), args=literally(argv or ("run",)))
    return changed(ContainerSpec(Pod("web", PodSpec((container,)), uid=PodUid("u")), container, attempt=0), **changes)


def changed(spec: ContainerSpec, **changes: Any) -> ContainerSpec:
    """``spec`` with other fields of its own, of its container, or of its pod: these are ``uid``, ``namespace``, ``pod``
    (its name), ``hostname`` and ``runtime_class``.

    ``argv``, ``command`` and ``args`` are taken literally, as are the values of ``env``, a mapping. With ``argv`` there
    is no command. ``message`` is a `TerminationMessage`.
    """
    own = {name: changes.pop(name) for name in _OF_SPEC - {"pod"} if name in changes}
    of_pod_spec = {name: changes.pop(name) for name in _OF_POD_SPEC if name in changes}
    of_pod: dict[str, Any] = {name: changes.pop(name) for name in ("uid", "namespace") if name in changes}
    if "pod" in changes:
        of_pod["name"] = changes.pop("pod")
    container = replace(spec.container, **_of_container(changes))
    pod_spec = replace(spec.pod.spec, containers=(container,), **of_pod_spec)
    return replace(spec, pod=replace(spec.pod, spec=pod_spec, **of_pod), container=container, **own)


def sandbox_spec(uid: PodUid, namespace: str, name: str, **changes: Any) -> SandboxSpec:
    """The sandbox of a pod with one container. ``changes``: see `wanting`."""
    pod = Pod(name, PodSpec((Container(ContainerName("c")),)), namespace=namespace, uid=uid)
    return wanting(SandboxSpec(pod), **changes)


def wanting(spec: SandboxSpec, **changes: Any) -> SandboxSpec:
    """``spec`` for a pod with other fields: ``labels``, ``annotations``, those of a `PodSpec`, and ``network``,
    ``host_namespaces`` and ``shares_processes`` as `SandboxSpec` has them. ``ports``, ``limits`` and ``requests`` are
    those of its container.
    """
    of_pod = {name: changes.pop(name) for name in ("labels", "annotations") if name in changes}
    of_container = {name: changes.pop(name) for name in ("ports", "limits", "requests") if name in changes}
    unused = dict(spec.pod.unused)
    for kind in changes.pop("host_namespaces", ()):
        unused["spec", HostNamespace(kind).field] = True
    if changes.pop("shares_processes", False):
        unused["spec", "shareProcessNamespace"] = True
    if "network" in changes:
        changes["host_network"] = changes.pop("network") is Network.HOST
    containers = tuple(replace(each, **of_container) for each in spec.pod.spec.containers)
    pod_spec = replace(spec.pod.spec, containers=containers, **changes)
    return SandboxSpec(replace(spec.pod, spec=pod_spec, unused=unused, **of_pod))


def literally(words: tuple[str, ...]) -> tuple[str, ...]:
    """``words`` as a manifest has them, in which ``$$`` is a dollar."""
    return tuple(word.replace("$", "$$") for word in words)


def _of_container(changes: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(changes)
    if "message" in made:
        message = made.pop("message")
        made |= {"message_path": message.path, "message_policy": message.policy}
    if "argv" in made:
        made |= {"command": (), "args": made.pop("argv")}
    for name in ("command", "args"):
        if name in made:
            made[name] = literally(made[name])
    if "env" in made:
        made["env"] = tuple(EnvVar(name, value.replace("$", "$$")) for name, value in made["env"].items())
    return made
