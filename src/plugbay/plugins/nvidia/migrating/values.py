"""The values of NVIDIA's chart. Pure.

Source: chart ``nvidia-device-plugin`` 0.20.0 (``values.yaml``, ``templates/``); spec 9.1.
"""

from __future__ import annotations

from typing import Final

from plugbay.model.selectors import Operator, Requirement
from plugbay.plugins.nvidia.config import flags
from plugbay.plugins.nvidia.migrating.reader import NvidiaReading
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, NoteKind
from plugbay.sdk.deploying.migrating.workloads import read_placement

_FLAGS: Final = {
    ("compatWithCPUManager",): flags.PASS_DEVICE_SPECS,
    ("migStrategy",): flags.MIG_STRATEGY,
    ("failOnInitError",): flags.FAIL_ON_INIT_ERROR,
    ("deviceListStrategy",): flags.DEVICE_LIST_STRATEGY,
    ("deviceIDStrategy",): flags.DEVICE_ID_STRATEGY,
    ("nvidiaDriverRoot",): flags.DRIVER_ROOT,
    ("gdrcopyEnabled",): flags.GDRCOPY_ENABLED,
    ("gdsEnabled",): flags.GDS_ENABLED,
    ("mofedEnabled",): flags.MOFED_ENABLED,
    ("deviceDiscoveryStrategy",): flags.DISCOVERY_STRATEGY,
    ("cdi", "nvidiaHookPath"): flags.CDI_HOOK_PATH,
    ("cdi", "featureFlags"): flags.CDI_FEATURE_FLAGS,
}
_FEATURES: Final = "nfd"
_NO_FEATURES: Final = "of no effect: neither nfd.enabled nor gfd.enabled installs it"
_OTHERWISE: Final = {
    "image": "the image is yours, by --image",
    "updateStrategy": "pods are replaced a few at a time",
    "resources": "they are those that were measured",
    "securityContext": "it has only the rights that the plugin needs, each with its reason",
    "podSecurityContext": "it has only the rights that the plugin needs, each with its reason",
    "allowDefaultNamespace": "any namespace is good, by --namespace",
    "selectorLabelsOverride": "the label is app.kubernetes.io/name",
}
_NAMES: Final = {"fullnameOverride": "name", "namespaceOverride": "namespace"}
_LEFT: Final = {
    _FEATURES: "Node Feature Discovery is a project of its own: install its chart",
    "imagePullSecrets": "values of our chart have it (-o values); a manifest has not",
    "podAnnotations": "our pods have none",
    "nameOverride": "give --name",
}
_GFD: Final = "`plugbay nvidia labels` takes the place of gpu-feature-discovery, but this is not part of the manifest"
_KNOWN: Final = frozenset({*(path[0] for path in _FLAGS), *_OTHERWISE, "config", "devicePlugin", "gfd", "nfd", "mps"})
_SOME: Final = 2
_DEFAULT_TOLERATIONS: Final = (
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
)
_DEFAULT_AFFINITY: Final = tuple(
    (Requirement(label, Operator.IN, frozenset({value})),)
    for label, value in (
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ("feature.node.kubernetes.io/cpu-model.vendor_id", "NVIDIA"),
        ("nvidia.com/gpu.present", "true"),
    )
)
_UNKNOWN: Final = "not a value of NVIDIA's chart 0.20, or not in a form that is known here"
_LABEL_FALLBACKS: Final = "named,single"


def are_values(settings: ForeignSettings) -> bool:
    """Whether a document is a file of values for NVIDIA's chart; one unknown value makes it none no more."""
    keys = set(settings.keys())
    own = keys & _KNOWN
    typical = keys & {"devicePlugin", "gfd", "nfd", "mps", "migStrategy", "compatWithCPUManager", "nvidiaDriverRoot"}
    return not keys & {"kind", "version", "flags", "sharing"} and bool(typical or len(own) >= _SOME)


