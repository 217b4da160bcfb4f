"""Apply edits to an OCI runtime spec."""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Callable, Iterable
from typing import Any, Final

from plugbay.cdi.nodes import HostNode
from plugbay.cdi.rules import NO_PERMISSIONS
from plugbay.cdi.spec import Edits, Hook, IntelRdt, SpecDeviceNode, SpecMount
from plugbay.errors import CdiInjectionFailed

OciSpec = dict[str, Any]
"""A ``config.json`` of the OCI runtime specification."""

LookUp = Callable[[str], HostNode | None]
"""See `plugbay.cdi.host.host_node`."""

_ALL_PERMISSIONS: Final = "rwm"
_IN_CGROUP: Final = ("b", "c")


def inject(edits: Edits, oci: OciSpec, look_up: LookUp) -> OciSpec:
    """A copy of ``oci`` with ``edits``.

    Raises:
        CdiInjectionFailed: a device node is not on the host as the edits say.

    Source: CDI 1.1.0 ``pkg/cdi/container-edits.go``, ``Apply``. As of that version, a node without a mode gets the mode
    of the host's node.
    """
    changed = copy.deepcopy(oci)
    _set_env(changed, edits.env)
    for node in edits.device_nodes:
        _add_node(changed, node, look_up)
    for device in edits.net_devices:
        _part(changed, "linux", "netDevices")[device.host_interface_name] = {"name": device.name}
    _add_mounts(changed, edits.mounts)
    for hook in edits.hooks:
        _part(changed, "hooks").setdefault(hook.hook_name, []).append(_hook(hook))
    if edits.intel_rdt is not None:
        _part(changed, "linux")["intelRdt"] = _intel_rdt(edits.intel_rdt)
    _add_groups(changed, edits.additional_gids)
    return changed


def clean(path: str) -> str:
    """``path`` without what leads nowhere, as Go's ``filepath.Clean`` has it: two slashes at the beginning are one."""
    cleaned = posixpath.normpath(path)
    return cleaned.removeprefix("/") if cleaned.startswith("//") else cleaned


def depth(mount: OciSpec) -> int:
    """The place of a mount among others: a deeper one comes later, so that none hides another."""
    return clean(mount["destination"]).count("/")


def _part(oci: OciSpec, *keys: str) -> OciSpec:
    part = oci
    for key in keys:
        if part.get(key) is None:
            part[key] = {}
        part = part[key]
    return part


def _list(part: OciSpec, key: str) -> list[Any]:
    if part.get(key) is None:
        part[key] = []
    found: list[Any] = part[key]
    return found


def _set_env(oci: OciSpec, env: Iterable[str]) -> None:
    if not (env := tuple(env)):
        return
    variables = _list(_part(oci, "process"), "env")
    places = {each.partition("=")[0]: place for place, each in enumerate(variables)}
    for each in env:
        name = each.partition("=")[0]
        if name in places:
            variables[places[name]] = each
        else:
            places[name] = len(variables)
            variables.append(each)


def _add_node(oci: OciSpec, node: SpecDeviceNode, look_up: LookUp) -> None:
    device = _device(node, look_up)
    user = (oci.get("process") or {}).get("user") or {}
    for key, given in (("uid", node.uid), ("gid", node.gid)):
        owner = given if given is not None else user.get(key) or None
        if owner is not None:
            device[key] = owner
    devices = _list(_part(oci, "linux"), "devices")
    same = next((place for place, each in enumerate(devices) if each.get("path") == node.path), None)
    if same is not None:
        del devices[same]
    devices.append(device)
    if device["type"] in _IN_CGROUP:
        access = "" if node.permissions == NO_PERMISSIONS else node.permissions or _ALL_PERMISSIONS
        _list(_part(oci, "linux", "resources"), "devices").append(
            {
                "allow": True,
                "type": device["type"],
                "major": device["major"],
                "minor": device["minor"],
                "access": access,
            }
        )


def _device(node: SpecDeviceNode, look_up: LookUp) -> OciSpec:
    host_path = node.host_path or node.path
    is_complete = bool(node.type) and (node.major != 0 or node.type == "p")
    found: HostNode | None = None
    try:
        found = look_up(host_path)
        if found is None and not is_complete:
            raise CdiInjectionFailed(f'failed to stat CDI host device "{host_path}": not a device node')
    except OSError as error:
        if not is_complete:
            reason = (error.strerror or str(error)).lower()
            raise CdiInjectionFailed(f'failed to stat CDI host device "{host_path}": {reason}') from error
    device: OciSpec = {"path": node.path, "type": node.type, "major": node.major, "minor": node.minor}
    if found is not None and not is_complete:
        device["type"] = node.type or found.type
        if device["type"] != found.type:
            types = f"host type mismatch ({device['type']}, {found.type})"
            raise CdiInjectionFailed(f'CDI device ("{node.path}", "{host_path}"), {types}')
        if node.major == 0 and device["type"] != "p":
            device["major"], device["minor"] = found.major, found.minor
    mode = node.file_mode if node.file_mode is not None else found.mode if found is not None else None
    if mode is not None:
        device["fileMode"] = mode
    return device


def _add_mounts(oci: OciSpec, added: Iterable[SpecMount]) -> None:
    if not (added := tuple(added)):
        return
    mounts = _list(oci, "mounts")
    namespaces = (oci.get("linux") or {}).get("namespaces") or []
    has_user_namespace = any(each.get("type") == "user" for each in namespaces)
    for mount in added:
        same = next((place for place, each in enumerate(mounts) if each["destination"] == mount.container_path), None)
        if same is not None:
            del mounts[same]
        mounts.append(_mount(mount, has_user_namespace=has_user_namespace))
    mounts.sort(key=depth)


def _mount(mount: SpecMount, *, has_user_namespace: bool) -> OciSpec:
    options = list(mount.options)
    if has_user_namespace:
        if "rbind" in options:
            wanted = "ridmap"
        elif "bind" in options or mount.type == "bind":
            wanted = "idmap"
        else:
            wanted = ""
        if wanted and not {"idmap", "ridmap"} & set(options):
            options.append(wanted)
    made: OciSpec = {"destination": mount.container_path, "source": mount.host_path}
    if mount.type:
        made["type"] = mount.type
    if options:
        made["options"] = options
    return made


def _hook(hook: Hook) -> OciSpec:
    made: OciSpec = {"path": hook.path}
    if hook.args:
        made["args"] = list(hook.args)
    if hook.env:
        made["env"] = list(hook.env)
    if hook.timeout_s is not None:
        made["timeout"] = hook.timeout_s
    return made


def _intel_rdt(rdt: IntelRdt) -> OciSpec:
    made: OciSpec = {}
    if rdt.clos_id:
        made["closID"] = rdt.clos_id
    if rdt.l3_cache_schema:
        made["l3CacheSchema"] = rdt.l3_cache_schema
    if rdt.mem_bw_schema:
        made["memBwSchema"] = rdt.mem_bw_schema
    if rdt.schemata is not None:
        made["schemata"] = list(rdt.schemata)
    if rdt.enable_monitoring:
        made["enableMonitoring"] = True
    return made


def _add_groups(oci: OciSpec, gids: Iterable[int]) -> None:
    for gid in gids:
        if gid == 0:
            continue
        groups = _list(_part(oci, "process", "user"), "additionalGids")
        if gid not in groups:
            groups.append(gid)
