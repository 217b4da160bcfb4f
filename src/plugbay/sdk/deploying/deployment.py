"""A deployment: a plugin process for every node, with its files, its rights and what goes with it. Pure.

Source: Kubernetes 1.36 ``pkg/apis/apps/validation/validation.go``, ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final

from plugbay.errors import NeedsRefused, UsageError
from plugbay.model.dns import MAX_LABEL, is_label, is_subdomain
from plugbay.model.selectors import Selector
from plugbay.sdk.deploying.container_places import hides_own
from plugbay.sdk.deploying.plugin_needs import PluginNeeds, is_below
from plugbay.values import dataclass

FILES: Final = "/plugin"
"""The directory of the ConfigMap's files, in the container."""
MAX_CONFIG_MAP: Final = 1024 * 1024
NAMESPACE: Final = "kube-system"
"""The namespace of deployments that are told none."""
PORT: Final = 9400
"""The port of metrics and probes of deployments that are told none."""
CRITICAL: Final = "system-node-critical"
EVERYWHERE: Final[Sequence[Mapping[str, object]]] = ({"operator": "Exists"},)
"""Tolerations of everything."""
_FILE_NAME: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_IMAGE: Final = re.compile(
    r"(?P<repository>[a-zA-Z0-9][a-zA-Z0-9._-]*(?::[0-9]+(?=/))?(?:/[a-z0-9._-]+)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9+._-]+:[a-fA-F0-9]{32,}))?"
)


class Extra(Enum):
    """An object that is there only if asked for."""

    NAMESPACE = "namespace"
    POD_MONITOR = "pod-monitor"
    DASHBOARD = "dashboard"
    NETWORK_POLICY = "network-policy"


@dataclass(frozen=True, slots=True)
class ImageName:
    """The parts of an image's name; empty texts for those that it has not."""

    repository: str
    tag: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A plugin process for every node.

    Attributes:
        name: of the DaemonSet, and the value of its label.
        targets: the arguments of ``plugbay serve`` that say what to serve.
        files: texts by their names in `FILES`.
        port: of metrics and probes.
        node_selector: labels of the nodes; none for all nodes.
        affinity: conditions on labels of nodes, one set of which has to hold; none for all nodes.
        tolerations: as v1 has them.
        runtime_class: the cluster's default if empty.
        extras: objects beside those that the plugin cannot do without.
        monitor_labels: by which a Prometheus chooses PodMonitors.
    """

    name: str
    namespace: str
    image: str
    needs: PluginNeeds
    targets: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    port: int = PORT
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[Selector, ...] = ()
    tolerations: Sequence[Mapping[str, object]] = EVERYWHERE
    runtime_class: str = ""
    priority_class: str = CRITICAL
    extras: frozenset[Extra] = frozenset()
    monitor_labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what an API server would refuse.

        Raises:
            UsageError: one sentence about the first thing that is wrong.
            NeedsRefused: a need has a place that the files need, or the container itself.
        """
        for what, text in (("name", self.name), ("namespace", self.namespace)):
            if not is_label(text):
                raise UsageError(
                    f"--{what} {text}: a {what} has 1 to {MAX_LABEL} lower-case letters, digits and -, and a letter or "
                    f"digit first and last" + (f", and not {len(text)}" if len(text) > MAX_LABEL else "")
                )
        for what, text in (("runtime-class", self.runtime_class), ("priority-class", self.priority_class)):
            if text and not is_subdomain(text):
                raise UsageError(f"--{what} {text}: a name has lower-case letters, digits, - and . only")
        image_name(self.image)
        if self.monitor_labels and Extra.POD_MONITOR not in self.extras:
            raise UsageError("--monitor-labels are those of a PodMonitor: ask for it by --with pod-monitor")
        for each in self.needs.directories:
            if is_below(FILES, each.place) or is_below(each.place, FILES):
                raise NeedsRefused(f"{each.place} ({each.reason}) cannot be mounted: {FILES} holds the plugin's files")
            if hides_own(each.place):
                raise NeedsRefused(
                    f"{each.place} ({each.reason}) cannot be mounted: it hides what the container itself has there; "
                    "use a directory below it, or one elsewhere (HostDirectory has a container_path for that)"
                )
        if (size := sum(len(text.encode()) for text in self.files.values())) > MAX_CONFIG_MAP:
            raise UsageError(f"the files have {size} bytes, and a ConfigMap holds at most {MAX_CONFIG_MAP}")


def is_file_name(name: str) -> bool:
    """Whether a ConfigMap can hold a file of this name; its volume has those that begin with ``..`` for itself."""
    return _FILE_NAME.fullmatch(name) is not None and name != "." and not name.startswith("..")


def image_name(text: str) -> ImageName:
    """Split the name of an image.

    Raises:
        UsageError: ``text`` is not such a name.
    """
    if (found := _IMAGE.fullmatch(text)) is None:
        raise UsageError(f"--image {text!r} is not the name of an image, such as registry.example.com/plugbay:1")
    return ImageName(found["repository"], found["tag"] or "", found["digest"] or "")


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
