"""Settle the precedence of settings, and check them in the order of NVIDIA's plugin. Pure.

The command line counts before the environment, the environment before the file, and the file before the defaults.

Source: k8s-device-plugin 0.20 ``cmd/nvidia-device-plugin/main.go``, ``validateFlags``; spec 1.1 and 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from plugbay.plugins.nvidia.config import flags as flag
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.choices import (
    DeviceIdStrategy,
    DeviceListStrategy,
    Dialect,
    DiscoveryStrategy,
    FallbackStrategy,
    MigStrategy,
    RecoveryStrategy,
    SharedAllocationPolicy,
    SharingStrategy,
)
from plugbay.plugins.nvidia.config.configuration import (
    CdiSettings,
    Configuration,
    DriverRoots,
    FeatureDiscoverySettings,
    HealthSettings,
    ImexSettings,
)
from plugbay.plugins.nvidia.config.durations import parse_span
from plugbay.plugins.nvidia.config.file import ConfigContent
from plugbay.plugins.nvidia.config.flags import PLUGIN_FLAGS, ConfigFlag, FlagValue
from plugbay.plugins.nvidia.config.named import NamedConfigs
from plugbay.plugins.nvidia.config.places import DEFAULTS, SAVING, VALIDATING, ConfigPlace, Given
from plugbay.values import dataclass

Chosen = TypeVar("Chosen", bound=Enum)

_IMEX_CHANNELS: Final = ((), (0,))


def settle(*layers: Layer) -> dict[str, Given[FlagValue]]:
    """The settings that count, by key, with the defaults where no layer says anything.

    Args:
        layers: from the one that counts first: command line, environment, file.
    """
    settled = {
        each.key: Given(each.default, ConfigPlace(DEFAULTS, each.key))
        for each in PLUGIN_FLAGS
        if each.default is not None
    }
    for layer in reversed(layers):
        settled.update(layer)
    return settled


def dialect_of(*layers: Layer) -> Dialect:
    """How the configuration file is to be read, which has to be known before it is.

    Raises:
        InvalidNvidiaConfig: there is no such dialect.
    """
    return _Settings(settle(*layers)).choice(flag.CONFIG_DIALECT, Dialect, "unknown config dialect: {}")


def config_file_of(*layers: Layer) -> str:
    """The path of the configuration file; empty without one."""
    return _Settings(settle(*layers)).text(flag.CONFIG_FILE)


@dataclass(frozen=True, slots=True)
class NamedSource:
    """Where the configuration file of a node comes from.

    Attributes:
        directory: of the files.
        node_name: of the node whose labels name the file; empty when it is not given.
    """

    directory: str
    node_name: str
    rules: NamedConfigs


def named_source_of(*layers: Layer) -> NamedSource | None:
    """Where the node's configuration file comes from; None when files are not chosen by name.

    Raises:
        InvalidNvidiaConfig: there is no such fallback, or a single file is given as well.
    """
    settings = _Settings(settle(*layers))
    directory = settings.given(flag.CONFIG_DIRECTORY)
    if not directory.value:
        return None
    if settings.text(flag.CONFIG_FILE):
        raise directory.place.error("a directory and a single configuration file exclude each other", step=VALIDATING)
    given = settings.given(flag.FALLBACK_STRATEGIES)
    problem = "unknown fallback strategy: {}"
    fallbacks = tuple(choose(word, FallbackStrategy, given.place, problem) for word in given.value)
    rules = NamedConfigs(settings.text(flag.NODE_LABEL), settings.text(flag.DEFAULT_CONFIG), fallbacks)
    return NamedSource(directory.value, settings.text(flag.NODE_NAME), rules)


def validate(
    content: ConfigContent, arguments: Layer | None = None, environment: Layer | None = None, *, has_nvml: bool
) -> Configuration:
    """The configuration of a file, a command line and an environment.

    Args:
        content: of the file, or an empty one.
        has_nvml: whether the driver's library can be loaded, which CDI needs.

    Raises:
        InvalidNvidiaConfig: the first setting that is of no use, with its place and what is allowed there.
    """
    settings = _Settings(settle(arguments or {}, environment or {}, content.layer))
    strategies = _list_strategies(settings, has_nvml=has_nvml, takes_none=content.dialect is Dialect.REFERENCE)
    id_strategy = settings.choice(flag.DEVICE_ID_STRATEGY, DeviceIdStrategy, "invalid --device-id-strategy option: {}")
    policy = settings.choice(
        flag.SHARED_ALLOCATION_POLICY, SharedAllocationPolicy, "invalid --shared-devices-allocation-policy option: {}"
    )
    if content.sharing.strategy is SharingStrategy.MPS:
        _check_mps(settings, content.mps_place)
    discovery = settings.choice(
        flag.DISCOVERY_STRATEGY, DiscoveryStrategy, "invalid --device-discovery-strategy option {}"
    )
    mig_strategy = settings.choice(flag.MIG_STRATEGY, MigStrategy, "unknown MIG strategy: {}")
    return Configuration(
        mig_strategy=mig_strategy,
        fail_on_init_error=settings.boolean(flag.FAIL_ON_INIT_ERROR),
        mps_root=settings.text(flag.MPS_ROOT),
        roots=_roots(settings),
        gdrcopy_enabled=settings.boolean(flag.GDRCOPY_ENABLED),
        gds_enabled=settings.boolean(flag.GDS_ENABLED),
        mofed_enabled=settings.boolean(flag.MOFED_ENABLED),
        discovery_strategy=discovery,
        pass_device_specs=settings.boolean(flag.PASS_DEVICE_SPECS),
        list_strategies=strategies,
        id_strategy=id_strategy,
        cdi=_cdi(settings, strategies),
        allocation_policy=policy,
        imex=_imex(settings),
        kubelet_socket=settings.text(flag.KUBELET_SOCKET),
        health=_health(settings),
        dialect=content.dialect,
        feature_discovery=_feature_discovery(settings),
        patterns=content.patterns,
        sharing=content.sharing,
        warnings=content.warnings,
    )


class _Settings:
    """Settled values by their flags. Each value is of its flag's kind: the readers of layers see to it."""

    def __init__(self, settled: Mapping[str, Given[FlagValue]]) -> None:
        self._settled = settled

    def given(self, which: ConfigFlag) -> Given[Any]:
        return self._settled[which.key]

    def optional(self, which: ConfigFlag) -> Any:
        given = self._settled.get(which.key)
        return None if given is None else given.value

    def text(self, which: ConfigFlag) -> str:
        return str(self.given(which).value)

    def boolean(self, which: ConfigFlag) -> bool:
        return bool(self.given(which).value)

    def choice(self, which: ConfigFlag, choices: type[Chosen], problem: str) -> Chosen:
        given = self.given(which)
        return choose(given.value, choices, given.place, problem)


