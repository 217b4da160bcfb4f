"""Write the CDI specs of a node. Blocks."""

from __future__ import annotations

from typing import Final

from plugbay.plugins.nvidia.answers.features import CdiClass, ImexChannel
from plugbay.plugins.nvidia.cdi.devices import spec_devices
from plugbay.plugins.nvidia.cdi.driver_files import find_driver_files
from plugbay.plugins.nvidia.cdi.generation import gpu_spec, imex_spec, optional_spec
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms
from plugbay.plugins.nvidia.cdi.nodes import NodeFinder
from plugbay.plugins.nvidia.cdi.roots import SpecRoots
from plugbay.plugins.nvidia.cdi.writing import write_specs
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.serving.settings import NodeSettings, roots_of
from plugbay.plugins.nvidia.survey import MigMinors, Survey

_SELF_CONTAINED: Final = "self-contained"
"""A feature flag of ours: specs without the hooks of NVIDIA's container toolkit."""


def write_node_specs(
    settings: NodeSettings,
    configuration: Configuration,
    survey: Survey,
    minors: MigMinors,
    channels: tuple[ImexChannel, ...],
) -> frozenset[CdiClass]:
    """Write the specs of the node, and return the classes that have one.

    Raises:
        GpusUnusable: the driver's files are not found.
        PathUnusable: a file cannot be written.
    """
    found = roots_of(settings, configuration)
    roots = SpecRoots(found.driver, found.dev, configuration.roots.host, configuration.roots.host_dev)
    flags = frozenset(configuration.cdi.feature_flags)
    finder = NodeFinder(roots, settings.root / "sys", adds_groups="no-additional-gids-for-device-nodes" not in flags)
    files = find_driver_files(
        roots.driver,
        survey.driver_version,
        machine_root=settings.root,
        explicit="enable-explicit-driver-libraries" in flags,
    )
    devices = spec_devices(
        survey,
        minors,
        mig=configuration.mig_strategy,
        ids=configuration.id_strategy,
        has_coherence="enable-coherent-annotations" in flags,
    )
    gpus = gpu_spec(
        devices,
        files,
        finder,
        programs=HookPrograms(configuration.cdi.hook_path, frozenset(configuration.cdi.disabled_hooks)),
        mode=HookMode.SELF_CONTAINED if _SELF_CONTAINED in flags else HookMode.TOOLKIT,
        has_sockets="disable-ipc-discoverer" not in flags,
    )
    optional = {
        CdiClass.GDRCOPY: configuration.gdrcopy_enabled,
        CdiClass.GDS: configuration.gds_enabled,
        CdiClass.MOFED: configuration.mofed_enabled,
    }
    specs = {each: optional_spec(each, finder) if is_enabled else None for each, is_enabled in optional.items()}
    return write_specs(
        {CdiClass.GPU: gpus, CdiClass.IMEX_CHANNEL: imex_spec(channels, roots), **specs}, settings.cdi_directory
    )
