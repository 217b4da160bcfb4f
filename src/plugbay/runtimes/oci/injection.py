"""CDI devices put into a container's OCI spec, as containerd does it last of all.

Source: containerd 2.1.9 ``internal/cri/opts/spec_linux_opts.go``, ``WithCDI``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.cdi.directories import scan
from plugbay.cdi.host import host_node
from plugbay.cdi.inject import OciSpec, inject
from plugbay.cdi.names import QualifiedName, names_of
from plugbay.cdi.registry import Registry
from plugbay.cdi.spec import Edits
from plugbay.errors import (
    CdiInjectionFailed,
    ContainerStartError,
    InvalidCdiName,
    PathUnusable,
    UnresolvableCdiDevices,
)
from plugbay.runtimes.oci.engines import OciEngine
from plugbay.runtimes.oci.handlers import OciHandler, asks_for_devices, visible_devices
from plugbay.runtimes.port import ContainerSpec
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

_LOOK_UP: Final = partial(host_node, root=Path("/"))
_FAILURES: Final = (InvalidCdiName, UnresolvableCdiDevices, CdiInjectionFailed, PathUnusable)
_NET_DEVICES_SINCE: Final = (1, 3)


@dataclass(frozen=True, slots=True)
class Injected:
    """A container's OCI spec with its CDI devices.

    Attributes:
        config: the OCI spec with all of it.
        host_paths: where on the host the device nodes of it are, by their paths in the container.
    """

    config: OciSpec
    host_paths: Mapping[str, str]

    def __add__(self, edits: Edits) -> Injected:
        nodes = {each.path: each.host_path or each.path for each in edits.device_nodes}
        return Injected(inject(edits, self.config, _LOOK_UP), {**self.host_paths, **nodes})


def inject_cdi(
    config: OciSpec, spec: ContainerSpec, *, handler: OciHandler, engine: OciEngine, directories: Sequence[Path]
) -> Injected:
    """``config`` with the CDI devices that plugins, and perhaps the handler, ask for. Waits for the disk if any do.

    Args:
        directories: of spec files, weakest first; read anew each time.

    Raises:
        ContainerStartError: they cannot be injected; then nothing is.
    """
    injected = Injected(config, {})
    names: Sequence[QualifiedName] = ()
    try:
        names = names_of(spec.edits.cdi_devices, spec.edits.annotations)
        if names:
            injected += _scan(directories).edits(names)
            _check_engine(injected.config, engine)
    except _FAILURES as error:
        raise ContainerStartError("CreateContainerError", f"CDI device injection failed: {error}") from error
    if handler is not OciHandler.NVIDIA:
        return injected
    try:
        injected = _with_visible(injected, names, directories)
        _check_engine(injected.config, engine)
    except _FAILURES as error:
        problem = (
            "could not apply required modification to OCI specification: error modifying OCI spec: "
            f"failed to inject CDI devices: {error}"
        )
        raise ContainerStartError("StartError", problem) from error
    return injected


def _with_visible(injected: Injected, names: Sequence[QualifiedName], directories: Sequence[Path]) -> Injected:
    """The handler's additions to a container in which CDI has put the devices ``names``."""
    env = dict(each.split("=", 1) for each in injected.config["process"]["env"])
    if not asks_for_devices(env):
        return injected
    registry = _scan(directories)
    mounted = [each["destination"] for each in injected.config["mounts"]]
    visible = visible_devices(env, mounted=mounted, known=registry.devices.keys())
    wanted = [each for each in visible if each not in names]
    return injected + registry.edits(wanted) if wanted else injected


def _check_engine(config: OciSpec, engine: OciEngine) -> None:
    """An engine passes over what its version of the specification does not know: better nothing than half of it.

    Raises:
        CdiInjectionFailed: the container would lack what it was promised.
    """
    moved = config["linux"].get("netDevices", {})
    if moved and engine.oci_version < _NET_DEVICES_SINCE:
        name = next(iter(moved))
        known = ".".join(map(str, engine.oci_version))
        raise CdiInjectionFailed(
            f"{engine.version} cannot move the network device {name} into a container: that takes version 1.3 of the "
            f"OCI runtime specification, and it knows {known}"
        )


def _scan(directories: Sequence[Path]) -> Registry:
    registry = scan(directories)
    for path, problems in registry.problems.items():
        for problem in problems:
            logger.warning("CDI spec %s is passed over, so its devices are not known; mend it: %s", path, problem)
    return registry
