"""The values that an API server fills in where a client says nothing. Pure.

Source: Kubernetes 1.36 ``pkg/apis/apps/v1/defaults.go``, ``pkg/apis/batch/v1/defaults.go``,
``pkg/registry/batch/job/strategy.go``.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.manifest.defaults import with_spec_defaults
from plugbay.printers import v1

_GENERATION: Final = "deprecated.daemonset.template.generation"
_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"


def replica_set(wanted: Json, before: Json | None) -> Json:
    return _with_spec(wanted, replicas=1)


def deployment(wanted: Json, before: Json | None) -> Json:
    value = _with_spec(wanted, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = {"type": "RollingUpdate", **v1.mapping(value, "spec", "strategy")}
    if strategy["type"] == "RollingUpdate":
        rolling = v1.mapping(strategy, "rollingUpdate")
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **rolling}
    return _set(value, strategy=strategy)


def daemon_set(wanted: Json, before: Json | None) -> Json:
    value = _with_spec(wanted, revisionHistoryLimit=10)
    strategy = {"type": "RollingUpdate", **v1.mapping(value, "spec", "updateStrategy")}
    if strategy["type"] == "RollingUpdate":
        rolling = v1.mapping(strategy, "rollingUpdate")
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **rolling}
    return _numbered(_set(value, updateStrategy=strategy), before)


def job(wanted: Json, before: Json | None) -> Json:
    spec = v1.mapping(wanted, "spec")
    parallelism = spec.get("parallelism", 1)
    filled: Json = {
        "parallelism": parallelism,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    }
    if "completions" not in spec and "parallelism" not in spec:
        filled["completions"] = 1
    value = _with_spec(wanted, **filled)
    if before is not None:
        return _labelled(_with_spec(value, selector=v1.mapping(before, "spec", "selector")))
    if spec.get("manualSelector") is not True and "selector" not in spec:
        value = _selecting_own(value)
    return _labelled(value)


def _selecting_own(value: Json) -> Json:
    """A Job selects the pods with its UID, and its template has the labels for it."""
    uid, name = v1.uid(value), v1.name(value)
    template = v1.mapping(value, "spec", "template")
    metadata = v1.mapping(template, "metadata")
    labels = {**v1.mapping(metadata, "labels"), "controller-uid": uid, "job-name": name, _UID: uid, _NAME: name}
    template = {**template, "metadata": {**metadata, "labels": labels}}
    return _set(value, template=template, selector={"matchLabels": {_UID: uid}})


def _numbered(value: Json, before: Json | None) -> Json:
    """The generation of the template, which the pods of a DaemonSet have as a label."""
    annotations = v1.mapping(value, "metadata", "annotations")
    if before is None:
        number = 1
    else:
        known = str(v1.mapping(before, "metadata", "annotations").get(_GENERATION, "1"))
        changed = v1.at(value, "spec", "template") != v1.at(before, "spec", "template")
        number = (int(known) if known.isdecimal() else 1) + changed
    metadata = {**v1.mapping(value, "metadata"), "annotations": {**annotations, _GENERATION: str(number)}}
    return {**value, "metadata": metadata}


def _set(value: Json, **fields: object) -> Json:
    """``value`` with these fields in its specification."""
    return {**value, "spec": {**v1.mapping(value, "spec"), **fields}}


def _with_spec(value: Json, **fields: object) -> Json:
    """``value`` with ``fields`` where its specification does not have them, and with the defaults of the template."""
    spec = {**fields, **v1.mapping(value, "spec")}
    if isinstance(template := spec.get("template"), dict):
        spec["template"] = _template(template)
    return {**value, "spec": spec}


def _template(template: Json) -> Json:
    metadata = {name: each for name, each in v1.mapping(template, "metadata").items() if each}
    return {**template, "metadata": metadata, "spec": with_spec_defaults(v1.mapping(template, "spec"))}


def _labelled(value: Json) -> Json:
    """A Job without labels has those of its template; Deployments and their like do not, since ``apps/v1``."""
    metadata = v1.mapping(value, "metadata")
    labels = v1.mapping(value, "spec", "template", "metadata", "labels")
    return value if metadata.get("labels") or not labels else {**value, "metadata": {**metadata, "labels": labels}}
