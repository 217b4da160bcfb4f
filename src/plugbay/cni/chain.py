"""The variables and the input of each plugin of a network. Pure.

Source: CNI specification 1.1.0 sections 2 and 3; libcni 1.3 ``api.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final

from plugbay.cni.config import NAME_RULE, NetworkConfig, PluginConfig, is_valid_name
from plugbay.cni.result import Result
from plugbay.cni.result_encoding import convert, encode
from plugbay.cni.versions import is_at_least
from plugbay.documents import JsonObject, JsonValue, go_json
from plugbay.errors import InvalidAttachment
from plugbay.values import dataclass

HAS_CHECK: Final = "0.4.0"
"""Since this version there is CHECK, and DEL gets the result of ADD."""
HAS_STATUS: Final = "1.1.0"
"""Since this version there are STATUS and GC."""
MAX_IFNAME_BYTES: Final = 15
DEFAULT_IFNAME: Final = "eth0"


class CniCommand(Enum):
    ADD = "ADD"
    DEL = "DEL"
    CHECK = "CHECK"
    GC = "GC"
    STATUS = "STATUS"
    VERSION = "VERSION"


@dataclass(frozen=True, slots=True)
class Attachment:
    """One interface of one container.

    Attributes:
        netns: path of its network namespace; empty when that is gone.
        args: name and value, for ``CNI_ARGS``, in order.
        capabilities: each plugin gets those that it declares, as ``runtimeConfig``.

    Raises:
        InvalidAttachment: a plugin would refuse it, or take an argument apart in another way.
    """

    container_id: str
    netns: str
    ifname: str = DEFAULT_IFNAME
    args: tuple[tuple[str, str], ...] = ()
    capabilities: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not is_valid_name(self.container_id):
            raise InvalidAttachment("container ID", self.container_id, NAME_RULE)
        if problem := _ifname_problem(self.ifname):
            raise InvalidAttachment("interface name", self.ifname, problem)
        for name, value in self.args:
            if not name or set("=;\0") & {*name, *value}:
                raise InvalidAttachment("argument", f"{name}={value}", "needs a name, and can hold no '=', ';' or NUL")


def _ifname_problem(name: str) -> str:
    if not name:
        return "is empty"
    if len(name.encode(errors="surrogateescape")) > MAX_IFNAME_BYTES:
        return f"is longer than {MAX_IFNAME_BYTES} bytes"
    if name in (".", ".."):
        return "is . or .."
    if any(each in "/:\0" or each.isspace() for each in name):
        return "contains / or : or whitespace characters"
    return ""


def variables(command: CniCommand, attachment: Attachment | None, path: Sequence[str]) -> dict[str, str]:
    """The six variables that a plugin gets; it always gets all of them.

    Args:
        attachment: None for commands that are about no container.
        path: the directories with plugins.
    """
    args = ";".join(f"{name}={value}" for name, value in attachment.args) if attachment else ""
    return {
        "CNI_COMMAND": command.value,
        "CNI_CONTAINERID": attachment.container_id if attachment else "",
        "CNI_NETNS": attachment.netns if attachment else "",
        "CNI_ARGS": args,
        "CNI_IFNAME": attachment.ifname if attachment else "",
        "CNI_PATH": ":".join(path),
    }


def plugin_input(
    network: NetworkConfig,
    plugin: PluginConfig,
    *,
    capabilities: Mapping[str, JsonValue],
    previous: Result | None,
) -> bytes:
    """The input of ``plugin`` when a container is added, checked or removed.

    Its own members go through untouched, ``capabilities`` among them: libcni passes it, though the specification
    would not.

    Args:
        capabilities: everything the runtime can tell; the plugin gets what it declares.
        previous: the result so far; it is told in the network's version.

    Raises:
        InvalidNetworkResult: ``previous`` cannot be told in that version.
    """
    added: JsonObject = {"name": network.name, "cniVersion": network.version}
    if previous is not None:
        added["prevResult"] = encode(convert(previous, network.version))
    if wanted := {name: capabilities[name] for name in plugin.capabilities if name in capabilities}:
        added["runtimeConfig"] = wanted
    return go_json.compact({**plugin.document, **added}, sort_keys=True).encode()


def status_input(network: NetworkConfig, plugin: PluginConfig) -> bytes:
    """The input of ``plugin`` when it is asked whether it is ready."""
    return plugin_input(network, plugin, capabilities={}, previous=None)


def garbage_input(network: NetworkConfig, plugin: PluginConfig, valid: Iterable[tuple[str, str]]) -> bytes:
    """The input of ``plugin`` when it is to release what no attachment needs any more.

    Args:
        valid: container ID and interface name of each attachment that is in use.
    """
    entries: list[JsonValue] = [{"containerID": container, "ifname": ifname} for container, ifname in valid]
    # The second name is the specification's draft's; plugins of that time know no other.
    added: JsonObject = {"cni.dev/valid-attachments": entries, "cni.dev/attachments": entries}
    return go_json.compact(
        {**plugin.document, **added, "name": network.name, "cniVersion": network.version}, sort_keys=True
    ).encode()


def tells_delete(network: NetworkConfig) -> bool:
    """Whether plugins get the result of ADD when they are to undo it."""
    return is_at_least(network.version, HAS_CHECK)


def has_check(network: NetworkConfig) -> bool:
    return is_at_least(network.version, HAS_CHECK)


def has_status(network: NetworkConfig) -> bool:
    """Whether the plugins of ``network`` know STATUS and GC."""
    return is_at_least(network.version, HAS_STATUS)
