"""The patterns that say which resource a GPU or a MIG device belongs to. Pure.

Source: k8s-device-plugin 0.20 ``internal/rm/rm.go``, ``AddDefaultResourcesToConfig``; spec 1.5.
"""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.plugins.nvidia.config.choices import MigStrategy
from plugbay.plugins.nvidia.config.resource_names import (
    GPU,
    ResourcePattern,
    ResourcePatterns,
    mig_resource,
)
from plugbay.plugins.nvidia.survey import Gpu

_ANY = "*"


def node_patterns(own: ResourcePatterns, strategy: MigStrategy, gpus: Iterable[Gpu]) -> ResourcePatterns:
    """All patterns that count on a node: the configuration's own, then those that every node has.

    Args:
        gpus: whose MIG profiles get a resource each, with the strategy ``mixed``.
    """
    every_gpu = ResourcePattern(_ANY, GPU)
    match strategy:
        case MigStrategy.NONE:
            mig: tuple[ResourcePattern, ...] = ()
        case MigStrategy.SINGLE:
            mig = (every_gpu,)
        case MigStrategy.MIXED:
            names = dict.fromkeys(str(profile) for gpu in gpus for profile in gpu.mig_profiles if not profile.is_split)
            mig = tuple(ResourcePattern(name, mig_resource(name)) for name in names)
    return ResourcePatterns((*own.gpus, every_gpu), (*own.mig, *mig))
