"""Convert a Pod between its v1 shape and our values. Checks of the v1 object are made before and after, not here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.manifest.actions import V1Action, action_to_v1, hook_of
from plugbay.manifest.owners import owners_of, owners_to_v1
from plugbay.manifest.placement import placement_of, placement_to_v1
from plugbay.manifest.ports import ports_of, ports_to_v1
from plugbay.manifest.probes import probes_of, probes_to_v1
from plugbay.manifest.projections import (
    env_from_of,
    env_from_to_v1,
    field_ref_to_v1,
    key_of,
    projection_of,
    projection_to_v1,
    resource_of,
    value_from_to_v1,
)
from plugbay.manifest.security import security_of, security_to_v1
from plugbay.manifest.surroundings import (
    aliases_of,
    aliases_to_v1,
    dns_of,
    dns_to_v1,
    sysctls_of,
    sysctls_to_v1,
)
from plugbay.manifest.v1_types import V1Container, V1EnvVar, V1Pod, V1Volume, V1VolumeMount
from plugbay.model.actions import Hook
from plugbay.model.field_path import FieldPath
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.images import PullPolicy
from plugbay.model.pods import (
    DEFAULT_GRACE_PERIOD_S,
    DEFAULT_NAMESPACE,
    Container,
    EmptyDir,
    EnvVar,
    HostPath,
    HostPathType,
    Pod,
    PodSpec,
    RestartPolicy,
    Volume,
    VolumeMount,
)
from plugbay.model.projections import ConfigKind, Projection
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.model.resolution import DnsPolicy
from plugbay.model.termination import MessagePolicy

_MEMORY: Final = "Memory"


def pod_of(v1: V1Pod, *, unused: Mapping[FieldPath, object]) -> Pod:
    """``v1`` as a value, defaults filled in like the API server; what must be there and is not becomes empty."""
    metadata = v1.get("metadata", {})
    spec = v1.get("spec", {})
    on_host = spec.get("hostNetwork", False)
    return Pod(
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace") or DEFAULT_NAMESPACE,
        uid=PodUid(metadata.get("uid", "")),
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        generate_name=metadata.get("generateName", ""),
        owners=owners_of(metadata.get("ownerReferences", [])),
        finalizers=tuple(metadata.get("finalizers", [])),
        spec=PodSpec(
            init_containers=tuple(
                _container(each, _init_kind(each), on_host=on_host) for each in spec.get("initContainers", [])
            ),
            containers=tuple(
                _container(each, ContainerKind.APP, on_host=on_host) for each in spec.get("containers", [])
            ),
            volumes=tuple(_volume(each) for each in spec.get("volumes", [])),
            restart_policy=RestartPolicy(spec.get("restartPolicy", RestartPolicy.ALWAYS.value)),
            termination_grace_period_s=spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_PERIOD_S),
            node_name=spec.get("nodeName") or None,
            active_deadline_s=spec.get("activeDeadlineSeconds"),
            host_network=on_host,
            hostname=spec.get("hostname", ""),
            runtime_class=spec.get("runtimeClassName", ""),
            security=security_of(spec.get("securityContext", {})),
            dns_policy=DnsPolicy(spec["dnsPolicy"]) if spec.get("dnsPolicy") else None,
            dns=dns_of(spec.get("dnsConfig", {})),
            readiness_gates=tuple(each.get("conditionType", "") for each in spec.get("readinessGates", [])),
            host_aliases=aliases_of(spec.get("hostAliases", [])),
            sysctls=sysctls_of(spec.get("securityContext", {}).get("sysctls", [])),
            service_account=spec.get("serviceAccountName") or spec.get("serviceAccount", ""),
            automount_token=spec.get("automountServiceAccountToken"),
            pull_secrets=tuple(each.get("name", "") for each in spec.get("imagePullSecrets", [])),
            placement=placement_of(spec),
        ),
        unused=unused,
    )


def _init_kind(v1: V1Container) -> ContainerKind:
    return ContainerKind.SIDECAR if "restartPolicy" in v1 else ContainerKind.INIT


def _container(v1: V1Container, kind: ContainerKind, *, on_host: bool) -> Container:
    resources = v1.get("resources", {})
    limits = resources.get("limits", {})
    return Container(
        name=ContainerName(v1.get("name", "")),
        image=v1.get("image", ""),
        pull_policy=PullPolicy(v1["imagePullPolicy"]) if v1.get("imagePullPolicy") else None,
        command=tuple(v1.get("command", [])),
        args=tuple(v1.get("args", [])),
        working_dir=v1.get("workingDir") or None,
        env=tuple(_env_var(each) for each in v1.get("env", [])),
        env_from=env_from_of(v1.get("envFrom", [])),
        requests=limits | resources.get("requests", {}),
        limits=limits,
        volume_mounts=tuple(_volume_mount(each) for each in v1.get("volumeMounts", [])),
        kind=kind,
        post_start=_hook(v1.get("lifecycle", {}).get("postStart")),
        pre_stop=_hook(v1.get("lifecycle", {}).get("preStop")),
        probes=probes_of(v1),
        ports=ports_of(v1.get("ports", []), host_network=on_host),
        security=security_of(v1.get("securityContext", {})),
        message_path=v1.get("terminationMessagePath", ""),
        message_policy=MessagePolicy(v1["terminationMessagePolicy"]) if v1.get("terminationMessagePolicy") else None,
        stdin=v1.get("stdin", False),
        stdin_once=v1.get("stdinOnce", False),
        tty=v1.get("tty", False),
    )


def _env_var(v1: V1EnvVar) -> EnvVar:
    name, value_from = v1.get("name", ""), v1.get("valueFrom", {})
    if (key := value_from.get("configMapKeyRef")) is not None:
        return EnvVar(name, source=key_of(ConfigKind.CONFIG_MAP, key))
    if (key := value_from.get("secretKeyRef")) is not None:
        return EnvVar(name, source=key_of(ConfigKind.SECRET, key))
    if (resource := value_from.get("resourceFieldRef")) is not None:
        return EnvVar(name, source=resource_of(resource))
    return EnvVar(name, v1.get("value", ""), value_from.get("fieldRef", {}).get("fieldPath", ""))


def _hook(v1: V1Action | None) -> Hook | None:
    return None if v1 is None else hook_of(v1)


def _volume_mount(v1: V1VolumeMount) -> VolumeMount:
    return VolumeMount(
        name=v1.get("name", ""),
        mount_path=v1.get("mountPath", ""),
        read_only=v1.get("readOnly", False),
        sub_path=v1.get("subPath", ""),
    )


def _volume(v1: V1Volume) -> Volume:
    """A volume without any source is an emptyDir, as the API server has it."""
    name = v1.get("name", "")
    if (host_path := v1.get("hostPath")) is not None:
        return Volume(name, HostPath(host_path.get("path", ""), HostPathType(host_path.get("type", ""))))
    if (projection := projection_of(v1)) is not None:
        return Volume(name, projection)
    empty = v1.get("emptyDir", {})
    return Volume(name, EmptyDir(in_memory=empty.get("medium") == _MEMORY, size_limit=empty.get("sizeLimit")))


def pod_to_v1(pod: Pod) -> dict[str, object]:
    """``pod`` as a v1 object made of plain JSON values, unused fields included. ``pod_from_v1`` reads it back."""
    v1: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _written(
            name=pod.name,
            generateName=pod.generate_name,
            namespace=pod.namespace,
            uid=pod.uid,
            labels=dict(pod.labels),
            annotations=dict(pod.annotations),
            ownerReferences=owners_to_v1(pod.owners),
            finalizers=list(pod.finalizers),
        ),
        "spec": _spec_to_v1(pod.spec),
    }
    for path, value in pod.unused.items():
        _insert(v1, path, value)
    return v1


def _spec_to_v1(spec: PodSpec) -> dict[str, object]:
    return {
        **_written(initContainers=[_container_to_v1(each) for each in spec.init_containers]),
        "containers": [_container_to_v1(each) for each in spec.containers],
        **_written(volumes=[_volume_to_v1(each) for each in spec.volumes], nodeName=spec.node_name),
        "restartPolicy": spec.restart_policy.value,
        "terminationGracePeriodSeconds": spec.termination_grace_period_s,
        **_written(
            activeDeadlineSeconds=spec.active_deadline_s,
            hostNetwork=spec.host_network,
            hostname=spec.hostname,
            runtimeClassName=spec.runtime_class,
            securityContext=security_to_v1(spec.security) | _written(sysctls=sysctls_to_v1(spec.sysctls)),
            dnsPolicy=spec.dns_policy.value if spec.dns_policy else None,
            dnsConfig=dns_to_v1(spec.dns),
            hostAliases=aliases_to_v1(spec.host_aliases),
            readinessGates=[{"conditionType": each} for each in spec.readiness_gates],
            serviceAccountName=spec.service_account,
            serviceAccount=spec.service_account,
            imagePullSecrets=[{"name": name} for name in spec.pull_secrets],
        ),
        **({} if spec.automount_token is None else {"automountServiceAccountToken": spec.automount_token}),
        **placement_to_v1(spec.placement),
    }


def _container_to_v1(container: Container) -> dict[str, object]:
    return _written(
        name=container.name,
        image=container.image,
        imagePullPolicy=container.pull_policy.value if container.pull_policy else None,
        command=list(container.command),
        args=list(container.args),
        workingDir=container.working_dir,
        env=[_env_var_to_v1(each) for each in container.env],
        envFrom=env_from_to_v1(container.env_from),
        resources=_written(limits=_amounts(container.limits), requests=_amounts(container.requests)),
        volumeMounts=[
            _written(name=each.name, mountPath=each.mount_path, readOnly=each.read_only, subPath=each.sub_path)
            for each in container.volume_mounts
        ],
        lifecycle=_written(postStart=hook_to_v1(container.post_start), preStop=hook_to_v1(container.pre_stop)),
        **probes_to_v1(container),
        ports=ports_to_v1(container.ports),
        securityContext=security_to_v1(container.security),
        terminationMessagePath=container.message_path,
        terminationMessagePolicy=container.message_policy.value if container.message_policy else None,
        stdin=container.stdin,
        stdinOnce=container.stdin_once,
        tty=container.tty,
        restartPolicy=RestartPolicy.ALWAYS.value if container.kind is ContainerKind.SIDECAR else None,
    )


def _env_var_to_v1(variable: EnvVar) -> dict[str, object]:
    value_from: dict[str, object] | None = None
    if variable.source is not None:
        value_from = value_from_to_v1(variable.source)
    elif variable.field_path:
        value_from = {"fieldRef": field_ref_to_v1(variable.field_path)}
    return _written(name=variable.name, value=variable.value, valueFrom=value_from)


def hook_to_v1(hook: Hook | None) -> dict[str, object] | None:
    """A v1 LifecycleHandler."""
    return None if hook is None else action_to_v1(hook)


def _volume_to_v1(volume: Volume) -> dict[str, object]:
    match volume.source:
        case HostPath(path, kind):
            return {"name": volume.name, "hostPath": _written(path=path, type=kind.value)}
        case EmptyDir(in_memory, size_limit):
            limit = None if size_limit is None else str(size_limit)
            return {"name": volume.name, "emptyDir": _written(medium=_MEMORY if in_memory else "", sizeLimit=limit)}
        case Projection() as projection:
            return {"name": volume.name} | projection_to_v1(projection)


def _amounts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _written(**fields: object) -> dict[str, object]:
    """``fields`` without those that are empty: v1 leaves them out."""
    return {name: value for name, value in fields.items() if value}


def _insert(v1: dict[str, object], path: FieldPath, value: object) -> None:
    *parents, last = path
    target: object = v1
    for step in parents:
        if isinstance(target, list) and isinstance(step, int):
            target = target[step]
        elif isinstance(target, dict):
            target = target.setdefault(step, {})
    if isinstance(target, dict):
        target[last] = value
