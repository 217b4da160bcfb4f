"""The content of a pod's files and variables, made of other objects. Pure.

Source: kubelet 1.36 ``kubelet_pods.go`` (``makeEnvironmentVariables``), ``pkg/volume/projected/projected.go``
(``collectData``), ``pkg/volume/configmap/configmap.go``, ``pkg/volume/secret/secret.go`` (``MakePayload``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from plugbay.errors import ContainerStartError, VolumeUnusable
from plugbay.model.downward import field_value, file_text
from plugbay.model.pods import Container, EnvVar, Pod, Volume, VolumeMount
from plugbay.model.projections import (
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
from plugbay.model.registry_logins import PullAccess, RegistryLogin, logins_of
from plugbay.model.resource_fields import resource_text
from plugbay.model.security import effective_security
from plugbay.pods.running.configs import ConfigData, ConfigKey
from plugbay.values import dataclass

Lookup = Callable[[ConfigKey], ConfigData | None]

ACCOUNT_VOLUME: Final = "kube-api-access"
ACCOUNT_DIRECTORY: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_AUTHORITY: Final = "kube-root-ca.crt"
"""The config map, in each namespace, of the certificate that the API's clients have to trust."""
_TOKEN_MODE: Final = 0o600
_TOKEN_S: Final = 3607
"""The lifetime that an API server gives the tokens it adds to pods."""
_NO_DATA: Final = ConfigData({})
_TITLES: Final = {ConfigKind.CONFIG_MAP: "ConfigMap", ConfigKind.SECRET: "Secret"}
_NO_KEY: Final = {
    ConfigKind.CONFIG_MAP: "configmap references non-existent config key: ",
    ConfigKind.SECRET: "references non-existent secret key: ",
}


@dataclass(frozen=True, slots=True)
class ProjectedFile:
    """A file of a volume. ``owner`` is a user ID; None is the node's user."""

    content: bytes
    mode: int
    owner: int | None = None


Payload = Mapping[str, ProjectedFile]
"""The files of a volume by their paths in it."""


@dataclass(frozen=True, slots=True)
class VolumeFiles:
    """The files of a pod's projected volumes, by the names of these, at a moment."""

    payloads: Mapping[str, Payload]
    at: datetime


@dataclass(frozen=True, slots=True)
class EnvGrounds:
    """The sources of variables, besides the pod itself.

    Attributes:
        capacity: of the node; cpu in thousandths.
        host_ip: the address of the node.
        pod_ips: the pod's own addresses; none when it shares the node's network.
        services: variables that a container has unless it sets them itself.
    """

    lookup: Lookup
    capacity: Mapping[str, int]
    host_ip: str
    pod_ips: Sequence[str]
    services: Mapping[str, str]


def config_keys(pod: Pod) -> frozenset[ConfigKey]:
    """The config maps and secrets whose changes matter to ``pod``."""
    return frozenset(ConfigKey(kind, pod.namespace, name) for kind, name in _references(pod))


def _references(pod: Pod) -> Iterator[tuple[ConfigKind, str]]:
    yield from ((ConfigKind.SECRET, name) for name in pod.spec.pull_secrets)
    for volume in pod.spec.volumes:
        if isinstance(volume.source, Projection):
            yield from ((each.kind, each.name) for each in volume.source.sources if isinstance(each, KeyFiles))
    for container in pod.spec.all_containers:
        yield from ((each.kind, each.name) for each in container.env_from)
        for variable in container.env:
            if isinstance(variable.source, KeyReference):
                yield variable.source.kind, variable.source.name


