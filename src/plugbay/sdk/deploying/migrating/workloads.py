"""The parts of a plugin's DaemonSet that say where and how its pods run. Pure.

Source: Kubernetes 1.36 ``apps/v1``, ``core/v1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from plugbay.model.field_path import FieldPath
from plugbay.model.selectors import Operator, Requirement, Selector
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, NoteKind

RIGHTS: Final = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
WORKLOADS: Final = ("DaemonSet", "Deployment", "Job", "Pod")
OURS: Final = {
    "image": "the image is yours, by --image",
    "imagePullPolicy": "a cluster's default",
    "name": "the container is called plugin",
    "ports": "metrics and probes are at :9400",
    "resources": "they are those that were measured",
    "securityContext": "it has only the rights that the plugin needs, each with its reason",
    "workingDir": "no path depends on it",
    "volumeMounts": "it has only the directories that the plugin needs, each with its reason",
    "livenessProbe": "/healthz is asked",
    "readinessProbe": "/readyz is asked: registered, and read by the kubelet",
    "startupProbe": "/readyz is asked: registered, and read by the kubelet",
    "terminationMessagePolicy": "a cluster's default",
    "terminationMessagePath": "a cluster's default",
}
"""The fields of a container that a manifest of ours has in its own way."""
_OF_POD: Final = {
    "automountServiceAccountToken": "only a plugin that reads labels of its node asks the API server",
    "serviceAccount": "only a plugin that reads labels of its node has one",
    "serviceAccountName": "only a plugin that reads labels of its node has one",
    "volumes": "it has only the directories that the plugin needs, each with its reason",
    "securityContext": "it has only the rights that the plugin needs, each with its reason",
    "restartPolicy": "Always, as every DaemonSet",
    "shareProcessNamespace": "there is no sidecar",
    "terminationGracePeriodSeconds": "a cluster's default",
    "dnsPolicy": "a cluster's default",
    "schedulerName": "a cluster's default",
}
_OF_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
_OF_SERVER: Final[Sequence[FieldPath]] = (
    *(("metadata", each) for each in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")),
    ("metadata", "annotations", "deprecated.daemonset.template.generation"),
    ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ("metadata", "annotations", "meta.helm.sh/release-name"),
    ("metadata", "annotations", "meta.helm.sh/release-namespace"),
    ("spec", "revisionHistoryLimit"),
    ("spec", "template", "metadata", "creationTimestamp"),
    ("status",),
)
_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def kind_of(settings: ForeignSettings) -> str:
    """The kind of an object of Kubernetes; empty for other settings."""
    is_one = isinstance(settings.at("apiVersion"), str) and isinstance(settings.at("kind"), str)
    return str(settings.at("kind")) if is_one else ""


def template_of(settings: ForeignSettings) -> FieldPath:
    """The path of the pods' spec."""
    return ("spec",) if kind_of(settings) == "Pod" else ("spec", "template", "spec")


def containers_of(settings: ForeignSettings) -> list[FieldPath]:
    """The paths of all containers, those that initialise last."""
    spec = template_of(settings)
    return [(*spec, kind, at) for kind in ("containers", "initContainers") for at in settings.items(*spec, kind)]


def read_workload(settings: ForeignSettings) -> dict[str, Any]:
    """Read where and how the pods of a workload run, with a note for each setting but those of its containers."""
    pod: dict[str, Any] = {}
    otherwise = NoteKind.OTHERWISE
    settings.note(otherwise, ("apiVersion",), "a DaemonSet")
    settings.note(NoteKind.TAKEN if kind_of(settings) == "DaemonSet" else otherwise, ("kind",), "a DaemonSet")
    for field in ("name", "namespace"):
        if isinstance(value := settings.at("metadata", field), str):
            pod[field] = value
            settings.note(NoteKind.TAKEN, ("metadata", field), "the same, unless an option says otherwise")
    for path in (("metadata", "labels"), ("spec", "selector"), ("spec", "template", "metadata", "labels")):
        settings.note(otherwise, path, "the label is app.kubernetes.io/name")
    settings.note(otherwise, ("spec", "updateStrategy"), "pods are replaced a few at a time")
    for known in _OF_SERVER:
        settings.note(otherwise, known, "the API server's, or Helm's")
    spec = template_of(settings)
    pod |= {"tolerations": (), "affinity": ()} | read_placement(settings, spec)
    for field, text in _OF_POD.items():
        settings.note(otherwise, (*spec, field), text)
    for field in _OF_HOST:
        if settings.at(*spec, field) is False:
            settings.note(NoteKind.TAKEN, (*spec, field), "the same")
        settings.note(NoteKind.LEFT, (*spec, field), "a plugin of ours has no use for it")
    return pod