def choose(word: str, choices: type[Chosen], place: ConfigPlace, problem: str) -> Chosen:
    """The choice of that word.

    Args:
        problem: the sentence of the error, with ``{}`` for the word.

    Raises:
        InvalidNvidiaConfig: there is none.
    """
    try:
        return choices(word)
    except ValueError:
        allowed = ", ".join(choice.value for choice in choices)
        raise place.error(problem.format(word), step=VALIDATING, allowed=allowed) from None


def _list_strategies(settings: _Settings, *, has_nvml: bool, takes_none: bool) -> tuple[DeviceListStrategy, ...]:
    given = settings.given(flag.DEVICE_LIST_STRATEGY)
    words: Sequence[str] = given.value
    problem = "invalid --device-list-strategy option: invalid strategy: {}"
    strategies = tuple(choose(word, DeviceListStrategy, given.place, problem) for word in words)
    if not strategies and not takes_none:
        allowed = ", ".join(flag.DEVICE_LIST_STRATEGY.allowed)
        raise given.place.error("no device list strategy is given", step=VALIDATING, allowed=allowed)
    if any(strategy.uses_cdi for strategy in strategies) and not has_nvml:
        problem = "CDI --device-list-strategy options are only supported on NVML-based systems"
        raise given.place.error(problem, step=VALIDATING, allowed="envvar, volume-mounts")
    return strategies


