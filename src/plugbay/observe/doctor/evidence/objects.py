"""Read v1 objects of pods, events and nodes: from our node's API, or a file that ``kubectl get -o json`` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from plugbay.errors import PlugbayError
from plugbay.kernel.files import read_bytes
from plugbay.observe.doctor.evidence.host import CONTROL_SOCKET, Gaps, Host, is_our_node
from plugbay.observe.doctor.evidence.values import (
    ContainerSight,
    DeviceSight,
    EvidenceSource,
    PodHappening,
    PodSight,
    ReleaseSight,
    ToldResource,
)

Object: TypeAlias = Mapping[str, object]

_PATHS: Final = ("/api/v1/nodes", "/api/v1/pods", "/api/v1/events")
_DEVICES: Final = "/plugbay/v1/devices"


@dataclass(slots=True)
class Objects:
    """The objects that were found.

    Attributes:
        runtime: the runtime of our node; empty for a stock kubelet.
        kubelet_version: as the node's object tells it.
        is_ours: they are a node's of ours.
    """

    pods: list[PodSight] = field(default_factory=list)
    happenings: list[PodHappening] = field(default_factory=list)
    resources: list[ToldResource] = field(default_factory=list)
    releases: list[ReleaseSight] = field(default_factory=list)
    runtime: str = ""
    kubelet_version: str = ""
    is_ours: bool = False


def read_objects(host: Host, files: Iterable[Path], gaps: Gaps) -> Objects:
    """The objects of the node at the host's kubelet root, if it is ours, and of ``files``."""
    found = Objects(is_ours=is_our_node(host))
    if found.is_ours and not _has_asked_node(host, found, gaps):
        # It has no directory for each pod, as a kubelet has.
        gaps.note(EvidenceSource.PODS, f"the pods of the node at {host.kubelet_root}", "the node does not answer")
    for path in files:
        try:
            document = json.loads(read_bytes(path))
        except OSError as error:
            gaps.note(EvidenceSource.OBJECTS, path, error)
        except ValueError as error:
            gaps.note(EvidenceSource.OBJECTS, path, f"it is not JSON as kubectl writes it: {error}")
        else:
            _take_file(document, found, path, host, gaps)
    return found


def _take_file(document: object, found: Objects, path: Path, host: Host, gaps: Gaps) -> None:
    """Objects of a cluster: only this node, and the pods that are bound to it or to no node yet."""
    items = list(_items(document))
    nodes = {_text(_mapping(each.get("metadata")), "name") for each in items if _kind(each) == "Node"}
    nodes |= {name for each in items if (name := _text(_mapping(each.get("spec")), "nodeName"))}
    here = next(iter(nodes), "") if len(nodes) <= 1 else _this_node(nodes, host)
    if len(nodes) > 1 and not here:
        gaps.note(EvidenceSource.OBJECTS, path, f"none of its {len(nodes)} nodes has this machine's name")
    for each in items:
        part, member = ("metadata", "name") if _kind(each) == "Node" else ("spec", "nodeName")
        name = _text(_mapping(each.get(part)), member)
        if not name or name == here:
            _take(each, found, str(path))


def _this_node(nodes: Iterable[str], host: Host) -> str:
    """The node with the machine's name, which may be the first part of it."""
    try:
        name = host.at("/proc/sys/kernel/hostname").read_text().strip().lower()
    except OSError:
        return ""
    return next((each for each in sorted(nodes) if name in (each, each.partition(".")[0])), "")


def _items(document: object) -> Iterator[Object]:
    """The objects of a list, each with its kind, or the one object."""
    top = _mapping(document)
    kind = _kind(top)
    if not kind.endswith("List"):
        yield top
        return
    for each in _objects(top, "items"):
        yield each if "kind" in each else {**each, "kind": kind.removesuffix("List")}


def _kind(item: Object) -> str:
    return _text(item, "kind")


def _has_asked_node(host: Host, found: Objects, gaps: Gaps) -> bool:
    # Imported here: only our own node speaks HTTP here.
    from plugbay.ops.http_client import UnixHttpClient

    socket = host.at(host.kubelet_root) / CONTROL_SOCKET
    client = UnixHttpClient(socket, timeout_s=host.answer_s)
    for path in (*_PATHS, _DEVICES):
        try:
            response = client.request("GET", path)
            document = response.json()
        except (PlugbayError, ValueError) as error:
            gaps.note(EvidenceSource.OBJECTS, f"{path} of the node at {host.shown(socket)}", error)
            return False
        if path == _DEVICES:
            _take_devices(_mapping(document), found)
        else:
            _take(document, found, f"the node's {path.rpartition('/')[2]}")
    return True


def _take(document: object, found: Objects, source: str) -> None:
    for item in _items(document):
        match _kind(item):
            case "Pod":
                found.pods.append(pod_of(item))
            case "Event":
                found.happenings.append(happening_of(item, source))
            case "Node":
                _take_node(item, found, source)


