"""Check a spec in the engines' order of the rules, so that the same broken rule is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from plugbay.cdi.names import check_device_name, parse_kind
from plugbay.cdi.spec import Edits, Hook, IntelRdt, NetDevice, Spec, SpecDeviceNode, SpecMount
from plugbay.cdi.versions import is_older, is_version, minimum_version
from plugbay.errors import InvalidCdiName, InvalidCdiSpec
from plugbay.model.dns import SUBDOMAIN

HOOK_NAMES: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
NO_PERMISSIONS: Final = "none"
MAX_ANNOTATIONS: Final = 256 * 1024
"""The limit for keys and values of one map together."""

_NODE_TYPES: Final = ("", "b", "c", "u", "p")
_PERMISSIONS: Final = re.compile(r"[rwm]*\Z")
_QUALIFIED_KEY: Final = re.compile(rf"(?=.{{1,317}}\Z)(?:{SUBDOMAIN}/)?[a-z0-9](?:[-a-z0-9_.]{{0,61}}[a-z0-9])?\Z")
_MAX_CLOS_ID: Final = 4096


def check_spec(spec: Spec, *, source: str) -> None:
    """Raises `InvalidCdiSpec` with the first rule that ``spec`` breaks.

    Source: CDI 1.1.0 ``pkg/cdi/spec.go``, ``validate``.
    """
    problem = next(_problems(spec), None)
    if problem is not None:
        raise InvalidCdiSpec(source, problem)


def edits_problem(edits: Edits) -> str | None:
    """The first rule that ``edits`` break, as a sentence without its place."""
    return next(_edits_problems(edits), None)


def _problems(spec: Spec) -> Iterator[str]:
    if not is_version(spec.version):
        yield f'invalid version "{spec.version}"'
        return
    needed = minimum_version(spec)
    if is_older(spec.version, needed):
        yield f'version "{spec.version}" is too old for what it holds: the spec version must be at least v{needed}'
    try:
        parse_kind(spec.kind)
    except InvalidCdiName as error:
        yield str(error)
    yield from _annotation_problems("annotations", spec.annotations)
    yield from _edits_problems(spec.edits)
    for device in spec.devices:
        try:
            check_device_name(device.name)
        except InvalidCdiName as error:
            yield str(error)
        yield from _annotation_problems(f'annotations of device "{device.name}"', device.annotations)
        if device.edits.is_empty():
            yield f'invalid device "{device.name}", empty device edits'
        for problem in _edits_problems(device.edits):
            yield f'device "{device.name}": {problem}'
    if twice := _repeated(device.name for device in spec.devices):
        yield f'invalid spec, multiple device "{twice}"'
    if not spec.devices:
        yield "invalid spec, no devices"


def _annotation_problems(what: str, annotations: Mapping[str, str]) -> Iterator[str]:
    for key in annotations:
        if not _QUALIFIED_KEY.match(key.lower()):
            yield f'{what}: "{key}" is not a valid annotation key'
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        yield f"{what}: more than {MAX_ANNOTATIONS} bytes"


def _edits_problems(edits: Edits) -> Iterator[str]:
    yield from _env_problems(edits.env)
    for node in edits.device_nodes:
        yield from _node_problems(node)
    for hook in edits.hooks:
        yield from _hook_problems(hook)
    for mount in edits.mounts:
        yield from _mount_problems(mount)
    if edits.intel_rdt is not None:
        yield from _rdt_problems(edits.intel_rdt)
    yield from _net_device_problems(edits.net_devices)


def _env_problems(env: Iterable[str]) -> Iterator[str]:
    for variable in env:
        if variable.find("=") <= 0:
            yield f'invalid environment variable "{variable}"'


def _node_problems(node: SpecDeviceNode) -> Iterator[str]:
    if not node.path:
        yield "invalid (empty) device path"
    if node.type not in _NODE_TYPES:
        yield f'device "{node.path}": invalid type "{node.type}"'
    if node.permissions != NO_PERMISSIONS and not _PERMISSIONS.match(node.permissions):
        yield f'device "{node.path}": invalid permissions "{node.permissions}"'


def _hook_problems(hook: Hook) -> Iterator[str]:
    if hook.hook_name not in HOOK_NAMES:
        yield f'invalid hook name "{hook.hook_name}"'
    if not hook.path:
        yield f'invalid hook "{hook.hook_name}" with empty path'
    yield from _env_problems(hook.env)


def _mount_problems(mount: SpecMount) -> Iterator[str]:
    if not mount.host_path:
        yield "invalid mount, empty host path"
    if not mount.container_path:
        yield "invalid mount, empty container path"


def _rdt_problems(rdt: IntelRdt) -> Iterator[str]:
    name = rdt.clos_id
    if name != "/" and (len(name) >= _MAX_CLOS_ID or name in (".", "..") or "/" in name or "\n" in name):
        yield f'invalid Intel RDT closID "{name[:64]}"'


def _net_device_problems(devices: Iterable[NetDevice]) -> Iterator[str]:
    devices = tuple(devices)
    for device in devices:
        if not device.host_interface_name:
            yield "invalid network device, empty hostInterfaceName"
        if not device.name:
            yield f'invalid network device "{device.host_interface_name}", empty name'
    if twice := _repeated(device.host_interface_name for device in devices):
        yield f'invalid network devices, multiple host interface "{twice}"'
    if twice := _repeated(device.name for device in devices):
        yield f'invalid network devices, multiple name "{twice}"'


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