def read_values(settings: ForeignSettings, reading: NvidiaReading) -> None:
    """Read values; each gets a note."""
    reading.pod = {"tolerations": list(_DEFAULT_TOLERATIONS), "affinity": _DEFAULT_AFFINITY}
    reading.pod |= read_placement(settings, ())
    for key, name in _NAMES.items():
        if isinstance(value := settings.at(key), str) and value:
            reading.pod[name] = value
            settings.note(NoteKind.TAKEN, (key,), f"--{name}")
    for path, flag in _FLAGS.items():
        value = settings.at(*path)
        if value is None:
            settings.note(NoteKind.OTHERWISE, path, "not set, which is the same here")
            continue
        kind, text = reading.take(flag, value, settings.located(path))
        settings.note(kind, path, text)
    _read_config(settings, reading)
    _read_parts(settings, reading)
    for key, text in _OTHERWISE.items():
        settings.note(NoteKind.OTHERWISE, (key,), text)
    if settings.at(_FEATURES, "enabled") is False or (
        settings.at(_FEATURES, "enabled") is None and settings.at("gfd", "enabled") is not True
    ):
        settings.note(NoteKind.OTHERWISE, (_FEATURES,), _NO_FEATURES)
    for key, text in _LEFT.items():
        if settings.at(key) not in ([], {}, "", None):
            settings.note(NoteKind.LEFT, (key,), text)
    settings.note_rest(_UNKNOWN)


def _read_config(settings: ForeignSettings, reading: NvidiaReading) -> None:
    files = settings.at("config", "map")
    name, default = settings.at("config", "name"), settings.at("config", "default")
    if name:
        command = "plugbay manifest nvidia --config-file-srcdir DIR"
        settings.note(NoteKind.LEFT, ("config", "name"), f"get the files of that ConfigMap and run `{command}`")
        for key, flag in (("default", flags.DEFAULT_CONFIG), ("fallbackStrategies", flags.FALLBACK_STRATEGIES)):
            settings.note(NoteKind.LEFT, ("config", key), f"with those files it is --{flag.names[0]}")
    else:
        settings.note(NoteKind.OTHERWISE, ("config", "name"), "the ConfigMap has the name of the DaemonSet")
    if not (isinstance(files, dict) and files and all(isinstance(each, str) for each in files.values())):
        for key in ("default", "fallbackStrategies") if not name else ():
            settings.note(NoteKind.OTHERWISE, ("config", key), "of no effect: there are no files to choose from")
        if not files:
            settings.note(NoteKind.OTHERWISE, ("config", "map"), "there is none here either")
        return
    reading.add_files(files)
    reading.take_files(default=default if isinstance(default, str) else "")
    settings.note(NoteKind.TAKEN, ("config", "map"), "files of the ConfigMap, of which a label of the node names one")
    settings.note(NoteKind.TAKEN, ("config", "default"), f"--default-config={default or ''}")
    given = settings.at("config", "fallbackStrategies")
    reading.take(flags.FALLBACK_STRATEGIES, given if isinstance(given, list) else _LABEL_FALLBACKS)
    settings.note(NoteKind.TAKEN, ("config", "fallbackStrategies"), "--fallback-strategies")


def _read_parts(settings: ForeignSettings, reading: NvidiaReading) -> None:
    """The plugin itself, feature discovery, and the daemon of MPS."""
    if settings.at("devicePlugin", "enabled") is False:
        settings.note(NoteKind.LEFT, ("devicePlugin", "enabled"), "the manifest has the plugin all the same")
    settings.note(NoteKind.TAKEN, ("devicePlugin", "enabled"), "the manifest has the plugin")
    if settings.at("devicePlugin", "enableHostNetwork") is True:
        settings.note(NoteKind.LEFT, ("devicePlugin", "enableHostNetwork"), "the plugin has no use for it")
    settings.note(NoteKind.OTHERWISE, ("devicePlugin", "enableHostNetwork"), "never")
    is_discovery_wanted = settings.at("gfd", "enabled") is True
    settings.note(
        NoteKind.LEFT if is_discovery_wanted else NoteKind.OTHERWISE,
        ("gfd",),
        _GFD if is_discovery_wanted else "of no effect: gfd.enabled is not true",
    )
    root = settings.at("mps", "root")
    if isinstance(root, str) and root:
        kind, text = reading.take(flags.MPS_ROOT, root, settings.located(("mps", "root")))
        settings.note(kind, ("mps", "root"), text)
    elif any("mps:" in text for text in reading.files.values()):
        reading.take(flags.MPS_ROOT, "/run/nvidia/mps")
    settings.note(NoteKind.LEFT, ("mps", "enableHostPID"), "the daemon of MPS is not part of the manifest")