def with_account_volume(pod: Pod) -> Pod:
    """``pod`` with the volume that an API server adds: token, authority and namespace, for each container.

    A container that mounts something at that place itself keeps that.

    Source: Kubernetes 1.36 ``plugin/pkg/admission/serviceaccount/admission.go``.
    """
    sources: tuple[ProjectedSource, ...] = (
        TokenFile("token", expires_s=_TOKEN_S),
        KeyFiles(ConfigKind.CONFIG_MAP, ROOT_AUTHORITY, (KeyFile("ca.crt", "ca.crt"),)),
        FieldFiles((FieldFile("namespace", "metadata.namespace"),)),
    )
    taken = {volume.name for volume in pod.spec.volumes}
    name = next(each for number in range(len(taken) + 1) if (each := f"{ACCOUNT_VOLUME}-{number}") not in taken)
    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            volumes=(*spec.volumes, Volume(name, Projection(ProjectionKind.PROJECTED, sources))),
            containers=tuple(_with_mount(each, name) for each in spec.containers),
            init_containers=tuple(_with_mount(each, name) for each in spec.init_containers),
        ),
    )


def _with_mount(container: Container, volume: str) -> Container:
    if any(each.mount_path == ACCOUNT_DIRECTORY for each in container.volume_mounts):
        return container
    mount = VolumeMount(volume, ACCOUNT_DIRECTORY, read_only=True)
    return replace(container, volume_mounts=(*container.volume_mounts, mount))


def pull_access(pod: Pod, names: Iterable[str], lookup: Lookup) -> PullAccess:
    """The logins in the secrets of these names."""
    logins: list[RegistryLogin] = []
    missing: list[str] = []
    for name in names:
        data = lookup(ConfigKey(ConfigKind.SECRET, pod.namespace, name))
        found = None if data is None else logins_of(data.type, data.values)
        if found is None:
            missing.append(name)
        else:
            logins += found
    return PullAccess(tuple(logins), tuple(missing))


# --- files ----------------------------------------------------------------------------------------------------------


