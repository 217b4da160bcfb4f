"""Pods as tests write them: in brief, or as a manifest; and what an admitted pod has got."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from plugbay.errors import PathUnusable, UsageError
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.pods import DEFAULT_NAMESPACE, Pod, pod_request, with_identity
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.values import dataclass

ONLY_CONTAINER = ContainerName("app")
"""The container of a pod that is given as its devices alone."""
_MANIFEST = frozenset({"apiVersion", "kind", "metadata", "spec"})

Limits = Mapping[str, int]
"""Resource name to the number of devices."""
PodInput = str | Path | Mapping[str, object] | PodRequest
"""A pod: ``{"example.com/card": 1}``, ``{"train": {"example.com/card": 1}, "log": {}}`` by containers, a manifest as a
mapping, as YAML text or as the path of a file."""


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """A pod that has its devices.

    Attributes:
        edits: what each container gets, merged over its resources.
        devices: the devices of each container by resource, sorted.
    """

    uid: str
    namespace: str
    name: str
    edits: Mapping[str, ContainerEdits]
    devices: Mapping[str, Mapping[str, tuple[str, ...]]]

    def __getitem__(self, container: str) -> ContainerEdits:
        """The edits of a container."""
        return self.edits[container]


@dataclass(frozen=True, slots=True)
class FinishedPod:
    """A pod that a node ran to its end, or refused.

    Attributes:
        phase: ``Succeeded`` or ``Failed``.
        reason, message: the reason why it was refused or made to fail; empty if it ended by itself.
        exit_codes: those of the containers that ran.
        logs: the output of each container, both streams together.
    """

    name: str
    phase: str
    reason: str
    message: str
    exit_codes: Mapping[str, int]
    logs: Mapping[str, str]


def request_of(
    pod: PodInput,
    *,
    init: Mapping[str, Limits] | None,
    sidecars: Mapping[str, Limits] | None,
    name: str,
    number: int,
) -> PodRequest:
    """The request of ``pod`` to the Device Manager.

    Args:
        init, sidecars: containers that start before those of a pod that is given in brief.
        name: the pod's name in any case; empty for a manifest's own, or one made of ``number``.
        number: of the pod; no other of the kubelet has it.

    Raises:
        UsageError: it is not a pod.
        InvalidManifest: the manifest is wrong; all problems in one error.
    """
    if isinstance(pod, PodRequest):
        return pod
    uid = PodUid(f"uid-{number}")
    if isinstance(pod, Mapping) and not _MANIFEST & pod.keys():
        containers = [
            *_containers(init or {}, ContainerKind.INIT),
            *_containers(sidecars or {}, ContainerKind.SIDECAR),
            *_containers(_by_container(pod), ContainerKind.APP),
        ]
        return PodRequest(uid, DEFAULT_NAMESPACE, name or f"pod-{number}", tuple(containers))
    if init or sidecars:
        raise UsageError("a manifest names its init containers and sidecars itself; give it alone")
    found = _from_manifest(pod)
    named = replace(found, name=name) if name else found
    return pod_request(with_identity(named, uid=uid, suffix=f"{number:05}"))


def pod_to_run(pod: PodInput, command: Sequence[str], *, name: str, number: int) -> Pod:
    """The pod that a node is to run: a manifest, or the devices of its only container, which runs ``command`` once.

    Raises:
        UsageError: it is not a pod, or has no command, or two.
        InvalidManifest: the manifest is wrong; all problems in one error.
    """
    if isinstance(pod, PodRequest) or (isinstance(pod, Mapping) and not _MANIFEST & pod.keys()):
        if not command or isinstance(pod, PodRequest):
            raise UsageError("say what the pod runs: a manifest, or devices and command=[...]")
        [container] = _containers({ONLY_CONTAINER: pod}, ContainerKind.APP)
        limits = {resource: str(amount) for resource, amount in container.limits.items()}
        main = {"name": ONLY_CONTAINER, "command": list(command), "resources": {"limits": limits}}
        about = {"name": name or f"pod-{number}"}
        spec = {"containers": [main], "restartPolicy": "Never"}
        return _from_manifest({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})
    if command:
        raise UsageError("a manifest names its commands itself; give it alone")
    found = _from_manifest(pod)
    return replace(found, name=name) if name else found


def _from_manifest(pod: str | Path | Mapping[str, object]) -> Pod:
    from plugbay.manifest import Strictness, load_pods, pod_from_v1  # its schema takes time that brief pods need not

    if isinstance(pod, Mapping):
        return pod_from_v1(pod, source="this pod")
    text, source = _text_of(pod)
    pods, _ = load_pods(text, source=source, mode=Strictness.STRICT)
    if len(pods) != 1:
        raise UsageError(f"{source} holds {len(pods)} pods; admit them one at a time")
    return pods[0]


def _text_of(pod: str | Path) -> tuple[str, str]:
    """The text of a manifest and its source. A text in one line that has no mapping is a path, as is that of a file."""
    if isinstance(pod, str) and ("\n" in pod or not pod):
        return pod, "this manifest"
    if isinstance(pod, str) and (": " in pod or "{" in pod) and not os.path.isfile(pod):
        return pod, "this manifest"
    return _read(Path(pod)), str(pod)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PathUnusable(str(path), "is not a manifest: it is not UTF-8") from error


def _by_container(pod: Mapping[str, object]) -> Mapping[str, object]:
    """Containers by name; limits alone are those of the only container."""
    return pod if all(isinstance(value, Mapping) for value in pod.values()) and pod else {ONLY_CONTAINER: pod}


def _containers(containers: Mapping[str, object], kind: ContainerKind) -> Iterator[ContainerRequest]:
    for name, limits in containers.items():
        if not isinstance(limits, Mapping):
            raise UsageError(f"container {name!r} asks for {limits!r}; write {{'example.com/card': 1}}, for instance")
        for resource, count in limits.items():
            if not isinstance(resource, str) or not isinstance(count, int) or count < 0:
                raise UsageError(f"container {name!r} asks for {count!r} of {resource!r}; say how many devices")
        yield ContainerRequest(
            ContainerName(name), kind, {ResourceName(resource): count for resource, count in limits.items()}
        )
