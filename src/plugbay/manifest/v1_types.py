"""The fields of a v1 Pod that we use, as types; `schema` has the rules for each."""

from __future__ import annotations

from typing import TypedDict

from plugbay.manifest.actions import V1Action
from plugbay.manifest.owners import V1OwnerReference
from plugbay.manifest.placement import V1Placement
from plugbay.manifest.ports import V1Port
from plugbay.manifest.probes import V1Probed
from plugbay.manifest.projections import (
    V1EnvFrom,
    V1FieldRef,
    V1KeyRef,
    V1Name,
    V1Projections,
    V1ResourceRef,
)
from plugbay.manifest.security import V1Security
from plugbay.manifest.surroundings import V1DnsConfig, V1HostAlias
from plugbay.model.quantity import Quantity


class V1Metadata(TypedDict, total=False):
    name: str
    generateName: str
    namespace: str
    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    ownerReferences: list[V1OwnerReference]
    finalizers: list[str]


class V1ValueFrom(TypedDict, total=False):
    fieldRef: V1FieldRef
    resourceFieldRef: V1ResourceRef
    configMapKeyRef: V1KeyRef
    secretKeyRef: V1KeyRef


class V1EnvVar(TypedDict, total=False):
    name: str
    value: str
    valueFrom: V1ValueFrom


class V1Lifecycle(TypedDict, total=False):
    postStart: V1Action
    preStop: V1Action


class V1Resources(TypedDict, total=False):
    limits: dict[str, Quantity]
    requests: dict[str, Quantity]


class V1VolumeMount(TypedDict, total=False):
    name: str
    mountPath: str
    readOnly: bool
    subPath: str


class V1Container(V1Probed, total=False):
    name: str
    image: str
    imagePullPolicy: str
    command: list[str]
    args: list[str]
    workingDir: str
    stdin: bool
    stdinOnce: bool
    tty: bool
    env: list[V1EnvVar]
    envFrom: list[V1EnvFrom]
    resources: V1Resources
    volumeMounts: list[V1VolumeMount]
    lifecycle: V1Lifecycle
    restartPolicy: str
    ports: list[V1Port]
    securityContext: V1Security
    terminationMessagePath: str
    terminationMessagePolicy: str


class V1HostPath(TypedDict, total=False):
    path: str
    type: str


class V1EmptyDir(TypedDict, total=False):
    medium: str
    sizeLimit: Quantity


class V1Volume(V1Projections, total=False):
    name: str
    hostPath: V1HostPath
    emptyDir: V1EmptyDir


class V1ReadinessGate(TypedDict, total=False):
    conditionType: str


class V1Spec(V1Placement, total=False):
    initContainers: list[V1Container]
    containers: list[V1Container]
    volumes: list[V1Volume]
    restartPolicy: str
    terminationGracePeriodSeconds: int
    activeDeadlineSeconds: int
    nodeName: str
    hostNetwork: bool
    hostname: str
    runtimeClassName: str
    securityContext: V1Security
    dnsPolicy: str
    dnsConfig: V1DnsConfig
    hostAliases: list[V1HostAlias]
    readinessGates: list[V1ReadinessGate]
    serviceAccountName: str
    serviceAccount: str
    automountServiceAccountToken: bool
    imagePullSecrets: list[V1Name]


class V1Pod(TypedDict, total=False):
    """The used fields of a Pod, as the walk along `schema.POD` returns them: quantities are parsed."""

    apiVersion: str
    kind: str
    metadata: V1Metadata
    spec: V1Spec