def _check_mps(settings: _Settings, asked: ConfigPlace | None) -> None:
    mig_strategy, root = settings.given(flag.MIG_STRATEGY), settings.given(flag.MPS_ROOT)
    if mig_strategy.value == MigStrategy.MIXED.value:
        problem = "using --mig-strategy=mixed is not supported with MPS"
        raise mig_strategy.place.error(problem, step=VALIDATING, allowed="none, single")
    if not root.value:
        problem = "using MPS requires --mps-root to be specified"
        place = asked if asked is not None and root.place.source == DEFAULTS else root.place
        raise place.error(problem, step=VALIDATING, allowed="flags.mpsRoot: the host's directory of the MPS daemon")


def _roots(settings: _Settings) -> DriverRoots:
    host = settings.text(flag.DRIVER_ROOT)
    return DriverRoots(host, settings.text(flag.DEV_ROOT) or host, settings.text(flag.CONTAINER_DRIVER_ROOT))


def _cdi(settings: _Settings, strategies: Sequence[DeviceListStrategy]) -> CdiSettings:
    cdi = CdiSettings(
        annotation_prefix=settings.text(flag.CDI_ANNOTATION_PREFIX),
        hook_path=settings.text(flag.CDI_HOOK_PATH),
        feature_flags=settings.given(flag.CDI_FEATURE_FLAGS).value,
        disabled_hooks=settings.given(flag.CDI_DISABLED_HOOKS).value,
    )
    if not cdi.hook_path and cdi.has_hooks and any(strategy.uses_cdi for strategy in strategies):
        place = settings.given(flag.CDI_HOOK_PATH).place
        allowed = "the host's path of nvidia-ctk or nvidia-cdi-hook"
        raise place.error(
            'invalid CDI Spec: invalid hook "createContainer" with empty path', step=SAVING, allowed=allowed
        )
    return cdi


def _imex(settings: _Settings) -> ImexSettings:
    given = settings.given(flag.IMEX_CHANNEL_IDS)
    if given.value not in _IMEX_CHANNELS:
        found = " ".join(map(str, given.value))
        problem = f"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [{found}]"
        raise given.place.error(problem, step=VALIDATING, allowed="no channel, or 0")
    return ImexSettings(given.value, settings.boolean(flag.IMEX_REQUIRED))


def _health(settings: _Settings) -> HealthSettings:
    return HealthSettings(
        settings.choice(flag.HEALTH_RECOVERY, RecoveryStrategy, "invalid --health-recovery option: {}"),
        _seconds(settings.given(flag.HEALTH_CLEAN_TIME)),
        _seconds(settings.given(flag.RESCAN_INTERVAL)),
    )


def _seconds(given: Given[Any]) -> float:
    allowed = "a duration such as 60s or 1m30s, longer than 0"
    try:
        seconds = parse_span(given.value).seconds
    except ValueError as error:
        raise given.place.error(str(error), step=VALIDATING, allowed=allowed) from None
    if seconds <= 0:
        raise given.place.error(f"invalid duration {given.value!r}", step=VALIDATING, allowed=allowed)
    return seconds


def _feature_discovery(settings: _Settings) -> FeatureDiscoverySettings:
    return FeatureDiscoverySettings(
        use_node_feature_api=settings.optional(flag.USE_NODE_FEATURE_API),
        oneshot=settings.optional(flag.GFD_ONESHOT),
        no_timestamp=settings.optional(flag.GFD_NO_TIMESTAMP),
        sleep_interval=settings.optional(flag.GFD_SLEEP_INTERVAL),
        output_file=settings.optional(flag.GFD_OUTPUT_FILE),
        machine_type_file=settings.optional(flag.GFD_MACHINE_TYPE_FILE),
    )
