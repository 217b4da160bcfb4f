"""The content of Allocate's answers: paths, permissions, variables, annotations, CDI names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from plugbay.cdi.names import names_in, parse_qualified_name
from plugbay.errors import InvalidCdiName
from plugbay.model.edits import ContainerEdits
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import RuleSeverity, rule
from plugbay.testing.conformance.rules.allocate import ALLOCATE, AllocateSeen

_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto"
_OCI: Final = "OCI runtime-spec 1.2 config.md"
_CDI: Final = "CDI SPEC.md 1.0, device names"
_PERMISSIONS: Final = frozenset("rwm")
_LONGEST_KEY: Final = 63


@rule(
    411,
    "Host paths of device nodes are absolute, and exist",
    RuleSeverity.MUST,
    source="containerd 2.1 pkg/cri/opts: a missing node fails the container with CreateContainerError",
    scene=ALLOCATE,
)
def names_nodes_that_exist(seen: AllocateSeen) -> Iterator[str]:
    paths = _paths(seen, nodes=True)
    for path in paths:
        if not path.startswith("/"):
            yield f"the device node {path!r} is not an absolute path on the host"
        elif seen.host.kinds.get(path) == "missing":
            yield f"the device node {path!r} does not exist on the host"


@rule(
    412,
    "Host paths of device nodes are devices",
    RuleSeverity.MUST,
    source="containerd 2.1 oci.WithDevices: a file fails the container with `not a device node`; a directory stands "
    "for all devices below it",
    scene=ALLOCATE,
)
def names_devices(seen: AllocateSeen) -> Iterator[str]:
    for path in _paths(seen, nodes=True):
        kind = seen.host.kinds.get(path)
        if path.startswith("/") and kind not in ("missing", "device", "devices", None):
            what = {"file": "a plain file", "directory": "a directory without devices"}.get(kind, "not a device")
            yield f"{path!r} is offered as a device node, and is {what}"


@rule(
    413,
    "Container paths of device nodes are absolute",
    RuleSeverity.SHOULD,
    source=f"{_OCI}, linux.devices.path: the full path in the container",
    scene=ALLOCATE,
)
def puts_nodes_at_absolute_paths(seen: AllocateSeen) -> Iterator[str]:
    nodes = {node.container_path for _, edits in seen.edits for node in edits.device_nodes}
    _needs(nodes, "device nodes")
    yield from (f"the container path {each!r} of a device node is not absolute" for each in _relative(nodes))


@rule(
    414,
    "Permissions of device nodes are of the letters r, w and m",
    RuleSeverity.MUST,
    source=f"{_API}, DeviceSpec.permissions; runc fails the start of the container otherwise",
    scene=ALLOCATE,
)
def gives_known_permissions(seen: AllocateSeen) -> Iterator[str]:
    nodes = {(node.host_path, node.permissions) for _, edits in seen.edits for node in edits.device_nodes}
    _needs(nodes, "device nodes")
    for path, permissions in sorted(nodes):
        if not permissions:
            yield f"the device node {path!r} has no permissions: its container does not start"
        elif not set(permissions) <= _PERMISSIONS or len(set(permissions)) != len(permissions):
            yield f"the device node {path!r} has the permissions {permissions!r}; they are of r, w and m, each once"


@rule(
    415,
    "Host paths of mounts are absolute, and exist",
    RuleSeverity.SHOULD,
    source="containerd 2.1 and CRI-O make a directory where nothing is: the container finds it empty",
    scene=ALLOCATE,
)
def mounts_what_exists(seen: AllocateSeen) -> Iterator[str]:
    for path in _paths(seen, nodes=False):
        if not path.startswith("/"):
            yield f"the host path {path!r} of a mount is not absolute"
        elif seen.host.kinds.get(path) == "missing":
            yield f"the host path {path!r} of a mount does not exist"


@rule(
    416,
    "Container paths of mounts are absolute, and not the root",
    RuleSeverity.MUST,
    source=f"{_OCI}, mounts.destination: an absolute path",
    scene=ALLOCATE,
)
def mounts_at_absolute_paths(seen: AllocateSeen) -> Iterator[str]:
    places = {mount.container_path for _, edits in seen.edits for mount in edits.mounts}
    _needs(places, "mounts")
    yield from (f"the container path {each!r} of a mount is not absolute" for each in _relative(places))
    if any(each.rstrip("/") == "" and each for each in places):
        yield "a mount covers the container's root directory"


@rule(
    417,
    "No container path is given twice in an answer",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/pod_devices.go: of two the first is taken, silently",
    scene=ALLOCATE,
)
def gives_each_path_once(seen: AllocateSeen) -> Iterator[str]:
    found: dict[str, None] = {}
    for _, edits in seen.edits:
        for what, paths in (
            ("a device node", Counter(node.container_path for node in edits.device_nodes)),
            ("a mount", Counter(mount.container_path for mount in edits.mounts)),
        ):
            found.update((f"{what} at {each!r} is given twice", None) for each, count in paths.items() if count > 1)
    yield from found


@rule(
    418,
    "Names of variables are not empty, and hold no =",
    RuleSeverity.MUST,
    source=f"{_OCI}, process.env; POSIX.1-2024 8.1: a name is not empty and holds no =",
    scene=ALLOCATE,
)
def names_variables(seen: AllocateSeen) -> Iterator[str]:
    names = {(name, value) for _, edits in seen.edits for name, value in edits.env.items()}
    _needs(names, "variables")
    for name, value in sorted(names):
        if not name or "=" in name or "\0" in name:
            yield f"the variable {name!r} has a name that no environment can hold"
        elif "\0" in value:
            yield f"the value of the variable {name!r} holds a NUL byte"


@rule(
    419,
    "Keys of annotations are qualified names",
    RuleSeverity.SHOULD,
    source="Kubernetes annotations, syntax: [prefix/]name, the name of at most 63 characters",
    scene=ALLOCATE,
)
def names_annotations(seen: AllocateSeen) -> Iterator[str]:
    keys = {key for _, edits in seen.edits for key in edits.annotations}
    _needs(keys, "annotations")
    for key in sorted(keys):
        prefix, slash, name = key.rpartition("/")
        if not name or len(name) > _LONGEST_KEY or (slash and not prefix) or "/" in prefix or " " in key:
            yield f"the annotation {key!r} is not named as [prefix/]name"


@rule(
    420,
    "Annotations for CDI hold qualified device names",
    RuleSeverity.MUST,
    source="CDI pkg/cdi/annotations.go: an engine injects nothing, and the container fails",
    scene=ALLOCATE,
)
def annotates_cdi_devices(seen: AllocateSeen) -> Iterator[str]:
    annotated = [edits.annotations for _, edits in seen.edits if any(map(_is_for_cdi, edits.annotations))]
    _needs(annotated, "annotations for CDI")
    found: dict[str, None] = {}
    for each in annotated:
        try:
            names_in(each)
        except InvalidCdiName as error:
            found[f"an annotation for CDI cannot be used: {error}"] = None
    yield from found


@rule(
    421,
    "Names of CDI devices are qualified: vendor/class=name",
    RuleSeverity.MUST,
    source=f"{_CDI}; containerd fails the container",
    scene=ALLOCATE,
)
def names_cdi_devices(seen: AllocateSeen) -> Iterator[str]:
    names = {name for _, edits in seen.edits for name in edits.cdi_devices}
    _needs(names, "CDI devices")
    for name in sorted(names):
        try:
            parse_qualified_name(name)
        except InvalidCdiName as error:
            yield str(error)


@rule(
    422,
    "CDI devices are defined by a spec",
    RuleSeverity.MUST,
    source="containerd 2.1: `unresolvable CDI devices` fails the container with CreateContainerError",
    scene=ALLOCATE,
)
def defines_cdi_devices(seen: AllocateSeen) -> Iterator[str]:
    if not any(edits.cdi_devices or any(map(_is_for_cdi, edits.annotations)) for _, edits in seen.edits):
        raise NotApplicable("no answer has CDI devices")
    for name in seen.host.unresolved:
        yield f"the CDI device {name} is in no spec; looked for in {', '.join(seen.host.directories)}"


def _is_for_cdi(key: str) -> bool:
    return key.startswith("cdi.k8s.io/")


def _paths(seen: AllocateSeen, *, nodes: bool) -> list[str]:
    parts = [part for _, edits in seen.edits for part in _parts(edits, nodes=nodes)]
    _needs(parts, "device nodes" if nodes else "mounts")
    return sorted(set(parts))


def _parts(edits: ContainerEdits, *, nodes: bool) -> list[str]:
    if nodes:
        return [node.host_path for node in edits.device_nodes]
    return [mount.host_path for mount in edits.mounts]


def _relative(paths: Iterable[str]) -> list[str]:
    return sorted(each for each in paths if not each.startswith("/"))


def _needs(found: object, what: str) -> None:
    if not found:
        raise NotApplicable(f"no answer has {what}")
