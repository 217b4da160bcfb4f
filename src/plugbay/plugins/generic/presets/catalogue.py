"""The presets by name: texts of configs, with comments for those who change them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.errors import UsageError

PRESETS: Final = {
    "kvm": "/dev/kvm, for virtual machines",
    "fuse": "/dev/fuse, for file systems in user space",
    "tun": "/dev/net/tun, for tunnels and virtual private networks",
    "serial": "serial ports on USB: Zigbee, Z-Wave, microcontrollers",
    "video": "cameras and other video devices",
    "gpu-dri": "graphics cards, each with card and render node",
    "infiniband": "host channel adapters with uverbs, umad and rdma_cm",
    "vfio": "IOMMU groups of PCI devices, for virtual machines and user space",
    "loop": "loop devices",
    "input": "keyboards, mice and joysticks",
    "sound": "sound cards",
    "tpm": "trusted platform modules",
    "can": "interfaces of CAN buses, which move into the pod",
}
"""The names, each with the devices that it is for, in the order in which they are shown."""

_DOMAIN: Final = "domain: devices.example.com\n"
_DEVICES: Final = "devices:\n"
_TEXTS: Final = Path(__file__).parent


def preset_text(name: str) -> str:
    """The preset as a config in YAML, which is whole by itself.

    Raises:
        UsageError: there is no such preset; the text names the one that is most alike.
    """
    if name not in PRESETS:
        from difflib import get_close_matches  # few names are wrong

        close = get_close_matches(name.lower(), PRESETS, n=1)
        hint = f'did you mean "{close[0]}"?' if close else f"known are {', '.join(PRESETS)}"
        raise UsageError(f'there is no preset "{name}"; {hint}')
    return (_TEXTS / f"{name}.yaml").read_text(encoding="utf-8")


def presets_text(names: Sequence[str]) -> str:
    """Several presets as one config: their devices together under the example's domain.

    Raises:
        UsageError: there is no such preset.
    """
    texts = [preset_text(name) for name in dict.fromkeys(names)]
    if len(texts) == 1:
        return texts[0]
    devices = []
    for text in texts:
        head, _, entries = text.partition(_DEVICES)
        comments = [line for line in head.splitlines() if line.startswith("#")]
        devices.append("".join(f"  {line}\n" for line in comments) + entries)
    return f"{_DOMAIN}{_DEVICES}" + "".join(devices)
