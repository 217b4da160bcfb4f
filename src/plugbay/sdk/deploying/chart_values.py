"""The values of the chart: their defaults, their schema, and those of a deployment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.model.images import with_default_tag
from plugbay.sdk.deploying import rights
from plugbay.sdk.deploying.daemonset import Fields
from plugbay.sdk.deploying.deployment import CRITICAL, EVERYWHERE, PORT, Deployment, Extra, image_name
from plugbay.sdk.deploying.noted_yaml import Noted, noted_yaml
from plugbay.sdk.deploying.objects import affinity_of
from plugbay.sdk.deploying.plugin_needs import PluginNeeds

_NEEDS_NOTHING: Final = PluginNeeds(served=())
DEFAULTS: Final[Mapping[str, object]] = {
    "priorityClassName": CRITICAL,
    "tolerations": [dict(each) for each in EVERYWHERE],
    "updateStrategy": rights.update(_NEEDS_NOTHING),
    "resources": Noted(rights.resources(_NEEDS_NOTHING), f"It has {_NEEDS_NOTHING.memory_mib} MiB in use."),
    "securityContext": rights.security(_NEEDS_NOTHING),
}
"""Fields of a plugin that says nothing of them."""
MONITOR: Final = "podMonitor"
TOGGLES: Final = {
    MONITOR: (
        Extra.POD_MONITOR,
        "Has Prometheus read the metrics, where its operator runs. Many choose by a label, as release: prometheus.",
    ),
    "dashboard": (Extra.DASHBOARD, "A ConfigMap with a Grafana dashboard, labelled for Grafana's sidecar."),
    "networkPolicy": (Extra.NETWORK_POLICY, "Lets nothing in but readers of the metrics, and nothing out."),
}
_LABELS: Final = "labels"
_EXAMPLE: Final = """\
# The plugins: a DaemonSet for each, with its name. `plugbay manifest -o helm` writes the values of a plugin.
#   targets          what `plugbay serve` serves, with its options
#   files            texts by their names in /plugin: a config file, code of plugins
#   port             of metrics and probes, in place of 9400
#   env, resources, securityContext, volumes, volumeMounts, nodeSelector, affinity, tolerations, runtimeClassName,
#   priorityClassName, updateStrategy
#                    as v1 has them; the volume of the kubelet's sockets is there anyway
#   image            in place of the image above
#   readsNodes       whether it may read nodes, for settings by their labels
#
# plugins:
#   gopher-plugin:
#     targets: [directory, --resource=example.com/gopher, --path=/etc/gophers, --env=GOPHER]
#     volumes:
#     - name: gophers
#       hostPath: {path: /etc/gophers, type: DirectoryOrCreate}
#     volumeMounts:
#     - {name: gophers, mountPath: /etc/gophers, readOnly: true}
"""
_MARK: Final = "plugins: {}\n"


def default_values() -> str:
    """The text of ``values.yaml`` of a chart without plugins."""
    image = {"repository": "", "tag": "", "digest": "", "pullPolicy": "IfNotPresent"}
    return noted_yaml([_values(image, {}, frozenset(), {})]).replace(_MARK, f"{_EXAMPLE}{_MARK}")


def values_of(deployment: Deployment) -> str:
    """The text of ``values.yaml`` of a chart for one deployment."""
    return noted_yaml(
        [_values(_image(deployment.image), _plugins(deployment), deployment.extras, deployment.monitor_labels)]
    )


def own_values(deployment: Deployment) -> str:
    """Values for a plugin beside others of a chart, with an image of its own."""
    return noted_yaml([{"plugins": _plugins(deployment, image=_image(deployment.image))}])


def _values(image: object, plugins: object, extras: Iterable[Extra], monitor_labels: Mapping[str, str]) -> Fields:
    why = "The image of all plugins: there is no public one, so say where yours is."
    toggles: dict[str, Noted] = {}
    for name, (extra, about) in TOGGLES.items():
        further = {_LABELS: dict(sorted(monitor_labels.items()))} if extra is Extra.POD_MONITOR else {}
        toggles[name] = Noted({"enabled": extra in extras, **further}, about)
    return {
        "image": Noted(image, why),
        "imagePullSecrets": [],
        "plugins": plugins,
        "defaults": Noted(dict(DEFAULTS), "Each plugin has these that says nothing of them."),
        **toggles,
    }


def _image(text: str) -> Fields:
    name = image_name(with_default_tag(text))
    return {key: part for key in ("repository", "tag", "digest") if (part := getattr(name, key))}


def _plugins(deployment: Deployment, **further: object) -> Fields:
    about = f"Serves {', '.join(deployment.needs.served)}."
    return {deployment.name: Noted({**further, **dict(_plugin(deployment))}, about)}


def _plugin(deployment: Deployment) -> Iterable[tuple[str, object]]:
    needs = deployment.needs
    yield "targets", list(deployment.targets)
    if deployment.port != PORT:
        yield "port", deployment.port
    own = {
        "priorityClassName": deployment.priority_class,
        "tolerations": [dict(each) for each in deployment.tolerations],
        "resources": Noted(
            rights.resources(needs), f"It has {needs.memory_mib} MiB in use while it serves a few devices."
        ),
        "securityContext": rights.security(needs),
        "updateStrategy": rights.update(needs),
    }
    yield from ((key, value) for key, value in own.items() if plain(value) != plain(DEFAULTS[key]))
    optional: dict[str, object] = {
        "readsNodes": Noted(True, reads) if (reads := rights.reads_nodes(needs)) else False,
        "nodeSelector": dict(sorted(deployment.node_selector.items())),
        "affinity": affinity_of(deployment),
        "runtimeClassName": deployment.runtime_class,
        "env": rights.env(needs),
        "volumes": rights.volumes(needs)[1:],
        "volumeMounts": rights.mounts(needs)[1:],
        "files": dict(sorted(deployment.files.items())),
    }
    yield from ((key, value) for key, value in optional.items() if value)


def plain(value: object) -> object:
    """``value`` without its notes."""
    match value:
        case Noted():
            return plain(value.value)
        case Mapping():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case _:
            return value
