"""The API server's checks of projections, and of references to config maps and secrets.

They look at the v1 object: a value cannot say that two things were asked for at once.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``validateProjectionSources``,
``validateConfigMapVolumeSource``, ``validateDownwardAPIVolumeFile``, ``validateLocalNonReservedPath``,
``validateContainerResourceFieldSelector``, ``validateEnvFromSource``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from plugbay.manifest.projections import (
    V1EnvFrom,
    V1FieldFile,
    V1FieldFiles,
    V1KeyFiles,
    V1Projections,
    V1ResourceRef,
    V1TokenFile,
)
from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.model.dns import MAX_SUBDOMAIN, SUBDOMAIN
from plugbay.model.downward import is_file_field_path
from plugbay.model.field_path import FieldPath

_REQUIRED: Final = "Required value"
_MODE_RULE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_MODE: Final = 0o777
_SHORTEST_TOKEN_S: Final = 600
_LONGEST_TOKEN_S: Final = 1 << 32
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_KEY_RULE: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_ENV_NAME: Final = re.compile(r"[ -<>-~]+")
_RESOURCES: Final = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS: Final = ("1m", "1")
_BYTE_DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_ENV_REFERENCES: Final = ("configMapRef", "secretRef")
_PROJECTED: Final = ("configMap", "secret", "downwardAPI", "serviceAccountToken")


def check_projections(volume: V1Projections, path: FieldPath, report: ManifestReport) -> None:
    """Report what an API server would refuse in a volume of files that the node writes."""
    if (files := volume.get("configMap")) is not None:
        _check_key_files(files, (*path, "configMap"), report, name="name")
    if (files := volume.get("secret")) is not None:
        _check_key_files(files, (*path, "secret"), report, name="secretName")
    if (fields := volume.get("downwardAPI")) is not None:
        _check_fields(fields, (*path, "downwardAPI"), report)
    if (projected := volume.get("projected")) is not None:
        where = (*path, "projected")
        _check_mode(projected.get("defaultMode"), (*where, "defaultMode"), report)
        taken: set[str] = set()
        for index, source in enumerate(projected.get("sources", [])):
            _check_source(dict(source), (*where, "sources", index), report)
            _check_paths(_paths(dict(source)), taken, (*where, "sources", index), report)


def _check_source(source: Mapping[str, Any], path: FieldPath, report: ManifestReport) -> None:
    given = [name for name in _PROJECTED if name in source]
    if not given:
        if report.is_sound(path):
            report.problem(path, f"{_REQUIRED}: must specify one of {', '.join(_PROJECTED)}")
        return
    if len(given) > 1:
        report.problem((*path, given[1]), "Forbidden: may not specify more than 1 volume type per source")
    where = (*path, given[0])
    match given[0]:
        case "downwardAPI":
            _check_fields(source["downwardAPI"], where, report)
        case "serviceAccountToken":
            _check_token(source["serviceAccountToken"], where, report)
        case name:
            _check_key_files(source[name], where, report, name="name")


def _check_key_files(files: V1KeyFiles, path: FieldPath, report: ManifestReport, *, name: str) -> None:
    given = files.get("secretName", "") if name == "secretName" else files.get("name", "")
    check_object_name(given, (*path, name), report)
    _check_mode(files.get("defaultMode"), (*path, "defaultMode"), report)
    for index, item in enumerate(files.get("items", [])):
        where = (*path, "items", index)
        if not item.get("key"):
            _miss((*where, "key"), report)
        _check_path(item.get("path", ""), (*where, "path"), report)
        _check_mode(item.get("mode"), (*where, "mode"), report)


def _check_fields(fields: V1FieldFiles, path: FieldPath, report: ManifestReport) -> None:
    _check_mode(fields.get("defaultMode"), (*path, "defaultMode"), report)
    for index, item in enumerate(fields.get("items", [])):
        where = (*path, "items", index)
        _check_path(item.get("path", ""), (*where, "path"), report)
        _check_mode(item.get("mode"), (*where, "mode"), report)
        _check_field(item, where, report)


def _check_field(item: V1FieldFile, path: FieldPath, report: ManifestReport) -> None:
    if "fieldRef" in item and "resourceFieldRef" in item:
        report.problem(path, invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
    elif "fieldRef" in item:
        field, where = item["fieldRef"].get("fieldPath", ""), (*path, "fieldRef", "fieldPath")
        if not field:
            _miss(where, report)
        elif not is_file_field_path(field):
            report.problem(where, f'Unsupported value: "{field}": a file can hold labels, annotations, name and uid')
    elif "resourceFieldRef" in item:
        check_resource(item["resourceFieldRef"], (*path, "resourceFieldRef"), report, in_volume=True)
    elif report.is_sound(path):
        report.problem(path, f"{_REQUIRED}: one of fieldRef and resourceFieldRef is required")


def _check_token(token: V1TokenFile, path: FieldPath, report: ManifestReport) -> None:
    _check_path(token.get("path", ""), (*path, "path"), report)
    expires_s = token.get("expirationSeconds", _SHORTEST_TOKEN_S)
    if expires_s < _SHORTEST_TOKEN_S:
        problem = invalid(expires_s, "may not specify a duration less than 10 minutes")
        report.problem((*path, "expirationSeconds"), problem)
    elif expires_s > _LONGEST_TOKEN_S:
        problem = invalid(expires_s, "may not specify a duration larger than 2^32 seconds")
        report.problem((*path, "expirationSeconds"), problem)


def check_resource(reference: V1ResourceRef, path: FieldPath, report: ManifestReport, *, in_volume: bool) -> None:
    """Report what an API server would refuse in a ``resourceFieldRef``."""
    if in_volume and not reference.get("containerName"):
        _miss((*path, "containerName"), report)
        return
    resource = reference.get("resource", "")
    if not resource:
        _miss((*path, "resource"), report)
        return
    if resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        supported = ", ".join(f'"{name}"' for name in _RESOURCES)
        report.problem((*path, "resource"), f'Unsupported value: "{resource}": supported values: {supported}')
        return
    divisors = _CPU_DIVISORS if resource.endswith(".cpu") else _BYTE_DIVISORS
    divisor = reference.get("divisor")
    if divisor is not None and divisor.value and str(divisor) not in divisors:
        name = resource.partition(".")[2]
        rule = f"only divisor's values {', '.join(divisors)} are supported with the {name} resource"
        report.problem((*path, "divisor"), invalid(divisor, rule))


def check_env_from(sources: Iterable[V1EnvFrom], path: FieldPath, report: ManifestReport) -> None:
    """Report what an API server would refuse in ``envFrom``."""
    for index, source in enumerate(sources):
        where = (*path, index)
        prefix = source.get("prefix", "")
        if prefix and not _ENV_NAME.fullmatch(prefix):
            report.problem((*where, "prefix"), invalid(prefix, "must consist of printable ASCII characters except '='"))
        given = [name for name in _ENV_REFERENCES if name in source]
        if not given and report.is_sound(where):
            report.problem(where, invalid("", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            report.problem(where, invalid("", "may not have more than one field specified at a time"))
        for name in given:
            reference: Mapping[str, Any] = dict(source)[name]  # type: ignore[assignment]  # not the prefix
            check_object_name(reference.get("name", ""), (*where, name, "name"), report)


def check_key(key: str, path: FieldPath, report: ManifestReport) -> None:
    """Report a key that no config map or secret can have."""
    if not key:
        _miss(path, report)
    elif not _KEY.fullmatch(key):
        report.problem(path, invalid(key, _KEY_RULE))


def check_object_name(name: str, path: FieldPath, report: ManifestReport) -> None:
    """Report a name that no config map or secret can have."""
    if not name:
        _miss(path, report)
    elif len(name) > MAX_SUBDOMAIN or not re.fullmatch(SUBDOMAIN, name):
        report.problem(path, invalid(name, "must be a lowercase RFC 1123 subdomain"))


def _check_path(name: str, path: FieldPath, report: ManifestReport) -> None:
    if not name:
        _miss(path, report)
    elif name.startswith("/"):
        report.problem(path, invalid(name, "must be a relative path"))
    elif ".." in name.split("/"):
        report.problem(path, invalid(name, "must not contain '..'"))
    elif name.startswith(".."):
        report.problem(path, invalid(name, "must not start with '..'"))


def _check_mode(mode: int | None, path: FieldPath, report: ManifestReport) -> None:
    if mode is not None and not 0 <= mode <= _MAX_MODE:
        report.problem(path, invalid(mode, _MODE_RULE))


def _check_paths(paths: Iterable[str], taken: set[str], path: FieldPath, report: ManifestReport) -> None:
    for each in paths:
        if each in taken:
            report.problem(path, invalid(each, "conflicting duplicate paths"))
        taken.add(each)


def _paths(source: Mapping[str, Any]) -> Iterator[str]:
    for name in _PROJECTED[:3]:
        for item in source.get(name, {}).get("items", []):
            if item.get("path"):
                yield item["path"]
    if path := source.get("serviceAccountToken", {}).get("path"):
        yield path


def _miss(path: FieldPath, report: ManifestReport) -> None:
    report.problem(path, _REQUIRED)
