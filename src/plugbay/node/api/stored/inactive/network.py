"""Services and what belongs to a cluster's network. Pure.

Source: Kubernetes 1.36 ``pkg/apis/core/v1/defaults.go``, ``pkg/apis/core/validation/validation.go`` (ValidateService),
``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.field_selectors import selectable
from plugbay.node.api.stored.inactive.rows import inactive
from plugbay.objects.problems import FieldProblem, duplicate, invalid, not_supported, required
from plugbay.printers import v1
from plugbay.printers.cells import columns, how_many, joined, selector, text
from plugbay.printers.tables import NONE, Cell, Column

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_DNS_1035: Final = re.compile("[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_DNS_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_MOST_SHOWN: Final = 3


def _service(wanted: Json, before: Json | None) -> Json:
    spec = {"type": "ClusterIP", "sessionAffinity": "None"} | v1.mapping(wanted, "spec")
    if ports := v1.objects(spec, "ports"):
        spec["ports"] = [{"protocol": "TCP", "targetPort": each.get("port"), **each} for each in ports]
    return wanted | {"spec": spec, "status": v1.mapping(wanted, "status") or {"loadBalancer": {}}}


def _service_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    ports, kind = v1.objects(spec, "ports"), v1.text(spec, "type")
    if kind not in _TYPES:
        yield not_supported("spec.type", kind, _TYPES)
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    if kind == "ExternalName" and not v1.text(spec, "externalName"):
        yield required("spec.externalName")
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", v1.text(port, "name")
        if not name and len(ports) > 1:
            yield required(f"{where}.name")
        if name and name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
        if not 1 <= v1.number(port, "port") <= 65535:
            yield invalid(f"{where}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
        if v1.text(port, "protocol") not in _PROTOCOLS:
            yield not_supported(f"{where}.protocol", v1.text(port, "protocol"), _PROTOCOLS)


def _service_name(name: str) -> str:
    return "" if _DNS_1035.fullmatch(name) else _DNS_1035_RULE


def _ports(service: Json) -> Cell:
    shown = []
    for port in v1.objects(service, "spec", "ports"):
        own = f"{port.get('port')}:{port['nodePort']}" if v1.number(port, "nodePort") else str(port.get("port"))
        shown.append(f"{own}/{v1.text(port, 'protocol')}")
    return ",".join(shown) or NONE


def _external(service: Json) -> Cell:
    spec = v1.mapping(service, "spec")
    addresses = v1.texts(spec, "externalIPs")
    if v1.text(spec, "type") == "ExternalName":
        return v1.text(spec, "externalName")
    if v1.text(spec, "type") == "LoadBalancer" and not addresses:
        return "<pending>"
    return ",".join(addresses) or NONE


def _endpoints(value: Json) -> Cell:
    found = [
        f"{v1.text(address, 'ip')}:{port.get('port')}" if port else v1.text(address, "ip")
        for subset in v1.objects(value, "subsets")
        for port in v1.objects(subset, "ports") or [{}]
        for address in v1.objects(subset, "addresses")
    ]
    more = f" + {len(found) - _MOST_SHOWN} more..." if len(found) > _MOST_SHOWN else ""
    return ",".join(found[:_MOST_SHOWN]) + more or NONE


def _slice_endpoints(value: Json) -> Cell:
    found = [each for endpoint in v1.objects(value, "endpoints") for each in v1.texts(endpoint, "addresses")]
    more = f" + {len(found) - _MOST_SHOWN} more..." if len(found) > _MOST_SHOWN else ""
    return ",".join(found[:_MOST_SHOWN]) + more or "<unset>"


def _slice_ports(value: Json) -> Cell:
    return ",".join(str(each.get("port")) for each in v1.objects(value, "ports")) or "<unset>"


def _hosts(ingress: Json) -> Cell:
    found = [v1.text(rule, "host") for rule in v1.objects(ingress, "spec", "rules")]
    named = [each for each in found if each]
    more = f" + {len(named) - _MOST_SHOWN} more..." if len(named) > _MOST_SHOWN else ""
    return ",".join(named[:_MOST_SHOWN]) + more or "*"


def _ingress_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    if not v1.objects(spec, "rules") and not spec.get("defaultBackend"):
        yield invalid("spec", spec, "either `defaultBackend` or `rules` must be specified")
    for index, rule in enumerate(v1.objects(spec, "rules")):
        for at, path in enumerate(v1.objects(rule, "http", "paths")):
            if v1.text(path, "pathType") not in ("Exact", "ImplementationSpecific", "Prefix"):
                yield required(f"spec.rules[{index}].http.paths[{at}].pathType", "pathType must be specified")


NETWORK: Final = (
    inactive(
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        columns=columns(
            (Column("Type", "How it is reached"), text("spec", "type")),
            (Column("Cluster-IP", "Its address in the cluster"), text("spec", "clusterIP", missing=NONE)),
            (Column("External-IP", "Its address outside of the cluster"), _external),
            (Column("Port(s)", "Its ports"), _ports),
            (Column("Selector", "The pods that it leads to", is_wide=True), selector("spec", "selector")),
        ),
        has_status=True,
        prepare=_service,
        check=_service_problems,
        name_rule=_service_name,
        fields=selectable("spec.clusterIP", "spec.type"),
    ),
    inactive(
        "v1",
        "endpoints",
        "Endpoints",
        short_names=("ep",),
        columns=columns((Column("Endpoints", "Addresses and ports"), _endpoints)),
        creates_on_update=True,
    ),
    inactive(
        "discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        columns=columns(
            (Column("AddressType", "The type of the addresses"), text("addressType")),
            (Column("Ports", "The ports"), _slice_ports),
            (Column("Endpoints", "The addresses"), _slice_endpoints),
        ),
        has_generation=True,
    ),
    inactive(
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        columns=columns(
            (Column("Class", "Its class"), text("spec", "ingressClassName", missing=NONE)),
            (Column("Hosts", "The hosts of its rules"), _hosts),
            (Column("Address", "Its address"), joined("status", "loadBalancer", "ingress", name="ip", missing="")),
            (Column("Ports", "Its ports"), lambda value: "80, 443" if v1.objects(value, "spec", "tls") else "80"),
        ),
        has_status=True,
        has_generation=True,
        check=_ingress_problems,
    ),
    inactive(
        "networking.k8s.io/v1",
        "ingressclasses",
        "IngressClass",
        is_namespaced=False,
        columns=columns(
            (Column("Controller", "The controller that acts on it"), text("spec", "controller")),
            (Column("Parameters", "Where its parameters are"), text("spec", "parameters", "name", missing=NONE)),
        ),
        has_generation=True,
    ),
    inactive(
        "networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        short_names=("netpol",),
        columns=columns((Column("Pod-Selector", "The pods that it is about"), selector("spec", "podSelector"))),
        has_generation=True,
    ),
    inactive(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        is_namespaced=False,
        columns=columns((Column("Webhooks", "How many webhooks it has", kind="integer"), how_many("webhooks"))),
        has_generation=True,
    ),
    inactive(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        is_namespaced=False,
        columns=columns((Column("Webhooks", "How many webhooks it has", kind="integer"), how_many("webhooks"))),
        has_generation=True,
    ),
)
