"""The configuration of the NVIDIA plugin: checked values. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.plugins.nvidia.config.choices import (
    DeviceIdStrategy,
    DeviceListStrategy,
    Dialect,
    DiscoveryStrategy,
    MigStrategy,
    RecoveryStrategy,
    SharedAllocationPolicy,
)
from plugbay.plugins.nvidia.config.durations import Span
from plugbay.plugins.nvidia.config.resource_names import NO_PATTERNS, ResourcePatterns
from plugbay.plugins.nvidia.config.sharing import NO_SHARING, SharingSettings
from plugbay.values import dataclass

SELF_CONTAINED: Final = "self-contained"
"""A feature flag of ours: CDI specs without the hooks of NVIDIA's container toolkit."""
ALL_HOOKS: Final = "all"


@dataclass(frozen=True, slots=True)
class DriverRoots:
    """The directories in which the driver lies, see spec 2.1.

    Attributes:
        host: the driver's installation as the host sees it.
        host_dev: the device nodes as the host sees them; ``host`` unless it is given.
        container: ``host`` as it is mounted in the plugin's container.
    """

    host: str
    host_dev: str
    container: str


@dataclass(frozen=True, slots=True)
class CdiSettings:
    """The settings of CDI specs, and of answers with CDI names.

    Attributes:
        annotation_prefix: of the key of annotations, such as ``cdi.k8s.io/``.
        hook_path: the program of the hooks on the host.
        feature_flags, disabled_hooks: as given, see spec 6.6.
    """

    annotation_prefix: str
    hook_path: str
    feature_flags: tuple[str, ...] = ()
    disabled_hooks: tuple[str, ...] = ()

    @property
    def has_hooks(self) -> bool:
        """Whether specs have hooks of NVIDIA's container toolkit."""
        return ALL_HOOKS not in self.disabled_hooks and SELF_CONTAINED not in self.feature_flags


@dataclass(frozen=True, slots=True)
class ImexSettings:
    """The IMEX channels that every container gets.

    Attributes:
        channel_ids: none, or 0.
        is_required: whether a channel without a device node is an error.
    """

    channel_ids: tuple[int, ...] = ()
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """How changes of the machine are noticed, and how devices come back.

    Attributes:
        clean_s: the seconds without an XID after which a device may come back.
        rescan_s: the seconds between two looks at the machine while nothing happens.
    """

    recovery: RecoveryStrategy = RecoveryStrategy.BY_XID
    clean_s: float = 60.0
    rescan_s: float = 30.0


@dataclass(frozen=True, slots=True)
class FeatureDiscoverySettings:
    """The file's settings of feature discovery; None for what the file does not say."""

    use_node_feature_api: bool | None = None
    oneshot: bool | None = None
    no_timestamp: bool | None = None
    sleep_interval: Span | None = None
    output_file: str | None = None
    machine_type_file: str | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """The whole configuration.

    Attributes:
        list_strategies: in the order given; at least one.
        gdrcopy_enabled, gds_enabled, mofed_enabled: the optional classes of devices that every container gets.
        mps_root: the host's directory of the MPS daemon; empty when it is not given.
        kubelet_socket: empty to serve without registering.
        patterns: the file's own, without those that a node always has.
        warnings: sentences for the log.
    """

    mig_strategy: MigStrategy
    fail_on_init_error: bool
    mps_root: str
    roots: DriverRoots
    gdrcopy_enabled: bool
    gds_enabled: bool
    mofed_enabled: bool
    discovery_strategy: DiscoveryStrategy
    pass_device_specs: bool
    list_strategies: tuple[DeviceListStrategy, ...]
    id_strategy: DeviceIdStrategy
    cdi: CdiSettings
    allocation_policy: SharedAllocationPolicy
    imex: ImexSettings
    kubelet_socket: str
    health: HealthSettings = HealthSettings()
    dialect: Dialect = Dialect.REFERENCE
    feature_discovery: FeatureDiscoverySettings = FeatureDiscoverySettings()
    patterns: ResourcePatterns = NO_PATTERNS
    sharing: SharingSettings = NO_SHARING
    warnings: tuple[str, ...] = ()

    @property
    def uses_cdi(self) -> bool:
        """Whether a strategy names devices by CDI, so that specs have to be written."""
        return any(strategy.uses_cdi for strategy in self.list_strategies)

    @property
    def passes_device_nodes(self) -> bool:
        """Whether answers name device nodes: not where all strategies name devices by CDI."""
        return self.pass_device_specs and not all(strategy.uses_cdi for strategy in self.list_strategies)
