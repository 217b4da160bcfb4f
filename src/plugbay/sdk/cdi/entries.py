"""The entries of a device in a CDI spec, and the names in an answer to Allocate. Pure.

In CDI the last device's value of a variable wins; a plugin joins the values of several devices. So a device with
variables has a second entry without them: containers that get several devices get those, and the joined variables
in the answer. Kubelets keep answers for as long as a pod lives, so what a name means never depends on other devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plugbay.cdi.convert import Find, to_cdi
from plugbay.cdi.names import CdiKind, annotation_key, check_device_name
from plugbay.cdi.rules import edits_problem
from plugbay.cdi.spec import Spec
from plugbay.cdi.spec import SpecDevice as Entry
from plugbay.cdi.versions import minimum_version
from plugbay.errors import InvalidCdiName, InvalidDevice, NotInCdi
from plugbay.model.devices import Device
from plugbay.model.edits import NO_EDITS, ContainerEdits
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.names import derive_name
from plugbay.sdk.author.cdi_answers import CdiAnswer

WITHOUT_ENV: Final = ":without-env"
"""Ends the name of a device's second entry; not an ID that `entries_of` lets pass."""

_KEY_BYTES: Final = 54


def entry_name(device: DeviceId) -> str:
    """The name of a device in CDI: its ID if CDI allows it, else a label made of the ID, always the same."""
    try:
        check_device_name(device)
    except InvalidCdiName:
        return derive_name(device)
    return device


def entries_of(device: Device, find: Find = lambda _: None) -> tuple[Entry, ...]:
    """The entries of one device.

    Args:
        find: looks at the host's device nodes.

    Raises:
        InvalidDevice: it has what a spec cannot hold, or nothing for a spec.
    """
    name = entry_name(device.id)
    try:
        edits = to_cdi(device.edits, find)
    except NotInCdi as error:
        raise InvalidDevice(device.id, str(error)) from error
    if edits.is_empty():
        raise InvalidDevice(device.id, "a CDI device needs variables, mounts or device nodes, and it has none")
    if problem := edits_problem(edits):
        raise InvalidDevice(device.id, problem)
    if name.endswith(WITHOUT_ENV):
        raise InvalidDevice(device.id, f"with CDI no ID may end with {WITHOUT_ENV}")
    whole, rest = Entry(name, edits=edits), Entry(name + WITHOUT_ENV, edits=replace(edits, env=()))
    return (whole, rest) if edits.env and not rest.edits.is_empty() else (whole,)


def sorted_out(
    devices: Iterable[Device], find: Find = lambda _: None
) -> tuple[list[Device], dict[str, Sequence[Entry]], dict[DeviceId, str]]:
    """The devices that CDI can express, their entries by the first one's name, and what is wrong with the others."""
    good: list[Device] = []
    entries: dict[str, Sequence[Entry]] = {}
    problems: dict[DeviceId, str] = {}
    for device in devices:
        try:
            entries[entry_name(device.id)] = entries_of(device, find)
            good.append(device)
        except InvalidDevice as error:
            problems[device.id] = str(error)
    return good, entries, problems


def spec_of(kind: CdiKind, entries: Mapping[str, Sequence[Entry]]) -> Spec:
    """The spec of these devices, by name, in the oldest version that will do."""
    devices = tuple(entry for name in sorted(entries) for entry in entries[name])
    spec = Spec(kind=str(kind), devices=devices)
    return replace(spec, version=minimum_version(spec))


def answer(
    devices: Sequence[Device],
    *,
    kind: CdiKind,
    resource: ResourceName,
    how: CdiAnswer,
    merged: ContainerEdits,
    given: ContainerEdits,
) -> ContainerEdits:
    """The answer to Allocate for ``devices``.

    Args:
        merged: what the devices declare, merged as the plugin says.
        given: what the author's ``allocate`` gave besides.
    """
    # What CDI gives is stronger than the answer: variables that mean something else there come by the answer alone.
    has_own_env = len(devices) > 1 or not merged.env.keys().isdisjoint(given.env)
    plain = given
    if CdiAnswer.EDITS in how:
        plain = _both(merged, given)
    elif has_own_env:
        plain = replace(given, env={**merged.env, **given.env})
    names = [f"{kind}={each}" for each in _names(devices, has_own_env=has_own_env)]
    if CdiAnswer.NAMES in how:
        plain = replace(plain, cdi_devices=tuple(dict.fromkeys((*names, *plain.cdi_devices))))
    if CdiAnswer.ANNOTATIONS in how and names:
        plain = replace(plain, annotations={**plain.annotations, _key(resource): ",".join(names)})
    if names and how is not CdiAnswer.EDITS:  # the names bring interfaces
        plain = replace(plain, interfaces=tuple(each for each in plain.interfaces if each not in merged.interfaces))
    return plain


def _names(devices: Sequence[Device], *, has_own_env: bool) -> list[str]:
    if not has_own_env:
        return [entry_name(device.id) for device in devices]
    last = [entries_of(device)[-1] for device in devices]  # without variables, where there is such a one
    return [entry.name for entry in last if not entry.edits.env]


def _both(merged: ContainerEdits, given: ContainerEdits) -> ContainerEdits:
    """Take the ``given`` value where both are there: it is the author's word on these very devices."""
    if given is NO_EDITS:
        return merged
    mounts, nodes = (*merged.mounts, *given.mounts), (*merged.device_nodes, *given.device_nodes)
    return ContainerEdits(
        env={**merged.env, **given.env},
        mounts=tuple({each.container_path: each for each in mounts}.values()),
        device_nodes=tuple({each.container_path: each for each in nodes}.values()),
        annotations=given.annotations,
        cdi_devices=given.cdi_devices,
        interfaces=merged.interfaces,
    )


def _key(resource: ResourceName) -> str:
    """An annotation of this resource alone: a container may have devices of several."""
    # Imported here: OpenSSL is large, and few plugins need it.
    from hashlib import sha256

    return annotation_key(resource.partition("/")[2][:_KEY_BYTES], sha256(resource.encode()).hexdigest()[:8])
