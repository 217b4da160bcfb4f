"""The flags of NVIDIA's device plugin: names, variables, defaults, and their fields in the file. Pure.

Source: k8s-device-plugin 0.20 ``cmd/nvidia-device-plugin/main.go``, ``api/config/v1/flags.go``; spec 1.1.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, TypeAlias

from plugbay.plugins.nvidia.config.choices import (
    DeviceIdStrategy,
    DeviceListStrategy,
    Dialect,
    DiscoveryStrategy,
    FallbackStrategy,
    MigStrategy,
    RecoveryStrategy,
    SharedAllocationPolicy,
)
from plugbay.plugins.nvidia.config.durations import Span
from plugbay.values import dataclass

FlagValue: TypeAlias = "str | bool | tuple[str, ...] | tuple[int, ...] | Span"


class FlagKind(Enum):
    """The kind of a flag's values."""

    TEXT = auto()
    BOOLEAN = auto()
    TEXTS = auto()
    INTEGERS = auto()
    SPAN = auto()
    """A duration; in files only."""


@dataclass(frozen=True, slots=True)
class ConfigFlag:
    """A setting that can be given on the command line, in the environment and in the file.

    Attributes:
        names: without dashes; the first is the one that errors name. Empty for what only a file can say.
        variables: the first one that is set counts, even when it is empty.
        field: the path in the file; empty for what only the command line and the environment can say.
        default: None for what is not set.
        allowed: the words it takes; empty for any text.
    """

    names: tuple[str, ...]
    variables: tuple[str, ...]
    kind: FlagKind
    default: FlagValue | None
    field: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name by which layers of settings call it: its first name, or its field."""
        return self.names[0] if self.names else ".".join(self.field)


def _words(choices: type[Enum]) -> tuple[str, ...]:
    return tuple(choice.value for choice in choices)


def _text(
    names: str, variables: str, default: str | None, field: str = "", choices: type[Enum] | None = None
) -> ConfigFlag:
    allowed = _words(choices) if choices else ()
    return ConfigFlag(*_split(names, variables), FlagKind.TEXT, default, _path(field), allowed)


def _boolean(names: str, variables: str, default: bool, field: str) -> ConfigFlag:
    return ConfigFlag(*_split(names, variables), FlagKind.BOOLEAN, default, _path(field))


def _of_file(kind: FlagKind, field: str) -> ConfigFlag:
    return ConfigFlag((), (), kind, None, _path(field))


def _split(names: str, variables: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(names.split()), tuple(variables.split())


def _path(field: str) -> tuple[str, ...]:
    return tuple(field.split(".")) if field else ()


MIG_STRATEGY: Final = _text("mig-strategy", "MIG_STRATEGY", "none", "flags.migStrategy", MigStrategy)
FAIL_ON_INIT_ERROR: Final = _boolean("fail-on-init-error", "FAIL_ON_INIT_ERROR", True, "flags.failOnInitError")
MPS_ROOT: Final = _text("mps-root", "MPS_ROOT", "", "flags.mpsRoot")
DRIVER_ROOT: Final = _text("driver-root nvidia-driver-root", "NVIDIA_DRIVER_ROOT", "/", "flags.nvidiaDriverRoot")
DEV_ROOT: Final = _text("dev-root nvidia-dev-root", "NVIDIA_DEV_ROOT", "", "flags.nvidiaDevRoot")
GDRCOPY_ENABLED: Final = _boolean("gdrcopy-enabled", "GDRCOPY_ENABLED", False, "flags.gdrcopyEnabled")
GDS_ENABLED: Final = _boolean("gds-enabled", "GDS_ENABLED", False, "flags.gdsEnabled")
MOFED_ENABLED: Final = _boolean("mofed-enabled", "MOFED_ENABLED", False, "flags.mofedEnabled")
USE_NODE_FEATURE_API: Final = _of_file(FlagKind.BOOLEAN, "flags.useNodeFeatureAPI")
DISCOVERY_STRATEGY: Final = _text(
    "device-discovery-strategy",
    "DEVICE_DISCOVERY_STRATEGY",
    "auto",
    "flags.deviceDiscoveryStrategy",
    DiscoveryStrategy,
)
PASS_DEVICE_SPECS: Final = _boolean("pass-device-specs", "PASS_DEVICE_SPECS", False, "flags.plugin.passDeviceSpecs")
DEVICE_LIST_STRATEGY: Final = ConfigFlag(
    ("device-list-strategy",),
    ("DEVICE_LIST_STRATEGY",),
    FlagKind.TEXTS,
    ("envvar",),
    ("flags", "plugin", "deviceListStrategy"),
    _words(DeviceListStrategy),
)
DEVICE_ID_STRATEGY: Final = _text(
    "device-id-strategy", "DEVICE_ID_STRATEGY", "uuid", "flags.plugin.deviceIDStrategy", DeviceIdStrategy
)
CDI_ANNOTATION_PREFIX: Final = _text(
    "cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX", "cdi.k8s.io/", "flags.plugin.cdiAnnotationPrefix"
)
CDI_HOOK_PATH: Final = _text(
    "nvidia-cdi-hook-path nvidia-ctk-path",
    "NVIDIA_CDI_HOOK_PATH NVIDIA_CTK_PATH",
    "/usr/bin/nvidia-ctk",
    "flags.plugin.nvidiaCTKPath",
)
CONTAINER_DRIVER_ROOT: Final = _text(
    "driver-root-ctr-path container-driver-root",
    "DRIVER_ROOT_CTR_PATH CONTAINER_DRIVER_ROOT",
    "/driver-root",
    "flags.plugin.containerDriverRoot",
)
SHARED_ALLOCATION_POLICY: Final = _text(
    "shared-devices-allocation-policy",
    "SHARED_DEVICES_ALLOCATION_POLICY",
    "distributed",
    "flags.plugin.sharedDevicesAllocationPolicy",
    SharedAllocationPolicy,
)
IMEX_CHANNEL_IDS: Final = ConfigFlag(
    ("imex-channel-ids",), ("IMEX_CHANNEL_IDS",), FlagKind.INTEGERS, (), ("imex", "channelIDs")
)
IMEX_REQUIRED: Final = _boolean("imex-required", "IMEX_REQUIRED", False, "imex.required")
KUBELET_SOCKET: Final = _text("kubelet-socket", "KUBELET_SOCKET", "/var/lib/kubelet/device-plugins/kubelet.sock")
CONFIG_FILE: Final = _text("config-file", "CONFIG_FILE", "")
CDI_FEATURE_FLAGS: Final = ConfigFlag(("cdi-feature-flags",), ("CDI_FEATURE_FLAGS",), FlagKind.TEXTS, ())
CDI_DISABLED_HOOKS: Final = ConfigFlag(("cdi-disable-hooks",), ("CDI_DISABLE_HOOKS",), FlagKind.TEXTS, ())
CONFIG_DIALECT: Final = _text("config-dialect", "CONFIG_DIALECT", "reference", choices=Dialect)
"""Ours: the way the configuration file is read. A file that serves NVIDIA's plugin serves us, unless it is asked for
more than that."""
CONFIG_DIRECTORY: Final = _text("config-file-srcdir", "CONFIG_FILE_SRCDIR", "")
"""The directory of named configuration files; this flag and the next four are those of NVIDIA's config-manager."""
DEFAULT_CONFIG: Final = _text("default-config", "DEFAULT_CONFIG", "")
FALLBACK_STRATEGIES: Final = ConfigFlag(
    ("fallback-strategies",), ("FALLBACK_STRATEGIES",), FlagKind.TEXTS, (), (), _words(FallbackStrategy)
)
NODE_LABEL: Final = _text("node-label", "NODE_LABEL", "nvidia.com/device-plugin.config")
NODE_NAME: Final = _text("node-name", "NODE_NAME", "")
HEALTH_RECOVERY: Final = _text(
    "health-recovery", "HEALTH_RECOVERY", "by-xid", "flags.plugin.healthRecovery", RecoveryStrategy
)
"""Ours, as the next two: how devices come back, after how much time, and how often the driver is asked for changes."""
HEALTH_CLEAN_TIME: Final = _text("health-clean-time", "HEALTH_CLEAN_TIME", "60s", "flags.plugin.healthCleanTime")
RESCAN_INTERVAL: Final = _text("rescan-interval", "RESCAN_INTERVAL", "30s", "flags.plugin.rescanInterval")
GFD_ONESHOT: Final = _of_file(FlagKind.BOOLEAN, "flags.gfd.oneshot")
GFD_NO_TIMESTAMP: Final = _of_file(FlagKind.BOOLEAN, "flags.gfd.noTimestamp")
GFD_SLEEP_INTERVAL: Final = _of_file(FlagKind.SPAN, "flags.gfd.sleepInterval")
GFD_OUTPUT_FILE: Final = _of_file(FlagKind.TEXT, "flags.gfd.outputFile")
GFD_MACHINE_TYPE_FILE: Final = _of_file(FlagKind.TEXT, "flags.gfd.machineTypeFile")

