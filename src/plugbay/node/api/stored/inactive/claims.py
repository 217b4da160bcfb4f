"""Dynamic resource allocation: classes of devices, claims of devices, and the devices of nodes. Pure.

Source: Kubernetes 1.36 ``pkg/apis/resource/validation/validation.go``, ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.model import dns
from plugbay.node.api.field_selectors import selectable
from plugbay.node.api.stored.inactive.rows import inactive
from plugbay.objects.metadata import LABEL_RULE, SUBDOMAIN_RULE
from plugbay.objects.problems import FieldProblem, duplicate, invalid, required
from plugbay.printers import v1
from plugbay.printers.cells import columns, text
from plugbay.printers.tables import Cell, Column

_VERSION: Final = "resource.k8s.io/v1"
_MAX_REQUESTS: Final = 32
_MAX_DEVICES: Final = 128


def _claim_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    yield from _spec_problems(v1.mapping(value, "spec"), "spec")
    yield from _unchanged(value, before)


def _template_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    yield from _spec_problems(v1.mapping(value, "spec", "spec"), "spec.spec")
    yield from _unchanged(value, before)


def _unchanged(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    if before is not None and value.get("spec") != before.get("spec"):
        yield invalid("spec", value.get("spec"), "field is immutable")


def _spec_problems(spec: Json, where: str) -> Iterator[FieldProblem]:
    requests = v1.objects(spec, "devices", "requests")
    base = f"{where}.devices.requests"
    if len(requests) > _MAX_REQUESTS:
        text_ = f"Too many: {len(requests)}: must have at most {_MAX_REQUESTS} items"
        yield FieldProblem("FieldValueTooMany", base, text_)
    seen: set[str] = set()
    for index, request in enumerate(requests):
        name = v1.text(request, "name")
        if not name:
            yield required(f"{base}[{index}].name")
        elif not dns.is_label(name):
            yield invalid(f"{base}[{index}].name", name, LABEL_RULE)
        if name in seen:
            yield duplicate(f"{base}[{index}].name", name)
        seen.add(name)
        exact, alternatives = v1.mapping(request, "exactly"), v1.objects(request, "firstAvailable")
        if bool(exact) is bool(alternatives):
            rule = "exactly one of `exactly` or `firstAvailable` is required"
            yield invalid(f"{base}[{index}]", request, rule)
        if exact and not v1.text(exact, "deviceClassName"):
            yield required(f"{base}[{index}].exactly.deviceClassName")


def _claim(wanted: Json, before: Json | None) -> Json:
    return wanted | {"spec": _filled(v1.mapping(wanted, "spec"))}


def _template(wanted: Json, before: Json | None) -> Json:
    spec = v1.mapping(wanted, "spec")
    return wanted | {"spec": spec | {"spec": _filled(v1.mapping(spec, "spec"))}}


def _filled(spec: Json) -> Json:
    """A request asks for one device unless it says otherwise."""
    devices = v1.mapping(spec, "devices")
    if not v1.objects(devices, "requests"):
        return spec
    requests = [
        each | {"exactly": _counted(v1.mapping(each, "exactly"))} if each.get("exactly") else each
        for each in v1.objects(devices, "requests")
    ]
    return spec | {"devices": devices | {"requests": requests}}


def _counted(exact: Json) -> Json:
    mode = exact.get("allocationMode") or "ExactCount"
    return exact | {"allocationMode": mode} | ({"count": exact.get("count") or 1} if mode == "ExactCount" else {})


def _slice_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    for path, found in (("driver", v1.text(spec, "driver")), ("pool.name", v1.text(spec, "pool", "name"))):
        if not found:
            yield required(f"spec.{path}")
    if (driver := v1.text(spec, "driver")) and not dns.is_subdomain(driver):
        yield invalid("spec.driver", driver, SUBDOMAIN_RULE)
    if not v1.number(spec, "pool", "resourceSliceCount"):
        yield invalid("spec.pool.resourceSliceCount", 0, "must be greater than zero")
    places = [name for name in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(name)]
    if len(places) != 1:
        rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        yield invalid("spec", ", ".join(places), rule)
    devices = v1.objects(spec, "devices")
    if len(devices) > _MAX_DEVICES:
        many = f"Too many: {len(devices)}: must have at most {_MAX_DEVICES} items"
        yield FieldProblem("FieldValueTooMany", "spec.devices", many)
    seen: set[str] = set()
    for index, device in enumerate(devices):
        name = v1.text(device, "name")
        if not dns.is_label(name):
            yield invalid(f"spec.devices[{index}].name", name, LABEL_RULE)
        if name in seen:
            yield duplicate(f"spec.devices[{index}].name", name)
        seen.add(name)
    if before is not None:
        for field in ("driver", "nodeName"):
            if spec.get(field) != v1.at(before, "spec", field):
                yield invalid(f"spec.{field}", spec.get(field), "field is immutable")


def _state(claim: Json) -> Cell:
    states = []
    if v1.text(claim, "metadata", "deletionTimestamp"):
        states.append("deleted")
    if v1.mapping(claim, "status", "allocation"):
        states.append("allocated")
    else:
        states.append("pending")
    if v1.objects(claim, "status", "reservedFor"):
        states.append("reserved")
    return ",".join(states)


CLAIMS: Final = (
    inactive(_VERSION, "deviceclasses", "DeviceClass", is_namespaced=False, has_generation=True),
    inactive(
        _VERSION,
        "resourceclaims",
        "ResourceClaim",
        columns=columns((Column("State", "Whether it has its devices"), _state)),
        has_status=True,
        prepare=_claim,
        check=_claim_problems,
    ),
    inactive(_VERSION, "resourceclaimtemplates", "ResourceClaimTemplate", prepare=_template, check=_template_problems),
    inactive(
        _VERSION,
        "resourceslices",
        "ResourceSlice",
        is_namespaced=False,
        columns=columns(
            (Column("Node", "The node of the devices"), text("spec", "nodeName", missing="<unset>")),
            (Column("Driver", "The driver that tells of them"), text("spec", "driver")),
            (Column("Pool", "The pool that they belong to"), text("spec", "pool", "name")),
        ),
        has_generation=True,
        check=_slice_problems,
        fields=selectable("spec.driver", "spec.nodeName"),
    ),
)
