"""The DaemonSet of a plugin process with the least rights that do, and the ConfigMap of its files. Pure.

Source: Kubernetes 1.36 ``pkg/apis/apps/validation/validation.go``, ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from plugbay.errors import UsageError
from plugbay.model.dns import MAX_LABEL, is_label
from plugbay.sdk.author.needs import HostDirectory
from plugbay.sdk.deploying.noted_yaml import Noted
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT, PluginNeeds, is_below

FILES: Final = "/plugin"
"""The directory of the ConfigMap's files, in the container."""
MAX_CONFIG_MAP: Final = 1024 * 1024
_NAME_LABEL: Final = "app.kubernetes.io/name"
_PORT: Final = 9400
_PYTHON: Final = ".py"
_STEP_MIB: Final = 16
_GAINS_ALL: Final = "SYS_ADMIN"
"""A container with this capability can escalate its privileges in any case, as a privileged one can."""
_EXISTS_ALWAYS: Final = ("/dev", "/sys", KUBELET_ROOT)

Fields = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A plugin process for every node.

    Attributes:
        name: of the DaemonSet, and the value of its label.
        targets: the arguments of ``plugbay serve`` that say what to serve.
        files: texts by their names in `FILES`.
        node_selector: labels of the nodes; none for all nodes.
    """

    name: str
    namespace: str
    image: str
    needs: PluginNeeds
    targets: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what an API server would refuse.

        Raises:
            UsageError: one sentence about the first thing that is wrong.
        """
        for what, text in (("name", self.name), ("namespace", self.namespace)):
            if not is_label(text):
                raise UsageError(
                    f"--{what} {text}: a {what} has 1 to {MAX_LABEL} lower-case letters, digits and -, and a letter or "
                    f"digit first and last" + (f", and not {len(text)}" if len(text) > MAX_LABEL else "")
                )
        if not self.image or any(character.isspace() for character in self.image):
            raise UsageError(f"--image {self.image!r} is not the name of an image")
        for each in self.needs.directories:
            if is_below(FILES, each.place) or is_below(each.place, FILES):
                raise UsageError(f"{each.place} ({each.reason}) cannot be mounted: {FILES} holds the plugin's files")
        if (size := sum(len(text.encode()) for text in self.files.values())) > MAX_CONFIG_MAP:
            raise UsageError(f"the files have {size} bytes, and a ConfigMap holds at most {MAX_CONFIG_MAP}")


def default_name(needs: PluginNeeds) -> str:
    """The name for a DaemonSet that got none: after the type of its only resource.

    Raises:
        UsageError: it would be too long.
    """
    if len(needs.served) != 1:
        return "plugbay-plugins"
    kind = needs.served[0].rpartition("/")[2].lower()
    name = f"{re.sub('[^a-z0-9]+', '-', kind).strip('-')}-plugin"
    if not is_label(name):
        raise UsageError(f"{name} has {len(name)} characters, and a name at most {MAX_LABEL}: give a --name")
    return name


def manifest(deployment: Deployment) -> list[Fields]:
    """The objects to apply, in this order; the same for the same deployment."""
    objects = [_daemon_set(deployment)]
    return [_config_map(deployment), *objects] if deployment.files else objects


def _metadata(deployment: Deployment) -> Fields:
    return {
        "name": deployment.name,
        "namespace": deployment.namespace,
        "labels": {_NAME_LABEL: deployment.name},
    }


def _config_map(deployment: Deployment) -> Fields:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(deployment),
        "data": dict(sorted(deployment.files.items())),
    }


def _daemon_set(deployment: Deployment) -> Fields:
    labels = {_NAME_LABEL: deployment.name}
    return {
        "apiVersion": Noted("apps/v1", f"Serves {', '.join(deployment.needs.served)}."),
        "kind": "DaemonSet",
        "metadata": _metadata(deployment),
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": Noted(
                {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
                "Containers keep their devices while a node's plugin is replaced; new ones wait.",
            ),
            "template": {"metadata": {"labels": labels, **_annotations(deployment)}, "spec": _pod(deployment)},
        },
    }


def _annotations(deployment: Deployment) -> Fields:
    """Code that changes replaces the pods; a config file that changes does not, as it is read again."""
    code = {name: text for name, text in sorted(deployment.files.items()) if name.endswith(_PYTHON)}
    if not code:
        return {}
    digest = hashlib.sha256(repr(code).encode()).hexdigest()
    return {"annotations": {"checksum/code": Noted(digest, "New code replaces the pods, which run the old one.")}}


