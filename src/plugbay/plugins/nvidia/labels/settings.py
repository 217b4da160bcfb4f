"""The settings of feature discovery: flags, environment and file, as gpu-feature-discovery reads them. Pure.

Source: gpu-feature-discovery 0.20 ``cmd/gpu-feature-discovery/main.go``; spec 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from plugbay.plugins.nvidia.config import flags as plugin
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.choices import Dialect, MigStrategy
from plugbay.plugins.nvidia.config.durations import Span, parse_span
from plugbay.plugins.nvidia.config.file import ConfigContent
from plugbay.plugins.nvidia.config.flags import ConfigFlag, FlagKind, FlagValue
from plugbay.plugins.nvidia.config.places import DEFAULTS, VALIDATING, ConfigPlace, Given
from plugbay.plugins.nvidia.config.sharing import SharingSettings
from plugbay.plugins.nvidia.config.validation import choose
from plugbay.plugins.nvidia.labels.node_feature import FeatureTarget
from plugbay.values import dataclass

_FILE: Final = ("flags", "gfd")


class FeatureStrategy(Enum):
    """Where the properties of GPUs are read: NVML, CUDA on a Tegra, or the PCI bus for GPUs of virtual machines."""

    AUTO = "auto"
    NVML = "nvml"
    TEGRA = "tegra"
    VFIO = "vfio"


MIG_STRATEGY: Final = replace(plugin.MIG_STRATEGY, variables=("GFD_MIG_STRATEGY", "MIG_STRATEGY"))
FAIL_ON_INIT_ERROR: Final = replace(
    plugin.FAIL_ON_INIT_ERROR, variables=("GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR")
)
ONESHOT: Final = ConfigFlag(("oneshot",), ("GFD_ONESHOT",), FlagKind.BOOLEAN, False, (*_FILE, "oneshot"))
NO_TIMESTAMP: Final = ConfigFlag(
    ("no-timestamp",), ("GFD_NO_TIMESTAMP",), FlagKind.BOOLEAN, False, (*_FILE, "noTimestamp")
)
SLEEP_INTERVAL: Final = ConfigFlag(
    ("sleep-interval",), ("GFD_SLEEP_INTERVAL",), FlagKind.TEXT, "60s", (*_FILE, "sleepInterval")
)
OUTPUT_FILE: Final = ConfigFlag(("output-file",), ("GFD_OUTPUT_FILE",), FlagKind.TEXT, None, (*_FILE, "outputFile"))
MACHINE_TYPE_FILE: Final = ConfigFlag(
    ("machine-type-file",),
    ("GFD_MACHINE_TYPE_FILE",),
    FlagKind.TEXT,
    "/sys/class/dmi/id/product_name",
    (*_FILE, "machineTypeFile"),
)
CONFIG_FILE: Final = replace(plugin.CONFIG_FILE, variables=("GFD_CONFIG_FILE", "CONFIG_FILE"))
USE_NODE_FEATURE_API: Final = ConfigFlag(
    ("use-node-feature-api",),
    ("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
    FlagKind.BOOLEAN,
    False,
    plugin.USE_NODE_FEATURE_API.field,
)
DISCOVERY_STRATEGY: Final = replace(
    plugin.DISCOVERY_STRATEGY, allowed=tuple(strategy.value for strategy in FeatureStrategy)
)
NAMESPACE: Final = ConfigFlag(("namespace",), ("NAMESPACE",), FlagKind.TEXT, "default")
POD_NAME: Final = ConfigFlag(("pod-name",), ("POD_NAME",), FlagKind.TEXT, "")
CONTAINER_DRIVER_ROOT: Final = replace(plugin.CONTAINER_DRIVER_ROOT, names=("driver-root-ctr-path",))
FEATURE_FLAGS: Final = (
    MIG_STRATEGY,
    FAIL_ON_INIT_ERROR,
    ONESHOT,
    NO_TIMESTAMP,
    SLEEP_INTERVAL,
    OUTPUT_FILE,
    MACHINE_TYPE_FILE,
    CONFIG_FILE,
    USE_NODE_FEATURE_API,
    DISCOVERY_STRATEGY,
    CONTAINER_DRIVER_ROOT,
    NAMESPACE,
    plugin.NODE_NAME,
    POD_NAME,
    plugin.CONFIG_DIALECT,
)
"""The flags of gpu-feature-discovery, without those of its client of the API, and ours for the dialect of the file."""


@dataclass(frozen=True, slots=True)
class FeatureSettings:
    """The settings of feature discovery.

    Attributes:
        container_driver_root: the driver's installation, as this process sees it.
        output_file: empty for standard output; None when nothing names one.
        target: where the labels go as a NodeFeature object; None for a file. A file counts for nothing beside it.
        is_oneshot: whether labels are made once only.
        sleep_s: the seconds between two rounds; infinite for a single round that ends with the process.
        machine_type_file: holds the name of the machine's product; empty for none.
        warnings: sentences for the log.
    """

    mig_strategy: MigStrategy
    fail_on_init_error: bool
    strategy: FeatureStrategy
    container_driver_root: str
    sharing: SharingSettings
    output_file: str | None
    target: FeatureTarget | None
    is_oneshot: bool
    has_timestamp: bool
    sleep_s: float
    machine_type_file: str
    warnings: tuple[str, ...] = ()

    @property
    def removes_file(self) -> bool:
        """Whether the file goes with the process: labels of a single round stay."""
        return bool(self.output_file) and not self.target and not self.is_oneshot and math.isfinite(self.sleep_s)


def feature_dialect(arguments: Layer, environment: Layer) -> Dialect:
    """How the configuration file is to be read.

    Raises:
        InvalidNvidiaConfig: there is no such dialect.
    """
    given = _settled(arguments, environment)[plugin.CONFIG_DIALECT.key]
    return choose(str(given.value), Dialect, given.place, "unknown config dialect: {}")


def feature_config_file(arguments: Layer, environment: Layer) -> str:
    """The path of the configuration file; empty without one."""
    return str(_settled(arguments, environment)[CONFIG_FILE.key].value)


def feature_settings(content: ConfigContent, arguments: Layer, environment: Layer) -> FeatureSettings:
    """The settings of a file, a command line and an environment.

    Raises:
        InvalidNvidiaConfig: the first setting that is of no use, with its place and what is allowed there.
    """
    settled = _settled(arguments, environment, _of_features(content.layer))

    def value(flag: ConfigFlag) -> Any:
        return settled[flag.key].value

    mig, strategy = settled[MIG_STRATEGY.key], settled[DISCOVERY_STRATEGY.key]
    output = settled.get(OUTPUT_FILE.key)
    return FeatureSettings(
        mig_strategy=choose(mig.value, MigStrategy, mig.place, "unknown MIG strategy: {}"),
        fail_on_init_error=value(FAIL_ON_INIT_ERROR),
        strategy=choose(
            strategy.value, FeatureStrategy, strategy.place, "invalid --device-discovery-strategy option {}"
        ),
        container_driver_root=value(CONTAINER_DRIVER_ROOT),
        sharing=content.sharing,
        output_file=None if output is None else output.value,
        target=_target(settled),
        is_oneshot=value(ONESHOT),
        has_timestamp=not value(NO_TIMESTAMP),
        sleep_s=_sleep_s(settled[SLEEP_INTERVAL.key]),
        machine_type_file=value(MACHINE_TYPE_FILE),
        warnings=content.warnings,
    )


def _target(settled: Mapping[str, Given[Any]]) -> FeatureTarget | None:
    if not settled[USE_NODE_FEATURE_API.key].value:
        return None
    node, namespace = settled[plugin.NODE_NAME.key], settled[NAMESPACE.key]
    for given, flag in ((node, plugin.NODE_NAME), (namespace, NAMESPACE)):
        if not given.value:
            problem = f"required flag {flag.key} not set: it says where the NodeFeature object goes"
            raise given.place.error(problem, step=VALIDATING, allowed="a name")
    return FeatureTarget(namespace.value, node.value, settled[POD_NAME.key].value)


def _of_features(file: Layer) -> Layer:
    """The file's settings by the flags of this program: to the plugin, some of them are fields only."""
    return {flag.key: file[key] for flag in FEATURE_FLAGS for key in (".".join(flag.field), flag.key) if key in file}


def _settled(arguments: Layer, environment: Layer, file: Layer | None = None) -> Mapping[str, Given[Any]]:
    settled: dict[str, Given[FlagValue]] = {
        flag.key: Given(flag.default, ConfigPlace(DEFAULTS, flag.key))
        for flag in FEATURE_FLAGS
        if flag.default is not None
    }
    return {**settled, **(file or {}), **environment, **arguments}


def _sleep_s(given: Given[Any]) -> float:
    allowed = "a duration such as 60s or 1m30s, longer than 0, or infinite"
    try:
        span = given.value if isinstance(given.value, Span) else parse_span(given.value)
    except ValueError as error:
        raise given.place.error(str(error), step=VALIDATING, allowed=allowed) from None
    if span.nanoseconds <= 0:
        raise given.place.error(f"invalid sleep interval {span}", step=VALIDATING, allowed=allowed)
    return math.inf if span.is_infinite else span.seconds
