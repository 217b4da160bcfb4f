"""The page of a pod that ``plugbay pod describe`` shows. Pure.

Source: kubectl 1.36 ``pkg/describe/describe.go``, ``describePod``; ``Devices`` is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final

from plugbay.cli.kubectl.describing import describe_events, moment_text, pairs_text
from plugbay.cli.kubectl.holdings import Healths, container_holdings, device_healths, pod_holdings
from plugbay.cli.printing.table import NONE, Description
from plugbay.documents import Json
from plugbay.printers import v1

WITHOUT_IMAGES: Final = frozenset({"process", "oci"})
"""Runtimes, with whose names a container's ID begins."""


def pod_description(pod: Json, *, devices: Json, events: Iterable[Json], now: datetime, zone: tzinfo | None) -> str:
    """Everything about ``pod``.

    Args:
        devices: the node's answer about devices.
        zone: the time zone of the page; None is the machine's own.
    """
    holdings, healths = pod_holdings(devices, v1.uid(pod)), device_healths(devices)
    page = Description()
    _head(page, pod, zone)
    for label, kind in (("Init Containers", "initContainers"), ("Containers", "containers")):
        containers = v1.objects(pod, "spec", kind)
        if containers:
            page.line(f"{label}:")
        for container in containers:
            _container(page, container, _status_of(pod, container), zone)
            _devices(page, container_holdings(holdings, _name(container)), healths)
    conditions = v1.objects(pod, "status", "conditions")
    if conditions:
        rows = [(v1.text(each, "type"), v1.text(each, "status")) for each in conditions]
        page.table("Conditions", ("Type", "Status"), rows)
    _volumes(page, pod)
    page.field("QoS Class", v1.text(pod, "status", "qosClass") or NONE)
    describe_events(page, events, now)
    return str(page)


def _head(page: Description, pod: Json, zone: tzinfo | None) -> None:
    page.field("Name", v1.name(pod))
    page.field("Namespace", v1.namespace(pod))
    page.field("Node", _node(pod))
    if started := v1.moment(pod, "status", "startTime"):
        page.field("Start Time", moment_text(started, zone))
    page.field("Labels", pairs_text(v1.mapping(pod, "metadata", "labels"), separator="="))
    page.field("Annotations", pairs_text(v1.mapping(pod, "metadata", "annotations"), separator=": "))
    if deletion := v1.moment(pod, "metadata", "deletionTimestamp"):
        page.field("Status", f"Terminating (until {moment_text(deletion, zone)})")
        page.field("Termination Grace Period", f"{v1.number(pod, 'metadata', 'deletionGracePeriodSeconds')}s")
    else:
        page.field("Status", v1.text(pod, "status", "phase"))
    if addresses := [v1.text(each, "ip") for each in v1.objects(pod, "status", "podIPs")]:
        page.field("IPs", ", ".join(addresses))
    for label in ("Reason", "Message"):
        if found := v1.text(pod, "status", label.lower()):
            page.field(label, found)


def _node(pod: Json) -> str:
    name, address = v1.text(pod, "spec", "nodeName"), v1.text(pod, "status", "hostIP")
    return f"{name}/{address}" if name and address else name or NONE


def _unused_by(container_id: str) -> str:
    scheme = container_id.partition("://")[0]
    return f" (not used by the {scheme} runtime)" if scheme in WITHOUT_IMAGES else ""


def _status_of(pod: Json, container: Json) -> Json:
    statuses = v1.objects(pod, "status", "initContainerStatuses") + v1.objects(pod, "status", "containerStatuses")
    return next((each for each in statuses if _name(each) == _name(container)), {})


def _name(container: Json) -> str:
    return v1.text(container, "name")


# --- containers ----------------------------------------------------------------------------------------------------


