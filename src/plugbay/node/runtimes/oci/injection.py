"""CDI devices put into a container's OCI spec, as containerd does it last of all.

Source: containerd 2.1.9 ``internal/cri/opts/spec_linux_opts.go``, ``WithCDI``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from plugbay.cdi.directories import scan
from plugbay.cdi.host import host_node
from plugbay.cdi.inject import OciSpec, inject
from plugbay.cdi.names import QualifiedName, names_of
from plugbay.errors import (
    CdiInjectionFailed,
    ContainerStartError,
    InvalidCdiName,
    PathUnusable,
    UnresolvableCdiDevices,
)
from plugbay.node.runtimes.oci.handlers import Handler, visible_devices
from plugbay.node.runtimes.port import ContainerSpec

logger = logging.getLogger(__name__)


def inject_cdi(
    config: OciSpec, spec: ContainerSpec, *, env: Mapping[str, str], handler: Handler, directories: Sequence[Path]
) -> OciSpec:
    """``config`` with the CDI devices that plugins, and perhaps the handler, ask for. Waits for the disk if any do.

    Args:
        env: the container's whole environment.
        directories: of spec files, weakest first; read anew each time.

    Raises:
        ContainerStartError: they cannot be injected; then nothing is.
    """
    try:
        names = names_of(spec.edits.cdi_devices, spec.edits.annotations)
        if names:
            config = _injected(config, names, directories)
    except (InvalidCdiName, UnresolvableCdiDevices, CdiInjectionFailed, PathUnusable) as error:
        problem = f"failed to create containerd container: CDI device injection failed: {error}"
        raise ContainerStartError("CreateContainerError", problem) from error
    if handler is not Handler.NVIDIA:
        return config
    try:
        visible = [each for each in visible_devices(env) if each not in names]
        return _injected(config, visible, directories) if visible else config
    except (InvalidCdiName, UnresolvableCdiDevices, CdiInjectionFailed, PathUnusable) as error:
        problem = (
            "could not apply required modification to OCI specification: error modifying OCI spec: "
            f"failed to inject CDI devices: {error}"
        )
        raise ContainerStartError("StartError", problem) from error


def _injected(config: OciSpec, names: Sequence[QualifiedName], directories: Sequence[Path]) -> OciSpec:
    registry = scan(directories)
    for path, problems in registry.problems.items():
        for problem in problems:
            logger.warning("CDI spec %s is passed over: %s", path, problem)
    return inject(registry.edits(names), config, partial(host_node, root=Path("/")))