def payload(
    name: str,
    projection: Projection,
    pod: Pod,
    *,
    lookup: Lookup,
    tokens: Mapping[TokenFile, str],
    capacity: Mapping[str, int],
) -> Payload:
    """The files of the volume ``name``; of two sources for one path the later counts.

    Args:
        tokens: one for each token file of the projection.
        capacity: of the node; cpu in thousandths.

    Raises:
        VolumeUnusable: an object or a key is missing, and it is not optional.
    """
    files: dict[str, ProjectedFile] = {}
    problems: list[str] = []
    for source in projection.sources:
        match source:
            case KeyFiles():
                files |= _key_files(source, pod, lookup, problems, default_mode=projection.default_mode)
            case FieldFiles(items):
                for item in items:
                    content = _field_content(item, pod, capacity).encode(errors="surrogateescape")
                    files[item.path] = ProjectedFile(content, _mode(item.mode, projection.default_mode))
            case TokenFile(path):
                owner = _common_user(pod)
                is_narrow = owner is not None or pod.spec.security.fs_group is not None
                mode = _TOKEN_MODE if is_narrow else projection.default_mode
                files[path] = ProjectedFile(tokens[source].encode(), mode, owner)
    problems += [f"{path} cannot be a path in a volume" for path in files if _leads_astray(path)]
    if problems:
        raise VolumeUnusable(name, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return files


def _leads_astray(path: str) -> bool:
    """Whether a path, such as a key of an object, leads out of a volume or to what the node keeps in it."""
    return path.startswith("..") or any(part in ("", ".", "..") for part in path.split("/"))


def _key_files(
    source: KeyFiles, pod: Pod, lookup: Lookup, problems: list[str], *, default_mode: int
) -> dict[str, ProjectedFile]:
    data = lookup(ConfigKey(source.kind, pod.namespace, source.name))
    if data is None:
        if not source.optional:
            problems.append(_not_found(source.kind, source.name))
            return {}
        data = _NO_DATA
    if not source.items:
        return {key: ProjectedFile(content, default_mode) for key, content in data.files.items()}
    files: dict[str, ProjectedFile] = {}
    for item in source.items:
        if item.key in data.files:
            files[item.path] = ProjectedFile(data.files[item.key], _mode(item.mode, default_mode))
        elif not source.optional:
            problems.append(_NO_KEY[source.kind] + item.key)
            return {}
    return files


def _mode(mode: int | None, default: int) -> int:
    return default if mode is None else mode


def _field_content(item: FieldFile, pod: Pod, capacity: Mapping[str, int]) -> str:
    if isinstance(item.field, str):
        return file_text(item.field, pod)
    container = next((each for each in pod.spec.all_containers if each.name == item.field.container), None)
    return "" if container is None else resource_text(item.field, container, capacity=capacity)


def _common_user(pod: Pod) -> int | None:
    """The user of all containers, if it is the same and known: then the token is that user's.

    Source: Kubernetes 1.36 ``pkg/util/pod`` (``FsUserFrom``).
    """
    users = {
        effective_security(pod=pod.spec.security, container=each.security).run_as_user
        for each in pod.spec.all_containers
    }
    return users.pop() if len(users) == 1 else None


def _not_found(kind: ConfigKind, name: str) -> str:
    return f'{kind.value} "{name}" not found'


# --- variables ------------------------------------------------------------------------------------------------------


def with_values(container: Container, pod: Pod, grounds: EnvGrounds) -> Container:
    """``container`` with its whole environment in ``env``; values that were taken from elsewhere are never expanded.

    Raises:
        ContainerStartError: an object or a key is missing, and it is not optional.
    """
    found = [variable for source in container.env_from for variable in _all_keys(source, pod, grounds.lookup)]
    own = [
        EnvVar(each.name, each.value) if value is None else EnvVar(each.name, _literal(value))
        for each in container.env
        for value in _values(each, container, pod, grounds)
    ]
    names = {each.name for each in (*found, *own)}
    services = [EnvVar(name, _literal(text)) for name, text in grounds.services.items() if name not in names]
    # First, so that values can refer to them.
    return replace(container, env=(*services, *found, *own), env_from=())


def _values(variable: EnvVar, container: Container, pod: Pod, grounds: EnvGrounds) -> Iterator[str | None]:
    """The value from elsewhere; None if the variable has its own, nothing if it is to be left out."""
    match variable.source:
        case ResourceReference(container=name) as reference:
            holder = next((each for each in pod.spec.all_containers if each.name == name), container)
            yield resource_text(reference, holder, capacity=grounds.capacity)
        case KeyReference() as reference:
            yield from _value_of_key(reference, pod, grounds.lookup)
        case None if variable.field_path:
            ips = tuple(grounds.pod_ips) or (grounds.host_ip,)
            yield field_value(variable.field_path, pod, host_ip=grounds.host_ip, pod_ips=ips)
        case None:
            yield None


def _value_of_key(reference: KeyReference, pod: Pod, lookup: Lookup) -> Iterator[str]:
    data = lookup(ConfigKey(reference.kind, pod.namespace, reference.name))
    if data is not None and reference.key in data.values:
        yield _text(data.values[reference.key])
    elif reference.optional:
        return
    elif data is None:
        raise _missing(_not_found(reference.kind, reference.name))
    else:
        where = f"{_TITLES[reference.kind]} {pod.namespace}/{reference.name}"
        raise _missing(f"couldn't find key {reference.key} in {where}")


def _all_keys(source: EnvSource, pod: Pod, lookup: Lookup) -> Iterator[EnvVar]:
    data = lookup(ConfigKey(source.kind, pod.namespace, source.name))
    if data is None:
        if source.optional:
            return
        raise _missing(_not_found(source.kind, source.name))
    for key, value in data.values.items():
        yield EnvVar(source.prefix + key, _literal(_text(value)))


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _literal(value: str) -> str:
    return value.replace("$", "$$")


def _missing(problem: str) -> ContainerStartError:
    return ContainerStartError("CreateContainerConfigError", problem)