def read_placement(settings: ForeignSettings, at: FieldPath) -> dict[str, Any]:
    """The fields below ``at`` that say which nodes and with what class; a pod's spec and NVIDIA's values have them."""
    found: dict[str, Any] = {}
    for field, name in (("priorityClassName", "priority_class"), ("runtimeClassName", "runtime_class")):
        value = settings.at(*at, field)
        if isinstance(value, str):
            found[name] = value
            settings.note(NoteKind.TAKEN, (*at, field), "the same")
        elif value is None:
            settings.note(NoteKind.OTHERWISE, (*at, field), "not set, which is the same here")
    selector = settings.at(*at, "nodeSelector")
    if isinstance(selector, dict) and all(isinstance(each, str) for each in selector.values()):
        found["node_selector"] = selector
        settings.note(NoteKind.TAKEN, (*at, "nodeSelector"), "the same")
    tolerations = _given(settings, (*at, "tolerations"), [])
    if isinstance(tolerations, list) and all(isinstance(each, dict) for each in tolerations):
        found["tolerations"] = tolerations
        settings.note(NoteKind.TAKEN, (*at, "tolerations"), "the same")
    if (terms := _read_affinity(settings, (*at, "affinity"))) is not None:
        found["affinity"] = terms
    return found


def _given(settings: ForeignSettings, path: FieldPath, none: object) -> object:
    """The value at ``path``; ``none`` for a null, by which Helm takes a default away."""
    return none if path[-1] in settings.keys(*path[:-1]) and settings.at(*path) is None else settings.at(*path)


def _read_affinity(settings: ForeignSettings, at: FieldPath) -> tuple[Selector, ...] | None:
    """The conditions on nodes; None if there are none that a manifest of ours can have."""
    if _given(settings, at, {}) == {}:
        settings.note(NoteKind.TAKEN, at, "none, the same")
        return ()
    place = (*at, "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    terms = settings.at(*place)
    if not isinstance(terms, list):
        return None
    read = [_read_term(term) for term in terms]
    if any(each is None for each in read):
        return None  # which the note on what is left tells
    settings.note(NoteKind.TAKEN, place, "the same")
    return tuple(each for each in read if each is not None)


def _read_term(term: object) -> Selector | None:
    if (
        not isinstance(term, dict)
        or set(term) != {"matchExpressions"}
        or not isinstance(term["matchExpressions"], list)
    ):
        return None
    found = [_read_requirement(each) for each in term["matchExpressions"]]
    return None if any(each is None for each in found) else tuple(each for each in found if each is not None)


def _read_requirement(expression: object) -> Requirement | None:
    match expression:
        case {"key": str(key), "operator": str(operator), **rest} if operator in _OPERATORS and set(rest) <= {"values"}:
            values = rest.get("values") or []
            if isinstance(values, list) and all(isinstance(each, str) for each in values):
                return Requirement(key, _OPERATORS[operator], frozenset(values))
    return None


def read_words(settings: ForeignSettings, container: FieldPath) -> list[tuple[str, FieldPath]]:
    """The program and arguments of a container, each with its path."""
    paths = [(*container, field, at) for field in ("command", "args") for at in settings.items(*container, field)]
    return [(str(settings.at(*path)), path) for path in paths]


def image_of(settings: ForeignSettings, container: FieldPath) -> str:
    return str(settings.at(*container, "image") or "")


def note_container(settings: ForeignSettings, container: FieldPath, but: Iterable[str] = ()) -> None:
    """Tell of the fields of a container that a manifest of ours has in its own way."""
    for field, text in OURS.items():
        if field not in but:
            settings.note(NoteKind.OTHERWISE, (*container, field), text)


def note_other_object(settings: ForeignSettings) -> None:
    """Tell of an object beside the workload, of a ConfigMap what has no note yet."""
    kind = kind_of(settings)
    if kind == "ConfigMap":
        for field in ("apiVersion", "kind", "metadata"):
            settings.note(NoteKind.OTHERWISE, (field,), "it has the name of the DaemonSet")
        settings.note_rest("no volume of the plugin has this ConfigMap")
    elif kind in RIGHTS:
        settings.note(NoteKind.OTHERWISE, (), "the manifest brings the rights that the plugin needs")
    else:
        settings.note(NoteKind.LEFT, (), f"a {kind} is not part of the plugin")
