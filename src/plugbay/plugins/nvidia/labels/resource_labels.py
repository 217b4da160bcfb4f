"""Labels of one resource. Pure.

Source: gpu-feature-discovery 0.20 ``internal/lm/resource.go``; spec 7.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.config.choices import SharingStrategy
from plugbay.plugins.nvidia.config.resource_names import GPU, mig_resource
from plugbay.plugins.nvidia.config.sharing import SharedResource, SharingSettings
from plugbay.plugins.nvidia.labels.label_values import label_value, sanitised
from plugbay.plugins.nvidia.survey import Gpu, MigDevice
from plugbay.values import dataclass

_MIB: Final = 1 << 20
_SHARED: Final = "SHARED"
_MIG: Final = "MIG"
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResourceLabeler:
    """Makes the labels of a resource.

    Attributes:
        sharing: None for a GPU in MIG mode, which is not given away as a whole.
    """

    resource: ResourceName
    sharing: SharingSettings | None

    def labels(self, values: Mapping[str, object]) -> dict[str, str]:
        """The labels, named by the resource and the ends that are the keys."""
        return {f"{self.resource}.{end}": str(value) for end, value in values.items()}

    def base(self, count: int, *parts: str) -> dict[str, str]:
        """The labels of all kinds of devices; ``parts`` make the name of the product."""
        shared = self._shared
        replicas = 0 if self.sharing is None else shared.replicas if shared else 1
        strategy = self.sharing.strategy if self.sharing is not None and shared else SharingStrategy.NONE
        # Replicas under a name of their own are told from whole devices by it.
        end = (_SHARED,) if shared and shared.rename is None else ()
        product = "-".join((*filter(None, map(sanitised, parts)), *end))
        return self.labels(
            {
                "product": label_value(product),
                "count": count,
                "replicas": replicas,
                "sharing-strategy": strategy.value,
            }
        )

    @property
    def _shared(self) -> SharedResource | None:
        active = self.sharing.active if self.sharing is not None else None
        resources = active.resources if active is not None else ()
        return next((each for each in resources if each.name == self.resource), None)


def gpu_labels(gpu: Gpu, count: int, sharing: SharingSettings | None) -> dict[str, str]:
    """The labels of whole GPUs of one model.

    Args:
        gpu: one of them.
        sharing: None when all of them are in MIG mode.
    """
    labeler = ResourceLabeler(GPU, sharing)
    labels = labeler.base(count, gpu.name)
    if gpu.memory_bytes:
        labels |= labeler.labels({"memory": gpu.memory_bytes // _MIB})
    major, minor = gpu.compute_capability
    if major:
        labels |= labeler.labels({"family": gpu.architecture, "compute.major": major, "compute.minor": minor})
    return labels


def mig_labels(
    resource: ResourceName, gpu: Gpu, device: MigDevice, count: int, sharing: SharingSettings
) -> dict[str, str]:
    """The labels of the MIG devices of one profile.

    Args:
        resource: that of whole GPUs, or of the profile.
        device: one of them, on ``gpu``.
    """
    labeler = ResourceLabeler(resource, sharing)
    attributes = device.attributes
    return {
        **labeler.base(count, gpu.name, _MIG, profile_name(device)),
        **labeler.labels(
            {
                "memory": attributes.memory_mib,
                "multiprocessors": attributes.multiprocessors,
                "slices.gi": attributes.gpu_slices,
                "slices.ci": attributes.compute_slices,
                "engines.copy": attributes.copy_engines,
                "engines.decoder": attributes.decoders,
                "engines.encoder": attributes.encoders,
                "engines.jpeg": attributes.jpeg_engines,
                "engines.ofa": attributes.ofa_engines,
            }
        ),
    }


def invalid_mig_labels(gpu: Gpu) -> dict[str, str]:
    """The labels of a node whose MIG devices the strategy ``single`` cannot offer."""
    return ResourceLabeler(GPU, None).labels(
        {
            "product": label_value(f"{sanitised(gpu.name)}-{_MIG}-INVALID"),
            "count": 0,
            "replicas": 0,
            "sharing-strategy": "",
            "memory": 0,
        }
    )


def profile_name(device: MigDevice) -> str:
    """The name of a MIG device's profile, as labels can hold it: ``1g.5gb.me``."""
    return str(device.profile).replace("+", ".")


def profile_resource(device: MigDevice) -> ResourceName:
    """The resource of a MIG device with the strategy ``mixed``."""
    return mig_resource(str(device.profile))
