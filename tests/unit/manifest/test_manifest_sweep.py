"""Every field of a v1 Pod, given every wrong kind of value: the refusal names it and says where it stands.

Generated from the field tables, so that a field added there is swept too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pytest

from plugbay.documents.texts import to_yaml
from plugbay.errors import InvalidManifest
from plugbay.manifest import Strictness, load_pods, pod_from_v1
from plugbay.manifest.schema import POD
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
from plugbay.model.field_path import FieldPath, field_text


def container(name: str, **more: object) -> dict[str, Any]:
    return {
        "name": name,
        "command": ["env"],
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "v", "mountPath": "/m"}],
        "lifecycle": {"postStart": {"sleep": {"seconds": 1}}, "preStop": {"exec": {"command": ["true"]}}},
        **more,
    }


BASE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "initContainers": [container("i", restartPolicy="Always")],
        "containers": [container("c")],
        "volumes": [{"name": "v", "hostPath": {"path": "/p"}}],
    },
}
ALTERNATIVES: Final = (
    ("exec", "httpGet", "tcpSocket", "grpc", "sleep"),
    ("hostPath", "emptyDir", "configMap", "secret", "downwardAPI", "projected"),
    ("configMap", "secret", "downwardAPI", "serviceAccountToken"),
    ("value", "valueFrom"),
    ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"),
    ("configMapRef", "secretRef"),
)
"""Fields of which an object has one."""
EXAMPLES: Final[dict[object, object]] = {
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}],
    "configMapKeyRef": {"name": "m", "key": "k"},
    "secretKeyRef": {"name": "m", "key": "k"},
    "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"},
    "envFrom": [{"configMapRef": {"name": "m"}}],
    "configMapRef": {"name": "m"},
    "secretRef": {"name": "m"},
    "configMap": {"name": "m"},
    "secret": {"secretName": "m"},
    ("sources", "secret"): {"name": "m"},
    "sources": [{"configMap": {"name": "m"}}],
    "items": [{"key": "k", "path": "p"}],
    ("downwardAPI", "items"): [{"path": "p", "fieldRef": {"fieldPath": "metadata.uid"}}],
    "serviceAccountToken": {"path": "p"},
    "imagePullSecrets": [{"name": "m"}],
    "ports": [{"containerPort": 80}],
    "hostAliases": [{"ip": "10.0.0.1"}],
    "readinessGates": [{"conditionType": "example.com/fed"}],
    "livenessProbe": {"exec": {"command": ["true"]}},
    "readinessProbe": {"exec": {"command": ["true"]}},
    "startupProbe": {"exec": {"command": ["true"]}},
    "httpGet": {"port": 80},
    "tcpSocket": {"port": 80},
    "grpc": {"port": 80},
    "httpHeaders": [{"name": "A"}],
    "sysctls": [{"name": "kernel.shm_rmid_forced"}],
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}},
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t", "labelSelector": {}}]},
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t", "labelSelector": {}}]},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
    "schedulingGates": [{"name": "g"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
}
"""What is made of fields on the way that may not be empty; below a field of another name, perhaps something else."""

WRONG: Final[dict[type, list[object]]] = {
    Text: [7, 1.5, True, ["a"], {"a": "b"}],
    Flag: ["true", 1, ["a"], {"a": "b"}],
    Whole: ["1", 1.5, True, ["a"], {"a": "b"}],
    WholeOrText: [1.5, True, ["a"], {"a": "b"}],
    Amount: ["much", "", True, ["a"], {"a": "b"}],
    ListOf: ["a", 7, True, {"a": "b"}],
    MapOf: ["a", 7, True, ["a"]],
    Table: ["a", 7, True, ["a"]],
    Anything: [],
}
WEIRD: Final[list[object]] = [
    *(None, True, False, 0, -1, 10**40, 1.5, float("inf"), float("nan")),
    *("", " ", "x", "../x", "/", "\0", "\ud800", "x" * 300),
    *([], {}, [None], [[]], [{}], ["x"], {"": None}, {"x": "y"}, {"x": {}}, {"a/b/c": 1}),
]


@dataclass(frozen=True, slots=True)
class Place:
    """A field of the API and where an example of it stands."""

    path: FieldPath
    field: Field


def places(table: Table, base: FieldPath = ()) -> Iterator[Place]:
    for name, field in table.fields.items():
        yield Place((*base, name), field)
        if field.support is Support.USED:
            yield from inside(field.shape, (*base, name))


def inside(shape: Shape, base: FieldPath) -> Iterator[Place]:
    match shape:
        case Table():
            yield from places(shape, base)
        case ListOf(item):
            if not isinstance(item, Anything):
                yield Place((*base, 0), Field(Support.USED, item))
                yield from inside(item, (*base, 0))
        case MapOf(value):
            key = "cpu" if isinstance(value, Amount) else "key"
            yield Place((*base, key), Field(Support.USED, value))


def tables(shape: Shape, base: FieldPath = ()) -> Iterator[tuple[FieldPath, Table]]:
    if isinstance(shape, Table):
        yield base, shape
        for name, field in shape.fields.items():
            if field.support is Support.USED:
                yield from tables(field.shape, (*base, name))
    elif isinstance(shape, ListOf):
        yield from tables(shape.item, (*base, 0))


ALL: Final = list(places(POD))
TABLES: Final = list(tables(POD))
REFERRED_TO: Final = ("volumes", "restartPolicy")
"""Without them others are wrong: mounts name volumes, and only sidecars have hooks."""
READ: Final = [
    place
    for place in ALL
    if place.field.support in (Support.USED, Support.UNUSED) and place.path not in (("apiVersion",), ("kind",))
]
CHOICES: Final = [place for place in READ if isinstance(place.field.shape, Text) and place.field.shape.choices]
UNSUPPORTED: Final = [place for place in ALL if place.field.support is Support.UNSUPPORTED]


def pod_with(path: FieldPath, value: object) -> dict[str, Any]:
    """The base pod with ``value`` at ``path``, what leads there being made."""
    pod = copy.deepcopy(BASE)
    if path[-1] == "restartPolicy" and "initContainers" in path:
        del pod["spec"]["initContainers"][0]["lifecycle"]  # only sidecars may have one
    target: Any = pod
    above: str | int = ""
    for step, following in pairwise(path):
        if isinstance(step, str) and step not in target:
            drop_others(target, step)
            empty: object = [] if isinstance(following, int) else {}
            target[step] = copy.deepcopy(EXAMPLES.get((above, step), EXAMPLES.get(step, empty)))
        elif isinstance(step, int) and step >= len(target):
            target.append({})
        above = step if isinstance(step, str) else above
        target = target[step]
    if isinstance(path[-1], int):
        target[:] = [value]
        return pod
    if value is not None and path[-1] not in target:
        drop_others(target, path[-1])
    target[path[-1]] = value
    return pod


def drop_others(target: dict[str, Any], name: str) -> None:
    for names in ALTERNATIVES:
        if name in names:
            for other in names:
                target.pop(other, None)


def problems(pod: object) -> list[InvalidManifest]:
    try:
        pod_from_v1(pod)
    except InvalidManifest as error:
        return [error, *error.more]
    return []


def located(pod: dict[str, Any]) -> tuple[str, InvalidManifest]:
    """The only problem of a manifest, and its text."""
    text = to_yaml(pod)
    with pytest.raises(InvalidManifest) as caught:
        load_pods(text, source="pod.yaml", mode=Strictness.STRICT)
    assert caught.value.more == ()
    return text, caught.value


def line_of(text: str, path: FieldPath) -> int:
    """Where ``path`` stands in a text written by `to_yaml`, found by its indentation."""
    lines = text.splitlines()
    at, indent = 0, 0
    for step in path:
        if isinstance(step, int):
            items = [n for n in range(at, len(lines)) if lines[n][indent:].startswith("- ")]
            at = items[step]
            lines[at] = lines[at].replace("- ", "  ", 1)
            indent += 2
        else:
            at = next(n for n in range(at, len(lines)) if lines[n][indent:].startswith(f"{step}:"))
            nested = lines[at + 1 : at + 2]
            is_flat_list = bool(nested) and nested[0][indent:].startswith("- ")
            indent += 0 if is_flat_list else 2
    return at + 1


def ids(value: object) -> str:
    path = value.path if isinstance(value, Place) else value[0] if isinstance(value, tuple) else ()
    return field_text(path) or "pod"


def test_the_sweep_starts_from_a_good_pod_and_covers_the_api() -> None:
    assert problems(BASE) == []
    swept = {field_text(place.path) for place in ALL}
    assert {"spec.containers[0].resources.limits.cpu", "spec.volumes[0].hostPath.type", "spec.nodeName"} <= swept
    assert len(swept) > 200


@pytest.mark.parametrize("place", READ, ids=ids)
def test_a_value_of_the_wrong_kind_is_refused_by_name_and_line(place: Place) -> None:
    for value in WRONG[type(place.field.shape)]:
        text, error = located(pod_with(place.path, value))
        assert error.field == field_text(place.path), (value, str(error))
        assert error.line == line_of(text, place.path), (value, str(error))
        assert str(error).startswith(f"pod.yaml:{error.line}: {error.field}: "), str(error)
        assert "wants " in error.problem or error.problem.startswith("quantity "), str(error)


@pytest.mark.parametrize("place", CHOICES, ids=ids)
def test_a_value_that_is_no_choice_is_answered_with_the_choices(place: Place) -> None:
    assert isinstance(place.field.shape, Text)
    text, error = located(pod_with(place.path, "Sideways"))
    assert (error.field, error.line) == (field_text(place.path), line_of(text, place.path))
    assert error.problem.startswith('Unsupported value: "Sideways": supported values: ')
    assert all(f'"{choice}"' in error.problem for choice in place.field.shape.choices)


@pytest.mark.parametrize("place", UNSUPPORTED, ids=ids)
def test_a_field_that_is_not_supported_is_refused_unless_it_asks_for_nothing(place: Place) -> None:
    text, error = located(pod_with(place.path, {"some": "thing"}))
    assert (error.field, error.line) == (field_text(place.path), line_of(text, place.path))
    assert error.problem == "not supported by plugbay's node yet"
    for harmless in (None, *place.field.harmless):
        assert problems(pod_with(place.path, harmless)) == [], harmless


@pytest.mark.parametrize("table", TABLES, ids=ids)
def test_an_unknown_field_is_refused_wherever_it_stands(table: tuple[FieldPath, Table]) -> None:
    path, fields = table
    text, error = located(pod_with((*path, "xyzzy"), "a"))
    assert (error.field, error.line) == (field_text((*path, "xyzzy")), line_of(text, (*path, "xyzzy")))
    assert error.problem == "unknown field"
    for name in fields.fields:
        if name.lower() != name and name.lower() not in fields.fields:
            _, error = located(pod_with((*path, name.lower()), "a"))
            assert error.problem == f'unknown field, did you mean "{name}"?'


@pytest.mark.parametrize("place", ALL, ids=ids)
def test_whatever_a_field_holds_is_taken_or_refused_in_a_sentence(place: Place) -> None:
    for value in WEIRD:
        for error in problems(pod_with(place.path, value)):
            assert error.field, (value, error.problem)
            assert error.problem, value
            assert "\n" not in error.sentence, value


@pytest.mark.parametrize("table", TABLES, ids=ids)
def test_a_field_that_is_left_out_is_optional_or_named_as_required(table: tuple[FieldPath, Table]) -> None:
    path, fields = table
    for name in fields.fields:
        found = problems(pod_with((*path, name), None))
        if not found or name in REFERRED_TO:
            continue
        error = found[0]
        missing, holder = field_text((*path, name)), field_text(path)
        assert error.field.startswith(missing) or error.field == holder, str(error)
        assert "Required value" in error.problem or "must specify" in error.problem, str(error)
