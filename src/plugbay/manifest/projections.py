"""Projections and references of a pod to config maps, secrets, accounts and its own fields, between v1 and our values.

`projection_checks` has the API server's checks of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from plugbay.model.projections import (
    DEFAULT_FILE_MODE,
    DEFAULT_TOKEN_S,
    ONE,
    ConfigKind,
    EnvSource,
    FieldFile,
    FieldFiles,
    KeyFile,
    KeyFiles,
    KeyReference,
    ProjectedSource,
    Projection,
    ProjectionKind,
    ResourceReference,
    TokenFile,
)
from plugbay.model.quantity import Quantity


class V1Name(TypedDict, total=False):
    """A reference to an object of the same namespace."""

    name: str


class V1FieldRef(TypedDict, total=False):
    fieldPath: str


class V1ResourceRef(TypedDict, total=False):
    containerName: str
    resource: str
    divisor: Quantity


class V1KeyRef(TypedDict, total=False):
    name: str
    key: str
    optional: bool


class V1EnvRef(TypedDict, total=False):
    name: str
    optional: bool


class V1EnvFrom(TypedDict, total=False):
    prefix: str
    configMapRef: V1EnvRef
    secretRef: V1EnvRef


class V1KeyToPath(TypedDict, total=False):
    key: str
    path: str
    mode: int


class V1KeyFiles(TypedDict, total=False):
    """A config map or secret as a volume, or as a part of one: a volume of a secret calls it ``secretName``."""

    name: str
    secretName: str
    items: list[V1KeyToPath]
    optional: bool
    defaultMode: int


class V1FieldFile(TypedDict, total=False):
    path: str
    fieldRef: V1FieldRef
    resourceFieldRef: V1ResourceRef
    mode: int


class V1FieldFiles(TypedDict, total=False):
    items: list[V1FieldFile]
    defaultMode: int


class V1TokenFile(TypedDict, total=False):
    audience: str
    expirationSeconds: int
    path: str


class V1ProjectedSource(TypedDict, total=False):
    configMap: V1KeyFiles
    secret: V1KeyFiles
    downwardAPI: V1FieldFiles
    serviceAccountToken: V1TokenFile


class V1Projected(TypedDict, total=False):
    sources: list[V1ProjectedSource]
    defaultMode: int


class V1Projections(TypedDict, total=False):
    """The fields of a Volume that are projections."""

    configMap: V1KeyFiles
    secret: V1KeyFiles
    downwardAPI: V1FieldFiles
    projected: V1Projected


_ENV_FIELDS = {ConfigKind.CONFIG_MAP: "configMapRef", ConfigKind.SECRET: "secretRef"}
_KEY_FIELDS = {ConfigKind.CONFIG_MAP: "configMapKeyRef", ConfigKind.SECRET: "secretKeyRef"}


# --- reading --------------------------------------------------------------------------------------------------------


def projection_of(v1: V1Projections) -> Projection | None:
    """The projection in a v1 Volume; None if it holds something else."""
    if (files := v1.get("configMap")) is not None:
        source = _key_files(ConfigKind.CONFIG_MAP, files, name=files.get("name", ""))
        return Projection(ProjectionKind.CONFIG_MAP, (source,), _default_mode(files))
    if (files := v1.get("secret")) is not None:
        source = _key_files(ConfigKind.SECRET, files, name=files.get("secretName", ""))
        return Projection(ProjectionKind.SECRET, (source,), _default_mode(files))
    if (fields := v1.get("downwardAPI")) is not None:
        return Projection(ProjectionKind.DOWNWARD_API, (_field_files(fields),), _default_mode(fields))
    if (projected := v1.get("projected")) is not None:
        sources = tuple(source for each in projected.get("sources", []) for source in _projected(each))
        return Projection(ProjectionKind.PROJECTED, sources, _default_mode(projected))
    return None


def _default_mode(v1: V1KeyFiles | V1FieldFiles | V1Projected) -> int:
    return v1.get("defaultMode", DEFAULT_FILE_MODE)


def _projected(v1: V1ProjectedSource) -> Iterable[ProjectedSource]:
    if (files := v1.get("configMap")) is not None:
        yield _key_files(ConfigKind.CONFIG_MAP, files, name=files.get("name", ""))
    elif (files := v1.get("secret")) is not None:
        yield _key_files(ConfigKind.SECRET, files, name=files.get("name", ""))
    elif (fields := v1.get("downwardAPI")) is not None:
        yield _field_files(fields)
    elif (token := v1.get("serviceAccountToken")) is not None:
        expires_s = token.get("expirationSeconds", DEFAULT_TOKEN_S)
        yield TokenFile(token.get("path", ""), token.get("audience", ""), expires_s)


def _key_files(kind: ConfigKind, v1: V1KeyFiles, *, name: str) -> KeyFiles:
    items = tuple(KeyFile(each.get("key", ""), each.get("path", ""), each.get("mode")) for each in v1.get("items", []))
    return KeyFiles(kind, name, items, v1.get("optional", False))


def _field_files(v1: V1FieldFiles) -> FieldFiles:
    return FieldFiles(tuple(_field_file(each) for each in v1.get("items", [])))


def _field_file(v1: V1FieldFile) -> FieldFile:
    resource = v1.get("resourceFieldRef")
    field = v1.get("fieldRef", {}).get("fieldPath", "") if resource is None else resource_of(resource)
    return FieldFile(v1.get("path", ""), field, v1.get("mode"))


def resource_of(v1: V1ResourceRef) -> ResourceReference:
    """``resourceFieldRef``; a divisor of 0 is the default one."""
    divisor = v1.get("divisor", ONE)
    return ResourceReference(v1.get("resource", ""), v1.get("containerName", ""), divisor if divisor.value else ONE)


def key_of(kind: ConfigKind, v1: V1KeyRef) -> KeyReference:
    return KeyReference(kind, v1.get("name", ""), v1.get("key", ""), v1.get("optional", False))


def env_from_of(v1: Iterable[V1EnvFrom]) -> tuple[EnvSource, ...]:
    return tuple(_env_source(each) for each in v1)


def _env_source(v1: V1EnvFrom) -> EnvSource:
    kind = ConfigKind.SECRET if "secretRef" in v1 else ConfigKind.CONFIG_MAP
    reference = v1.get("secretRef") or v1.get("configMapRef") or V1EnvRef()
    return EnvSource(kind, reference.get("name", ""), v1.get("prefix", ""), reference.get("optional", False))


# --- writing --------------------------------------------------------------------------------------------------------


def projection_to_v1(projection: Projection) -> dict[str, object]:
    """The field of a v1 Volume, and its value."""
    if projection.kind is ProjectionKind.PROJECTED:
        inner: dict[str, object] = {"sources": [_source_to_v1(each) for each in projection.sources]}
    else:
        [source] = projection.sources
        [inner] = _source_to_v1(source).values()
        if projection.kind is ProjectionKind.SECRET:
            inner = {("secretName" if name == "name" else name): value for name, value in inner.items()}
    return {projection.kind.value: inner | {"defaultMode": projection.default_mode}}


def _source_to_v1(source: ProjectedSource) -> dict[str, dict[str, object]]:
    match source:
        case KeyFiles(kind, name, items, optional):
            field = "configMap" if kind is ConfigKind.CONFIG_MAP else "secret"
            written = [_with_mode({"key": each.key, "path": each.path}, each.mode) for each in items]
            return {field: {"name": name} | _given(items=written, optional=optional)}
        case FieldFiles(fields):
            return {"downwardAPI": _given(items=[_field_to_v1(each) for each in fields])}
        case TokenFile(path, audience, expires_s):
            token = _given(audience=audience) | {"expirationSeconds": expires_s, "path": path}
            return {"serviceAccountToken": token}


def _field_to_v1(file: FieldFile) -> dict[str, object]:
    if isinstance(file.field, str):
        field: dict[str, object] = {"fieldRef": field_ref_to_v1(file.field)}
    else:
        field = {"resourceFieldRef": resource_to_v1(file.field)}
    return _with_mode({"path": file.path} | field, file.mode)


def field_ref_to_v1(path: str) -> dict[str, object]:
    return {"fieldPath": path}


def resource_to_v1(reference: ResourceReference) -> dict[str, object]:
    divisor = "0" if reference.divisor == ONE else str(reference.divisor)  # as an API server fills it in
    return _given(containerName=reference.container) | {"resource": reference.resource, "divisor": divisor}


def value_from_to_v1(source: KeyReference | ResourceReference) -> dict[str, object]:
    """The ``valueFrom`` of a variable."""
    if isinstance(source, ResourceReference):
        return {"resourceFieldRef": resource_to_v1(source)}
    return {_KEY_FIELDS[source.kind]: {"name": source.name, "key": source.key} | _given(optional=source.optional)}


def env_from_to_v1(sources: Iterable[EnvSource]) -> list[dict[str, object]]:
    return [
        _given(prefix=each.prefix) | {_ENV_FIELDS[each.kind]: {"name": each.name} | _given(optional=each.optional)}
        for each in sources
    ]


def _with_mode(v1: dict[str, object], mode: int | None) -> dict[str, object]:
    return v1 if mode is None else v1 | {"mode": mode}


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}