def _pod(deployment: Deployment) -> Fields:
    pod: Fields = {
        "priorityClassName": Noted("system-node-critical", "Pods wait for the devices, so it goes before them,"),
        "tolerations": Noted([{"operator": "Exists"}], "and onto nodes that refuse others."),
    }
    if deployment.node_selector:
        pod["nodeSelector"] = dict(sorted(deployment.node_selector.items()))
    pod |= {
        "automountServiceAccountToken": Noted(False, "It asks the API server for nothing."),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(deployment)],
        "volumes": list(_volumes(deployment)),
    }
    return pod


def _container(deployment: Deployment) -> Fields:
    needs = deployment.needs
    words = ["plugbay", "serve", *deployment.targets, f"--root={KUBELET_ROOT}", f"--metrics=:{_PORT}"]
    container: Fields = {"name": "plugin", "image": deployment.image, "command": words}
    if needs.variables:
        container["env"] = [
            Noted({"name": each.name, "value": each.value}, _sentence(each.reason)) for each in needs.variables
        ]
    ready = {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5}
    alive = {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 10}
    request = -(-needs.memory_mib * 4 // (3 * _STEP_MIB)) * _STEP_MIB
    container |= {
        "ports": [{"name": "metrics", "containerPort": _PORT}],
        "readinessProbe": Noted(ready, "Ready once the kubelet has registered every resource and reads its devices."),
        "livenessProbe": alive,
        "resources": Noted(
            {"requests": {"cpu": "10m", "memory": f"{request}Mi"}, "limits": {"memory": f"{2 * request}Mi"}},
            f"It has {needs.memory_mib} MiB in use while it serves a few devices.",
        ),
        "securityContext": _security(needs),
    }
    if any(each.place == "/dev" for each in needs.directories):
        why = "Not in /dev, which is the host's."
        container["terminationMessagePath"] = Noted("/tmp/termination-log", why)
    mounts = [_mount(each, name) for each, name in _named(needs)]
    if deployment.files:
        files = {"name": "files", "mountPath": FILES, "readOnly": True}
        mounts.append(Noted(files, "The files of the ConfigMap."))
    container["volumeMounts"] = mounts
    return container


def _security(needs: PluginNeeds) -> Fields:
    own = {
        "readOnlyRootFilesystem": True,
        "runAsUser": Noted(0, "The kubelet's directory of sockets is open to root only."),
    }
    if needs.privileged:
        return {"privileged": Noted(True, _sentence("; ".join(needs.privileged))), **own}
    capabilities: Fields = {"drop": ["ALL"]}
    if needs.capabilities:
        capabilities["add"] = [Noted(each.name, _sentence(each.reason)) for each in needs.capabilities]
    may_not_gain: Fields = {"allowPrivilegeEscalation": False}
    if any(each.name == _GAINS_ALL for each in needs.capabilities):
        may_not_gain = {}
    return {**may_not_gain, **own, "capabilities": capabilities}


def _mount(directory: HostDirectory, volume: str) -> Noted:
    mount: Fields = {"name": volume, "mountPath": directory.place}
    if not directory.writable:
        mount["readOnly"] = True
    return Noted(mount, _sentence(directory.reason))


def _sentence(reason: str) -> str:
    """``reason`` with a capital, unless it begins with the name of a resource, and a full stop."""
    begins_with_word = reason.partition(" ")[0].isalpha()
    return f"{reason[0].upper() if begins_with_word else reason[0]}{reason[1:]}."


def _volumes(deployment: Deployment) -> Iterator[Fields]:
    for each, name in _named(deployment.needs):
        exists = each.path == "/" or any(is_below(each.path, place) for place in _EXISTS_ALWAYS)
        kind = "Directory" if exists else "DirectoryOrCreate"
        yield {"name": name, "hostPath": {"path": each.path, "type": kind}}
    if deployment.files:
        yield {"name": "files", "configMap": {"name": deployment.name}}


def _named(needs: PluginNeeds) -> list[tuple[HostDirectory, str]]:
    """Every directory with a name for its volume."""
    names: dict[str, HostDirectory] = {}
    for each in needs.directories:
        place = each.path.removeprefix(f"{KUBELET_ROOT}/")
        stem = re.sub("[^a-z0-9]+", "-", place.lower()).strip("-")[: MAX_LABEL - 5].strip("-") or "root"
        name, number = stem, 2
        while name in names or name == "files":
            name, number = f"{stem}-{number}", number + 1
        names[name] = each
    return [(each, name) for name, each in names.items()]