def pod_of(item: Object) -> PodSight:
    """A v1 Pod."""
    metadata, spec, status = (_mapping(item.get(each)) for each in ("metadata", "spec", "status"))
    waiting = {
        _text(each, "name"): _mapping(_mapping(each.get("state")).get("waiting"))
        for each in (*_objects(status, "initContainerStatuses"), *_objects(status, "containerStatuses"))
    }
    condition = next(
        (each for each in _objects(status, "conditions") if _text(each, "type") == "PodScheduled"), dict[str, object]()
    )
    refused = _text(condition, "status") == "False"
    containers = (*_objects(spec, "initContainers"), *_objects(spec, "containers"))
    return PodSight(
        uid=_text(metadata, "uid"),
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        phase=_text(status, "phase"),
        reason=_text(status, "reason") or (_text(condition, "reason") if refused else ""),
        message=_text(status, "message") or (_text(condition, "message") if refused else ""),
        deleting_since_s=_seconds(_text(metadata, "deletionTimestamp")),
        containers=tuple(_container(each, spec, waiting.get(_text(each, "name"), {})) for each in containers),
    )


def _container(item: Object, spec: Object, waiting: Object) -> ContainerSight:
    of_pod, own = _mapping(spec.get("securityContext")), _mapping(item.get("securityContext"))
    user = own.get("runAsUser", of_pod.get("runAsUser"))
    groups = [own.get("runAsGroup", of_pod.get("runAsGroup")), of_pod.get("fsGroup")]
    more = of_pod.get("supplementalGroups")
    groups += more if isinstance(more, list) else []
    limits = _mapping(_mapping(item.get("resources")).get("limits"))
    return ContainerSight(
        _text(item, "name"),
        user if isinstance(user, int) else None,
        tuple(each for each in groups if isinstance(each, int)),
        {name: str(amount) for name, amount in limits.items()},
        _text(waiting, "reason"),
        _text(waiting, "message"),
    )


def happening_of(item: Object, source: str) -> PodHappening:
    """A v1 Event."""
    about = _mapping(item.get("involvedObject")) or _mapping(item.get("regarding"))
    is_pod = _text(about, "kind") == "Pod"
    count = item.get("count")
    return PodHappening(
        source,
        _text(item, "reason"),
        _text(item, "message") or _text(item, "note"),
        f"{_text(about, 'namespace')}/{_text(about, 'name')}" if is_pod else "",
        _text(about, "uid") if is_pod else "",
        count if isinstance(count, int) else 1,
        _text(item, "lastTimestamp") or _text(item, "eventTime"),
    )


def _take_node(item: Object, found: Objects, source: str) -> None:
    status = _mapping(item.get("status"))
    facts = _mapping(status.get("nodeInfo"))
    runtime, version = _text(facts, "containerRuntimeVersion").partition("://")[0], _text(facts, "kubeletVersion")
    if found.is_ours:
        found.runtime = runtime
    else:
        found.kubelet_version = version.removeprefix("v")
    capacity, allocatable = _mapping(status.get("capacity")), _mapping(status.get("allocatable"))
    for name, amount in capacity.items():
        if "/" in name and str(amount).isdigit():
            free = str(allocatable.get(name, 0))
            found.resources.append(ToldResource(name, int(str(amount)), int(free) if free.isdigit() else 0, source))


def _take_devices(document: Object, found: Objects) -> None:
    """The devices of our node, which say more of each resource than its object does."""
    told = [_resource(each) for each in _objects(document, "resources")]
    names = {each.name for each in told}
    found.resources = [*(each for each in found.resources if each.name not in names), *told]
    for each in _objects(document, "releases"):
        holder, attempts = _mapping(each.get("holder")), each.get("attempts")
        found.releases.append(
            ReleaseSight(
                _text(each, "resourceName"),
                _texts(each.get("deviceIDs")),
                f"{_text(holder, 'namespace')}/{_text(holder, 'pod')}",
                _text(each, "since"),
                attempts if isinstance(attempts, int) else 0,
            )
        )


def _resource(item: Object) -> ToldResource:
    endpoint = _mapping(item.get("endpoint"))
    capacity, allocatable = item.get("capacity"), item.get("allocatable")
    return ToldResource(
        _text(item, "resourceName"),
        capacity if isinstance(capacity, int) else 0,
        allocatable if isinstance(allocatable, int) else 0,
        "the node's devices",
        _text(endpoint, "state") or "Gone",
        _text(endpoint, "since"),
        tuple(_device(each) for each in _objects(item, "devices")),
    )


def _device(item: Object) -> DeviceSight:
    holder = _mapping(item.get("holder"))
    name = f"{_text(holder, 'namespace')}/{_text(holder, 'pod')}" if holder else ""
    return DeviceSight(
        _text(item, "id"), _text(item, "health"), _text(item, "reason"), name, item.get("releasing") is True
    )


# --- values of JSON -------------------------------------------------------------------------------------------------


def _mapping(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _text(value: Object, name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _objects(value: Object, name: str) -> Sequence[Object]:
    found = value.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp() if timestamp else None
    except ValueError:
        return None


def merged(pods: Iterable[PodSight]) -> Iterator[PodSight]:
    """Each pod once, with what its object and its directory tell."""

    found: dict[str, PodSight] = {}
    for pod in pods:
        before = found.get(pod.uid)
        if before is None:
            found[pod.uid] = pod
        elif not before.name or not before.containers:
            found[pod.uid] = replace(
                pod if pod.name else before, has_directory=before.has_directory or pod.has_directory
            )
        else:
            found[pod.uid] = replace(before, has_directory=before.has_directory or pod.has_directory)
    yield from found.values()
