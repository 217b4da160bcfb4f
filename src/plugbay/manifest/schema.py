"""The fields of the v1 Pod API and what this node does with each.

Names are those of Kubernetes 1.36 ``core/v1/types.go``. A field missing here is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.manifest.placement import AFFINITY, GATE, SPREAD, TOLERATION
from plugbay.manifest.shapes import (
    Amount,
    Anything,
    Field,
    Flag,
    ListOf,
    MapOf,
    Shape,
    Support,
    Table,
    Text,
    Whole,
    WholeOrText,
)
from plugbay.model.actions import HttpScheme
from plugbay.model.images import PullPolicy
from plugbay.model.pods import HostPathType, RestartPolicy
from plugbay.model.resolution import DnsPolicy
from plugbay.model.security import Seccomp
from plugbay.model.termination import MessagePolicy

_TEXT: Final = Text()
_TEXTS: Final = MapOf(_TEXT)
_LIST: Final = ListOf(Anything())
_MAPPING: Final = MapOf(Anything())
_EMPTY: Final[tuple[object, ...]] = ([], {}, "", False)


def _used(**fields: Shape) -> dict[str, Field]:
    return {name: Field(Support.USED, shape) for name, shape in fields.items()}


def _used_or_empty(**fields: Table) -> dict[str, Field]:
    """Fields of which an API server shows whether they were left out or are empty."""
    return {name: Field(Support.USED, shape, shows_empty=True) for name, shape in fields.items()}


def _unused(**fields: Shape) -> dict[str, Field]:
    return {name: Field(Support.UNUSED, shape) for name, shape in fields.items()}


def _unused_but_for(**harmless: tuple[Shape, tuple[object, ...]]) -> dict[str, Field]:
    """A field that is unused with the values given, which happen anyway; another value would change the meaning."""
    return {name: Field(Support.UNUSED, shape, values) for name, (shape, values) in harmless.items()}


def _ignored(*names: str) -> dict[str, Field]:
    return {name: Field(Support.IGNORED) for name in names}


def _unsupported(*names: str) -> dict[str, Field]:
    return {name: Field(Support.UNSUPPORTED, harmless=_EMPTY) for name in names}


def _unsupported_but(**harmless: object) -> dict[str, Field]:
    """A field that is unsupported, except with the one value given, which happens here anyway."""
    return {name: Field(Support.UNSUPPORTED, harmless=(value,)) for name, value in harmless.items()}


_OWNER: Final = Table(
    _used(apiVersion=_TEXT, kind=_TEXT, name=_TEXT, uid=_TEXT, controller=Flag(), blockOwnerDeletion=Flag())
)
_METADATA: Final = Table(
    _used(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        uid=_TEXT,
        labels=_TEXTS,
        annotations=_TEXTS,
        ownerReferences=ListOf(_OWNER),
        finalizers=ListOf(_TEXT),
    )
    | _ignored(
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
    )
)

# A runtime that confines nothing refuses containers that ask for fewer rights than a plain process has.
_ANY_SECURITY: Final[Mapping[str, Field]] = (
    _used(
        runAsGroup=Whole(),
        runAsNonRoot=Flag(),
        runAsUser=Whole(),
        seccompProfile=Table(
            _used(type=Text(tuple(each.value for each in Seccomp))) | _unsupported("localhostProfile")
        ),
    )
    | _unsupported("seLinuxOptions", "windowsOptions")
) | _unsupported_but(appArmorProfile={"type": "Unconfined"})
_CONTAINER_SECURITY: Final = Table(
    {**_ANY_SECURITY}
    | _used(
        allowPrivilegeEscalation=Flag(),
        privileged=Flag(),
        readOnlyRootFilesystem=Flag(),
    )
    | _used_or_empty(capabilities=Table(_used(add=ListOf(_TEXT), drop=ListOf(_TEXT))))
    | _unsupported_but(procMount="Default")
)
_POD_SECURITY: Final = Table(
    {**_ANY_SECURITY}
    | _used(
        fsGroup=Whole(),
        supplementalGroups=ListOf(Whole()),
        sysctls=ListOf(Table(_used(name=_TEXT, value=_TEXT))),
    )
    | _unsupported("seLinuxChangePolicy")
    | _unsupported_but(fsGroupChangePolicy="Always", supplementalGroupsPolicy="Merge")
)

_FIELD_REF: Final = Table(_used(fieldPath=_TEXT) | _unsupported_but(apiVersion="v1"))
_RESOURCE_REF: Final = Table(_used(containerName=_TEXT, resource=_TEXT, divisor=Amount()))
_KEY_REF: Final = Table(_used(name=_TEXT, key=_TEXT, optional=Flag()))
_VALUE_FROM: Final = Table(
    _used(fieldRef=_FIELD_REF, resourceFieldRef=_RESOURCE_REF, configMapKeyRef=_KEY_REF, secretKeyRef=_KEY_REF)
    | _unsupported("fileKeyRef")
)
_ENV_REF: Final = Table(_used(name=_TEXT, optional=Flag()))
_ENV_VAR: Final = Table(_used(name=_TEXT, value=_TEXT, valueFrom=_VALUE_FROM))

_EXEC: Final = Table(_used(command=ListOf(_TEXT)))
_HTTP_GET: Final = Table(
    _used(
        path=_TEXT,
        port=WholeOrText(),
        host=_TEXT,
        scheme=Text(tuple(each.value for each in HttpScheme)),
        httpHeaders=ListOf(Table(_used(name=_TEXT, value=_TEXT))),
    )
)
# A kubelet knows no TCP hook: one would always fail.
_HOOK: Final = Table(
    _used(exec=_EXEC, httpGet=_HTTP_GET, sleep=Table(_used(seconds=Whole())))
    | {"tcpSocket": Field(Support.UNSUPPORTED)}
)
_PROBE: Final = Table(
    _used(
        exec=_EXEC,
        httpGet=_HTTP_GET,
        tcpSocket=Table(_used(port=WholeOrText(), host=_TEXT)),
        grpc=Table(_used(port=Whole(), service=_TEXT)),
        initialDelaySeconds=Whole(),
        timeoutSeconds=Whole(),
        periodSeconds=Whole(),
        successThreshold=Whole(),
        failureThreshold=Whole(),
        terminationGracePeriodSeconds=Whole(),
    )
)
_LIFECYCLE: Final = Table(_used(postStart=_HOOK, preStop=_HOOK) | _unsupported("stopSignal"))

_RESOURCES: Final = Table(_used(limits=MapOf(Amount()), requests=MapOf(Amount())) | _unsupported("claims"))

_VOLUME_MOUNT: Final = Table(
    _used(name=_TEXT, mountPath=_TEXT, readOnly=Flag(), subPath=_TEXT)
    | _unsupported("subPathExpr")
    | _unsupported_but(mountPropagation="None", recursiveReadOnly="Disabled")
)

_PORT: Final = Table(
    _used(name=_TEXT, containerPort=Whole(), hostPort=Whole(), hostIP=_TEXT, protocol=Text(("TCP", "UDP", "SCTP")))
)

_CONTAINER_FIELDS: Final[Mapping[str, Field]] = (
    _used(
        name=_TEXT,
        image=_TEXT,
        imagePullPolicy=Text(tuple(policy.value for policy in PullPolicy)),
        command=ListOf(_TEXT),
        args=ListOf(_TEXT),
        workingDir=_TEXT,
        env=ListOf(_ENV_VAR),
        envFrom=ListOf(Table(_used(prefix=_TEXT, configMapRef=_ENV_REF, secretRef=_ENV_REF))),
        resources=_RESOURCES,
        volumeMounts=ListOf(_VOLUME_MOUNT),
        livenessProbe=_PROBE,
        readinessProbe=_PROBE,
        startupProbe=_PROBE,
        ports=ListOf(_PORT),
        # Read where there is a file for it; plain processes have none.
        terminationMessagePath=_TEXT,
        terminationMessagePolicy=Text(tuple(policy.value for policy in MessagePolicy)),
        stdin=Flag(),
        stdinOnce=Flag(),
        tty=Flag(),
    )
    | _used_or_empty(lifecycle=_LIFECYCLE, securityContext=_CONTAINER_SECURITY)
    | _unused(resizePolicy=_LIST)
    | _unsupported(
        "restartPolicy",
        "restartPolicyRules",
        "volumeDevices",
    )
)
_CONTAINER: Final = Table(_CONTAINER_FIELDS)
_INIT_CONTAINER: Final = Table(
    {**_CONTAINER_FIELDS, "restartPolicy": Field(Support.USED, Text((RestartPolicy.ALWAYS.value,)))}
)

_HOST_PATH: Final = Table(_used(path=_TEXT, type=Text(tuple(kind.value for kind in HostPathType))))
# Without a medium nothing holds a pod to the limit.
_EMPTY_DIR: Final = Table(_used(medium=Text(("", "Memory")), sizeLimit=Amount()))
_KEY_FILE: Final = Table(_used(key=_TEXT, path=_TEXT, mode=Whole()))
_KEY_FILES: Final = _used(items=ListOf(_KEY_FILE), optional=Flag())
_FIELD_FILE: Final = Table(_used(path=_TEXT, fieldRef=_FIELD_REF, resourceFieldRef=_RESOURCE_REF, mode=Whole()))
_FIELD_FILES: Final = _used(items=ListOf(_FIELD_FILE))
_MODE: Final = _used(defaultMode=Whole())
_SOURCE: Final = Table(
    _used(
        configMap=Table(_used(name=_TEXT) | _KEY_FILES),
        secret=Table(_used(name=_TEXT) | _KEY_FILES),
        downwardAPI=Table(_FIELD_FILES),
        serviceAccountToken=Table(_used(audience=_TEXT, expirationSeconds=Whole(), path=_TEXT)),
    )
    | _unsupported("clusterTrustBundle", "podCertificate")
)
_OTHER_VOLUME_SOURCES: Final = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "image",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
_VOLUME: Final = Table(
    _used(
        name=_TEXT,
        hostPath=_HOST_PATH,
        emptyDir=_EMPTY_DIR,
        configMap=Table(_used(name=_TEXT) | _KEY_FILES | _MODE),
        secret=Table(_used(secretName=_TEXT) | _KEY_FILES | _MODE),
        downwardAPI=Table(_FIELD_FILES | _MODE),
        projected=Table(_used(sources=ListOf(_SOURCE)) | _MODE),
    )
    | {name: Field(Support.UNSUPPORTED) for name in _OTHER_VOLUME_SOURCES}
)

_DNS_CONFIG: Final = Table(
    _used(nameservers=ListOf(_TEXT), searches=ListOf(_TEXT), options=ListOf(Table(_used(name=_TEXT, value=_TEXT))))
)

_SPEC: Final = Table(
    _used(
        initContainers=ListOf(_INIT_CONTAINER),
        containers=ListOf(_CONTAINER),
        volumes=ListOf(_VOLUME),
        restartPolicy=Text(tuple(policy.value for policy in RestartPolicy)),
        terminationGracePeriodSeconds=Whole(),
        activeDeadlineSeconds=Whole(),
        nodeName=_TEXT,
        securityContext=_POD_SECURITY,
        hostNetwork=Flag(),
        hostname=_TEXT,
        runtimeClassName=_TEXT,
        # Without dnsConfig the policy picks between resolvers of a cluster we do not have and the host's.
        dnsPolicy=Text(tuple(policy.value for policy in DnsPolicy)),
        dnsConfig=_DNS_CONFIG,
        readinessGates=ListOf(Table(_used(conditionType=_TEXT))),
        hostAliases=ListOf(Table(_used(ip=_TEXT, hostnames=ListOf(_TEXT)))),
        serviceAccountName=_TEXT,
        serviceAccount=_TEXT,
        automountServiceAccountToken=Flag(),
        # Only the cri runtime pulls images.
        imagePullSecrets=ListOf(Table(_used(name=_TEXT))),
    )
    | _used(
        nodeSelector=_TEXTS,
        preemptionPolicy=Text(("", "PreemptLowerPriority", "Never")),
        priority=Whole(),
        priorityClassName=_TEXT,
        schedulerName=_TEXT,
        schedulingGates=ListOf(GATE),
        tolerations=ListOf(TOLERATION),
        topologySpreadConstraints=ListOf(SPREAD),
    )
    | _used_or_empty(affinity=AFFINITY)
    # There are no services.
    | _unused(enableServiceLinks=Flag())
    # Sharing with the host and with each other: runtimes that isolate do as they can or refuse; plain processes share
    # everything anyway.
    | _unused(
        hostIPC=Flag(),
        hostPID=Flag(),
        shareProcessNamespace=Flag(),
    )
    | _unsupported(
        "ephemeralContainers",
        "hostnameOverride",
        "overhead",
        "resourceClaims",
        "resources",
        "schedulingGroup",
        "setHostnameAsFQDN",
        "subdomain",
        "workloadRef",
    )
    | _unsupported_but(hostUsers=True, os={"name": "linux"})
)

POD: Final = Table(_used(apiVersion=_TEXT, kind=_TEXT, metadata=_METADATA, spec=_SPEC) | _ignored("status"))
