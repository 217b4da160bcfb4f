"""The rights that the plugin needs on a node, by its flags.

Source: chart ``nvidia-device-plugin`` 0.20 (``templates/daemonset-device-plugin.yml``, ``_helpers.tpl``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.errors import UsageError
from plugbay.plugins.nvidia.config import flags
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.choices import DeviceListStrategy, MigStrategy
from plugbay.plugins.nvidia.config.flags import ConfigFlag, FlagValue
from plugbay.sdk.author.needs import Capability, HostDirectory, Memory, Need, Privileged, Variable
from plugbay.sdk.cdi.directory import CDI_DIRECTORY

_FILES: Final = (flags.CONFIG_FILE, flags.CONFIG_DIRECTORY)
_CDI: Final = frozenset({DeviceListStrategy.CDI_ANNOTATIONS.value, DeviceListStrategy.CDI_CRI.value})
_MEMORY: Final = Memory(72, "the plugin with its pages, and the process that asks the driver")
"""As ``make bench NAME=nvidia`` measures them: 42 MB and 22 MB, and 8 MB for the pages."""


def nvidia_needs(arguments: Layer) -> Sequence[Need]:
    """The needs with these flags; variables of this machine's environment do not count on another one.

    Raises:
        UsageError: the flags name a file, which the pod would not have.
    """
    for flag in _FILES:
        if flag.key in arguments:
            raise UsageError(f"--{flag.names[0]} names a file that the pod would not have: give its settings as flags")
    return tuple(_needs(arguments))


def _needs(arguments: Layer) -> Iterator[Need]:
    strategies = set(_texts(_value(arguments, flags.DEVICE_LIST_STRATEGY)))
    yield _MEMORY
    yield Variable("NVIDIA_VISIBLE_DEVICES", "all", "NVIDIA's runtime shows the plugin all GPUs")
    yield Variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility", "NVIDIA's runtime gives the plugin NVML")
    if _value(arguments, flags.MIG_STRATEGY) != MigStrategy.NONE.value:
        yield Variable("NVIDIA_MIG_MONITOR_DEVICES", "all", "NVIDIA's runtime shows the plugin all MIG devices")
        yield Capability("SYS_ADMIN", "the runtime shows MIG devices to no other container")
    if DeviceListStrategy.VOLUME_MOUNTS.value in strategies:
        yield Capability("SYS_ADMIN", "the runtime gives GPUs by variable to no other container")
    if _value(arguments, flags.PASS_DEVICE_SPECS):
        yield Privileged("with --pass-device-specs the plugin opens the device nodes of all GPUs")
    if strategies & _CDI:
        yield HostDirectory(str(CDI_DIRECTORY), "the CDI specs of the GPUs", writable=True)
    if strategies & _CDI or flags.DRIVER_ROOT.key in arguments:
        root = str(_value(arguments, flags.DRIVER_ROOT))
        place = str(_value(arguments, flags.CONTAINER_DRIVER_ROOT))
        yield HostDirectory(root, "the driver's installation", container_path=place)
    if mps := str(_value(arguments, flags.MPS_ROOT)):
        yield HostDirectory(mps, "the sockets of the MPS daemons", writable=True, container_path="/mps")
        yield HostDirectory(f"{mps}/shm", "the memory of the MPS daemons", writable=True, container_path="/dev/shm")


def _value(arguments: Layer, flag: ConfigFlag) -> FlagValue | None:
    return arguments[flag.key].value if flag.key in arguments else flag.default


def _texts(value: FlagValue | None) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
