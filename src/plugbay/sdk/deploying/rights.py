"""The rights of a plugin's container as v1 has them: exactly what is needed, each with its reason. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from plugbay.model.dns import MAX_LABEL
from plugbay.sdk.author.needs import HostDirectory
from plugbay.sdk.deploying.noted_yaml import Noted
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT, NODE_NAME, PluginNeeds, is_below

Fields = dict[str, object]

SOCKETS: Final = HostDirectory(
    f"{KUBELET_ROOT}/device-plugins", "the kubelet's socket, and the plugin's own beside it", writable=True
)
_STEP_MIB: Final = 16
_GAINS_ALL: Final = "SYS_ADMIN"
"""A container with this capability can escalate its privileges in any case, as a privileged one can."""
_EXISTS_ALWAYS: Final = ("/dev", "/sys", KUBELET_ROOT)
TAKEN_VOLUMES: Final = ("device-plugins", "files")
"""The names of volumes that every plugin may have, whatever it needs: of the kubelet's sockets, and of a ConfigMap."""


def env(needs: PluginNeeds) -> list[object]:
    """The variables of the container."""
    values: list[object] = []
    if needs.node_name:
        node = {"name": NODE_NAME, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
        values.append(Noted(node, all_of(needs.node_name)))
    values += [Noted({"name": each.name, "value": each.value}, sentence(each.reason)) for each in needs.variables]
    return values


def resources(needs: PluginNeeds) -> Fields:
    """Requests and limits with a third of room, or more than twice as much, above the memory in use."""
    request = -(-needs.memory_mib * 4 // (3 * _STEP_MIB)) * _STEP_MIB
    return {"requests": {"cpu": "10m", "memory": f"{request}Mi"}, "limits": {"memory": f"{2 * request}Mi"}}


def security(needs: PluginNeeds) -> Fields:
    """The container's security context."""
    own = {
        "readOnlyRootFilesystem": True,
        "runAsUser": Noted(0, "The kubelet's directory of sockets is open to root only."),
    }
    if needs.privileged:
        return {"privileged": Noted(True, all_of(needs.privileged)), **own}
    capabilities: Fields = {"drop": ["ALL"]}
    if needs.capabilities:
        capabilities["add"] = [Noted(each.name, sentence(each.reason)) for each in needs.capabilities]
    may_not_gain: Fields = {"allowPrivilegeEscalation": False}
    if any(each.name == _GAINS_ALL for each in needs.capabilities):
        may_not_gain = {}
    return {**may_not_gain, **own, "capabilities": capabilities}


def update(needs: PluginNeeds) -> Noted:
    """The strategy of roll-outs: the new process takes over from the old one, if both may run for a while."""
    if not needs.one_at_a_time:
        why = "The new process of a node takes over before the old one ends, so that no container waits for it."
        return Noted({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}, why)
    why = f"{all_of(needs.one_at_a_time)} So the old process ends first: containers keep their devices, new ones wait."
    return Noted({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}, why)


def mounts(needs: PluginNeeds) -> list[object]:
    """The mounts of all directories of the host, the kubelet's sockets first."""
    return [_mount(each, name) for each, name in _named(needs)]


def volumes(needs: PluginNeeds) -> list[object]:
    """The volumes of `mounts`, in the same order."""
    return [_volume(each, name) for each, name in _named(needs)]


def reads_nodes(needs: PluginNeeds) -> str:
    """The reasons for which nodes are read; empty if they are not."""
    return all_of(needs.node_reader) if needs.node_reader else ""


def all_of(reasons: Iterable[str]) -> str:
    """All reasons as a sentence, each once."""
    return sentence("; ".join(dict.fromkeys(reasons)))


def sentence(reason: str) -> str:
    """``reason`` with a capital, unless it begins with the name of a resource, and a full stop."""
    begins_with_word = reason.partition(" ")[0].isalpha()
    return f"{reason[0].upper() if begins_with_word else reason[0]}{reason[1:]}."


def _mount(directory: HostDirectory, volume: str) -> Noted:
    mount: Fields = {"name": volume, "mountPath": directory.place}
    if not directory.writable:
        mount["readOnly"] = True
    return Noted(mount, sentence(directory.reason))


def _volume(directory: HostDirectory, name: str) -> Fields:
    exists = directory.path == "/" or any(is_below(directory.path, place) for place in _EXISTS_ALWAYS)
    return {
        "name": name,
        "hostPath": {"path": directory.path, "type": "Directory" if exists else "DirectoryOrCreate"},
    }


def _named(needs: PluginNeeds) -> list[tuple[HostDirectory, str]]:
    """Every directory with a name for its volume."""
    names: dict[str, HostDirectory] = {}
    for each in _ordered(needs):
        place = each.path.removeprefix(f"{KUBELET_ROOT}/")
        stem = re.sub("[^a-z0-9]+", "-", place.lower()).strip("-")[: MAX_LABEL - 5].strip("-") or "root"
        name, number = stem, 2
        while name in names or (names and name in TAKEN_VOLUMES):  # the first is that of the sockets
            name, number = f"{stem}-{number}", number + 1
        names[name] = each
    return [(each, name) for name, each in names.items()]


def _ordered(needs: PluginNeeds) -> Iterator[HostDirectory]:
    yield next((each for each in needs.directories if each.place == SOCKETS.place), SOCKETS)
    yield from (each for each in needs.directories if each.place != SOCKETS.place)
