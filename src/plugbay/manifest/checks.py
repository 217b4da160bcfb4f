"""The API server's checks of a Pod beyond its shape, in the API server's words where it has some.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``apimachinery/pkg/util/validation``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from plugbay.manifest.owners import check_owners
from plugbay.manifest.placement_checks import check_placement
from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import check_resources, invalid
from plugbay.manifest.security import check_security
from plugbay.model import dns
from plugbay.model.field_path import FieldPath
from plugbay.model.pods import Container, HostPath, Pod, Volume, VolumeMount

MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
MAX_DEADLINE_S: Final = 2**31 - 1

_ENV_NAME: Final = re.compile(r"[ -<>-~]+")

_REQUIRED: Final = "Required value"
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)

_Item = TypeVar("_Item")


def check_pod(pod: Pod, report: ManifestReport) -> None:
    """Report everything an API server would refuse in ``pod``."""
    _check_metadata(pod, report)
    spec = pod.spec
    if not spec.containers:
        report.problem(("spec", "containers"), _REQUIRED)
    if spec.termination_grace_period_s < 0:
        problem = invalid(spec.termination_grace_period_s, "must be greater than or equal to 0")
        report.problem(("spec", "terminationGracePeriodSeconds"), problem)
    if spec.active_deadline_s is not None and not 1 <= spec.active_deadline_s <= MAX_DEADLINE_S:
        problem = invalid(spec.active_deadline_s, f"must be between 1 and {MAX_DEADLINE_S}, inclusive")
        report.problem(("spec", "activeDeadlineSeconds"), problem)
    if spec.node_name is not None:
        _check_subdomain(spec.node_name, ("spec", "nodeName"), report)
    check_placement(spec.placement, report, node_name=spec.node_name)
    volumes = list(_numbered("volumes", spec.volumes))
    for path, volume in volumes:
        _check_volume(volume, path, report)
    _check_distinct((((*path, "name"), volume.name) for path, volume in volumes), report)
    containers = [*_numbered("initContainers", spec.init_containers), *_numbered("containers", spec.containers)]
    _check_distinct((((*path, "name"), container.name) for path, container in containers), report)
    for path, container in containers:
        _check_container(container, path, report)
        _check_volumes_exist(container, path, pod, report)
        check_security(container.security, (*path, "securityContext"), report)
    check_security(spec.security, ("spec", "securityContext"), report)
    if spec.hostname:
        _check_label(spec.hostname, ("spec", "hostname"), report)
    for index, gate in enumerate(spec.readiness_gates):
        where = ("spec", "readinessGates", index, "conditionType")
        if gate:
            _check_key(gate, where, report)
        else:
            report.problem(where, _REQUIRED)
    if spec.runtime_class:
        _check_subdomain(spec.runtime_class, ("spec", "runtimeClassName"), report)


def _numbered(name: str, items: Iterable[_Item]) -> Iterator[tuple[FieldPath, _Item]]:
    for index, item in enumerate(items):
        yield ("spec", name, index), item


def _check_metadata(pod: Pod, report: ManifestReport) -> None:
    base: FieldPath = ("metadata",)
    if pod.name:
        _check_subdomain(pod.name, (*base, "name"), report)
    elif not pod.generate_name:
        report.problem((*base, "name"), "Required value: name or generateName is required")
    if pod.generate_name and not re.fullmatch(dns.SUBDOMAIN, pod.generate_name.rstrip("-")):  # of any length: it is cut
        report.problem((*base, "generateName"), invalid(pod.generate_name, _SUBDOMAIN_RULE))
    _check_label(pod.namespace, (*base, "namespace"), report)
    for key, value in pod.labels.items():
        _check_key(key, (*base, "labels", key), report)
        if value and not dns.is_name(value):
            rule = f"a valid label must be empty or {_QUALIFIED_RULE}, in no more than {dns.MAX_LABEL} characters"
            report.problem((*base, "labels", key), invalid(value, rule))
    for key in pod.annotations:
        _check_key(key.lower(), (*base, "annotations", key), report)
    if sum(len(key.encode()) + len(value.encode()) for key, value in pod.annotations.items()) > MAX_ANNOTATIONS_BYTES:
        report.problem((*base, "annotations"), f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes")
    check_owners(pod.owners, report)
    for index, finalizer in enumerate(pod.finalizers):
        _check_key(finalizer, (*base, "finalizers", index), report)


def _check_container(container: Container, path: FieldPath, report: ManifestReport) -> None:
    _check_label(container.name, (*path, "name"), report)
    for index, variable in enumerate(container.env):
        where = (*path, "env", index, "name")
        if not variable.name:
            report.problem(where, _REQUIRED)
        elif not _ENV_NAME.fullmatch(variable.name):
            report.problem(where, invalid(variable.name, "must consist of printable ASCII characters other than '='"))
    for index, mount in enumerate(container.volume_mounts):
        _check_mount(mount, (*path, "volumeMounts", index), report)
        if any(mount.mount_path == earlier.mount_path for earlier in container.volume_mounts[:index]):
            report.problem((*path, "volumeMounts", index, "mountPath"), invalid(mount.mount_path, "must be unique"))
    check_resources(container, (*path, "resources"), report)


def _check_mount(mount: VolumeMount, path: FieldPath, report: ManifestReport) -> None:
    if not mount.name:
        report.problem((*path, "name"), _REQUIRED)
    if not mount.mount_path:
        report.problem((*path, "mountPath"), _REQUIRED)
    elif not mount.mount_path.startswith("/"):
        report.problem((*path, "mountPath"), invalid(mount.mount_path, "must be an absolute path"))
    if mount.sub_path.startswith("/"):
        report.problem((*path, "subPath"), invalid(mount.sub_path, "must be a relative path"))
    elif ".." in mount.sub_path.split("/"):
        report.problem((*path, "subPath"), invalid(mount.sub_path, "must not contain '..'"))


def _check_volumes_exist(container: Container, path: FieldPath, pod: Pod, report: ManifestReport) -> None:
    names = {volume.name for volume in pod.spec.volumes}
    if "" in names or report.is_blamed(("spec", "volumes")):
        return  # a name is missing or lost, and that has been said
    for index, mount in enumerate(container.volume_mounts):
        if mount.name not in names:
            report.problem((*path, "volumeMounts", index, "name"), f'Not found: "{mount.name}"')


def _check_volume(volume: Volume, path: FieldPath, report: ManifestReport) -> None:
    _check_label(volume.name, (*path, "name"), report)
    if not isinstance(volume.source, HostPath):
        return
    where = (*path, "hostPath", "path")
    if not volume.source.path:
        report.problem(where, _REQUIRED)
    elif not volume.source.path.startswith("/"):
        report.problem(where, invalid(volume.source.path, "must be an absolute path"))
    elif ".." in volume.source.path.split("/"):
        report.problem(where, invalid(volume.source.path, "must not contain '..'"))


def _check_distinct(names: Iterable[tuple[FieldPath, str]], report: ManifestReport) -> None:
    seen: set[str] = set()
    for path, name in names:
        if name in seen:
            report.problem(path, f'Duplicate value: "{name}"')
        seen.add(name)


def _check_subdomain(name: str, path: FieldPath, report: ManifestReport) -> None:
    if len(name) > dns.MAX_SUBDOMAIN:
        report.problem(path, invalid(name, f"must be no more than {dns.MAX_SUBDOMAIN} characters"))
    elif not dns.is_subdomain(name):
        report.problem(path, invalid(name, _SUBDOMAIN_RULE))


def _check_label(name: str, path: FieldPath, report: ManifestReport) -> None:
    if not name:
        report.problem(path, _REQUIRED)
    elif len(name) > dns.MAX_LABEL:
        report.problem(path, invalid(name, f"must be no more than {dns.MAX_LABEL} characters"))
    elif not dns.is_label(name):
        report.problem(path, invalid(name, _LABEL_RULE))


def _check_key(key: str, path: FieldPath, report: ManifestReport) -> None:
    """The key of a label or annotation: a name with an optional DNS prefix before a slash."""
    prefix, slash, name = key.rpartition("/")
    if slash and not dns.is_subdomain(prefix):
        report.problem(path, invalid(key, f"prefix part {_SUBDOMAIN_RULE}"))
    elif not dns.is_name(name):
        report.problem(path, invalid(key, f"name part {_QUALIFIED_RULE}, in no more than {dns.MAX_LABEL} characters"))
