"""The rights that the plugin needs on a node, by its flags.

Source: chart ``nvidia-device-plugin`` 0.20 (``templates/daemonset-device-plugin.yml``, ``_helpers.tpl``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from plugbay.plugins.nvidia.config import flags
from plugbay.plugins.nvidia.config.choices import DeviceListStrategy, MigStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.named import NamedConfigs
from plugbay.plugins.nvidia.serving.settings import NodeSettings, possible_configurations
from plugbay.sdk.author.needs import (
    Capability,
    HostDirectory,
    Memory,
    Need,
    NodeReader,
    OneAtATime,
    Privileged,
    Variable,
)
from plugbay.sdk.cdi.directory import CDI_DIRECTORY

_MEMORY: Final = Memory(72, "the plugin with its pages, and the process that asks the driver")
"""As ``make bench NAME=nvidia`` measures them: 42 MB and 22 MB, and 8 MB for the pages."""


def nvidia_needs(settings: NodeSettings) -> Sequence[Need]:
    """The needs with the flags and files of ``settings``; of the files that a label chooses from, those of all.

    Variables of this machine's environment do not count on another one.

    Raises:
        OperatorError: a file cannot be read, or is broken.
    """
    named = settings.without_environment().named
    rules = None if named is None else named.rules
    is_driver_root_given = flags.DRIVER_ROOT.key in settings.arguments
    configurations = possible_configurations(settings.without_environment())
    return tuple(dict.fromkeys(_needs(configurations, rules, is_driver_root_given=is_driver_root_given)))


def _needs(
    configurations: Iterable[Configuration], rules: NamedConfigs | None, *, is_driver_root_given: bool
) -> Iterator[Need]:
    yield _MEMORY
    yield Variable("NVIDIA_VISIBLE_DEVICES", "all", "NVIDIA's runtime shows the plugin all GPUs")
    yield Variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility", "NVIDIA's runtime gives the plugin NVML")
    if rules is not None:
        yield NodeReader(f"the label {rules.label} of the node chooses the configuration")
    for each in configurations:
        yield from _needs_of(each, is_driver_root_given=is_driver_root_given)


def _needs_of(configuration: Configuration, *, is_driver_root_given: bool) -> Iterator[Need]:
    if configuration.mig_strategy is not MigStrategy.NONE:
        yield Variable("NVIDIA_MIG_MONITOR_DEVICES", "all", "NVIDIA's runtime shows the plugin all MIG devices")
        yield Capability("SYS_ADMIN", "the runtime shows MIG devices to no other container")
    if DeviceListStrategy.VOLUME_MOUNTS in configuration.list_strategies:
        yield Capability("SYS_ADMIN", "the runtime gives GPUs by variable to no other container")
    if configuration.pass_device_specs:
        yield Privileged("with --pass-device-specs the plugin opens the device nodes of all GPUs")
    if configuration.uses_cdi:
        yield HostDirectory(str(CDI_DIRECTORY), "the CDI specs of the GPUs", writable=True)
        yield OneAtATime("the CDI specs of the GPUs are written by one process")
    root = configuration.roots.host
    if configuration.uses_cdi or is_driver_root_given or root != flags.DRIVER_ROOT.default:
        yield HostDirectory(root, "the driver's installation", container_path=configuration.roots.container)
    if mps := configuration.mps_root:
        yield OneAtATime("the MPS daemons belong to one process")
        yield HostDirectory(mps, "the sockets of the MPS daemons", writable=True, container_path="/mps")
        yield HostDirectory(f"{mps}/shm", "the memory of the MPS daemons", writable=True, container_path="/dev/shm")