PLUGIN_FLAGS: Final = (
    MIG_STRATEGY,
    FAIL_ON_INIT_ERROR,
    MPS_ROOT,
    DRIVER_ROOT,
    DEV_ROOT,
    PASS_DEVICE_SPECS,
    GDRCOPY_ENABLED,
    GDS_ENABLED,
    MOFED_ENABLED,
    USE_NODE_FEATURE_API,
    DISCOVERY_STRATEGY,
    DEVICE_LIST_STRATEGY,
    DEVICE_ID_STRATEGY,
    CDI_ANNOTATION_PREFIX,
    CDI_HOOK_PATH,
    CONTAINER_DRIVER_ROOT,
    SHARED_ALLOCATION_POLICY,
    IMEX_CHANNEL_IDS,
    IMEX_REQUIRED,
    KUBELET_SOCKET,
    CONFIG_FILE,
    CDI_FEATURE_FLAGS,
    CDI_DISABLED_HOOKS,
    CONFIG_DIALECT,
    CONFIG_DIRECTORY,
    DEFAULT_CONFIG,
    FALLBACK_STRATEGIES,
    NODE_LABEL,
    NODE_NAME,
    HEALTH_RECOVERY,
    HEALTH_CLEAN_TIME,
    RESCAN_INTERVAL,
    GFD_ONESHOT,
    GFD_NO_TIMESTAMP,
    GFD_SLEEP_INTERVAL,
    GFD_OUTPUT_FILE,
    GFD_MACHINE_TYPE_FILE,
)
"""All settings of the device plugin, in the order in which NVIDIA's plugin reads their variables."""
