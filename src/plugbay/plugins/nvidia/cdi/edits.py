"""Edits and specs in the order and the form of the reference.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/transform``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plugbay.cdi.spec import Edits, Hook, Spec, SpecDevice, SpecDeviceNode, SpecMount
from plugbay.cdi.versions import minimum_version
from plugbay.plugins.nvidia.answers.features import CdiClass
from plugbay.plugins.nvidia.cdi.nodes import NodeFinder

READ_ONLY: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET: Final = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
HIDDEN: Final = "NVIDIA_VISIBLE_DEVICES=void"
"""Keeps the toolkit's older way of injection from acting as well."""


def ordered_edits(
    finder: NodeFinder,
    nodes: Iterable[SpecDeviceNode],
    *,
    env: tuple[str, ...] = (),
    mounts: Iterable[SpecMount] = (),
    hooks: tuple[Hook, ...] = (),
) -> Edits:
    """Edits in the order of the reference: nodes and mounts by the depth of their paths, then by path, and groups by
    number; each once.
    """
    unique_nodes = {node.path: node for node in nodes}
    unique_mounts: Mapping[str, SpecMount] = {mount.container_path: mount for mount in reversed(list(mounts))}
    ordered = sorted(unique_nodes.values(), key=lambda node: _depth(node.path))
    groups = {group for node in ordered for group in finder.groups(node)}
    return Edits(
        env=env,
        device_nodes=tuple(ordered),
        hooks=hooks,
        mounts=tuple(sorted(unique_mounts.values(), key=lambda mount: _depth(mount.container_path))),
        additional_gids=tuple(sorted(groups)),
    )


def _depth(path: str) -> tuple[int, str]:
    return posixpath.normpath(path).count("/"), path


def spec_of(device_class: CdiClass, devices: Sequence[SpecDevice], common: Edits) -> Spec:
    """A spec of the lowest version that can say what it says."""
    spec = Spec("", device_class.kind, devices=tuple(devices), edits=common)
    return replace(spec, version=minimum_version(spec))
