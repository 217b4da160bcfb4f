"""How containers of the image start, and what is written on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tools.image import oci, wheels
from tools.image.fetching import WheelPart
from tools.image.inputs import Architecture
from tools.image.sbom import Subject

_ENVIRON: Final = {
    "PATH": "/usr/local/bin:/usr/bin",
    # The root may be read-only, and what is there is compiled.
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
}
_NVIDIA_ENVIRON: Final = {
    # NVIDIA's runtime adds the driver's management library, and only that.
    "NVIDIA_DRIVER_CAPABILITIES": "utility",
    "NVIDIA_VISIBLE_DEVICES": "all",
}


def title(variant: str) -> str:
    return f"plugbay-{variant}"


def of(ours: WheelPart, variant: str, epoch: int, revision: str) -> oci.Settings:
    """The settings of an image of our wheel; ``revision`` may be empty."""
    said = wheels.metadata(ours.file)
    labels = {
        "org.opencontainers.image.created": _date(epoch),
        "org.opencontainers.image.description": str(said["Summary"]),
        "org.opencontainers.image.licenses": str(said["License-Expression"]),
        "org.opencontainers.image.title": title(variant),
        "org.opencontainers.image.version": ours.pin.version,
    }
    if revision:
        labels["org.opencontainers.image.revision"] = revision
    environ = _ENVIRON | (_NVIDIA_ENVIRON if variant == "nvidia" else {})
    return oci.Settings(_date(epoch), environ, entrypoint=[wheels.PROGRAM], command=["--help"], labels=labels)


def subject(ours: WheelPart, variant: str, architecture: Architecture, epoch: int) -> Subject:
    """The image, as its SBOM calls it."""
    licence = str(wheels.metadata(ours.file)["License-Expression"])
    return Subject(title(variant), ours.pin.version, architecture, licence, _date(epoch))


def _date(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