def _container(page: Description, container: Json, status: Json, zone: tzinfo | None) -> None:
    page.line(f"{_name(container)}:", depth=1)
    if status:
        page.field("Container ID", v1.text(status, "containerID"), depth=2)
    image = v1.text(container, "image")
    page.field("Image", image + _unused_by(v1.text(status, "containerID")) if image else NONE, depth=2)
    if image_id := v1.text(status, "imageID"):
        page.field("Image ID", image_id, depth=2)
    for label in ("Command", "Args"):
        if words := v1.texts(container, label.lower()):
            page.items(label, words, depth=2)
    if status:
        _state(page, "State", v1.mapping(status, "state"), zone)
        if last := v1.mapping(status, "lastState"):
            _state(page, "Last State", last, zone)
        page.field("Ready", str(status.get("ready") is True), depth=2)
        page.field("Restart Count", str(v1.number(status, "restartCount")), depth=2)
    for label in ("Limits", "Requests"):
        if amounts := v1.mapping(container, "resources", label.lower()):
            page.fields(label, [(name, str(amount)) for name, amount in sorted(amounts.items())], depth=2)
    variables = v1.objects(container, "env")
    page.fields("Environment", [(_name(each), _value(each)) for each in variables], depth=2)
    page.items("Mounts", map(_mount, v1.objects(container, "volumeMounts")), depth=2)


def _value(variable: Json) -> str:
    """A variable's value, or the field of the pod that it takes."""
    field = v1.mapping(variable, "valueFrom", "fieldRef")
    if not field:
        return v1.text(variable, "value")
    return f"({v1.text(field, 'apiVersion') or 'v1'}:{v1.text(field, 'fieldPath')})"


def _devices(page: Description, given: Json, healths: Healths) -> None:
    """The devices that the device manager gave, with their health and edits."""
    page.fields("Devices", [_resource(each, healths) for each in v1.objects(given, "devices")], depth=2)
    if env := v1.mapping(given, "env"):
        page.fields("Device Environment", [(name, str(value)) for name, value in sorted(env.items())], depth=2)
    for label, key in (("Device Mounts", "mounts"), ("Device Nodes", "deviceNodes")):
        if places := v1.objects(given, key):
            page.items(label, map(_place, places), depth=2)
    if names := v1.texts(given, "cdiDevices"):
        page.items("CDI Devices", names, depth=2)


def _resource(given: Json, healths: Healths) -> tuple[str, str]:
    """A resource and its devices: ``g1 (Healthy), g2 (gone)``."""
    name = v1.text(given, "resourceName")
    ids = v1.texts(given, "deviceIDs")
    return name, ", ".join(f"{device} ({healths.get((name, device), 'gone')})" for device in ids)


def _state(page: Description, label: str, state: Json, zone: tzinfo | None) -> None:
    if "running" in state:
        page.field(label, "Running", depth=2)
        page.field("Started", moment_text(v1.moment(state, "running", "startedAt"), zone), depth=3)
    elif "terminated" in state:
        page.field(label, "Terminated", depth=2)
        _reason(page, state, "terminated")
        page.field("Exit Code", str(v1.number(state, "terminated", "exitCode")), depth=3)
        page.field("Started", moment_text(v1.moment(state, "terminated", "startedAt"), zone), depth=3)
        page.field("Finished", moment_text(v1.moment(state, "terminated", "finishedAt"), zone), depth=3)
    else:
        page.field(label, "Waiting", depth=2)
        _reason(page, state, "waiting")


def _reason(page: Description, state: Json, which: str) -> None:
    for label in ("Reason", "Message"):
        if found := v1.text(state, which, label.lower()):
            page.field(label, found, depth=3)


def _mount(mount: Json) -> str:
    flags = "ro" if mount.get("readOnly") is True else "rw"
    path = f',path="{v1.text(mount, "subPath")}"' if mount.get("subPath") else ""
    return f"{v1.text(mount, 'mountPath')} from {_name(mount)} ({flags}{path})"


def _place(place: Json) -> str:
    """A mount or device node that came with a device."""
    inside, outside = v1.text(place, "containerPath"), v1.text(place, "hostPath")
    flags = v1.text(place, "permissions") or ("ro" if place.get("readOnly") is True else "rw")
    return f"{inside} from {outside} ({flags})"


# --- volumes -------------------------------------------------------------------------------------------------------


def _volumes(page: Description, pod: Json) -> None:
    volumes = v1.objects(pod, "spec", "volumes")
    if not volumes:
        page.field("Volumes", NONE)
        return
    page.line("Volumes:")
    for volume in volumes:
        page.line(f"{_name(volume)}:", depth=1)
        if "hostPath" in volume:
            page.field("Type", "HostPath (bare host directory volume)", depth=2)
            page.field("Path", v1.text(volume, "hostPath", "path"), depth=2)
            page.field("HostPathType", v1.text(volume, "hostPath", "type"), depth=2)
        else:
            page.field("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)", depth=2)
