"""What containerd made of one pod with devices, recorded, and how to compare with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from plugbay.cdi.inject import OciSpec
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount

RECORDS: Final = Path(__file__).parents[3] / "golden" / "containerd"
BASE: Final = "$BASE"
"""Stands for the directory of the mounts' sources."""

FROM_HOST: Final = "/dev/gopher-host"
"""The node of a CDI device that says neither numbers nor mode."""
POD_ENV: Final = {"WORD": "pod", "OVER": "pod"}
_ENV: Final = ("GOPHER", "WORD", "OVER", "ALL", "OWN")
_MOUNTS: Final = ("/gopher", "/cdi")
_NODES: Final = "/dev/gopher"
_RULES: Final = ((1, 7, "rw"), (1, 5, "r"), (10, 229, "rwm"))
"""Which nobody makes but for the pod's devices."""
_GROUP: Final = 777


def edits(base: str) -> ContainerEdits:
    """What the pod's device gives it."""
    return ContainerEdits(
        env={"GOPHER": "g1", "WORD": "device", "OVER": "device"},
        mounts=(Mount(f"{base}/word", container_path="/gopher", read_only=True),),
        device_nodes=(DeviceNode("/dev/full", container_path="/dev/gopher", permissions="rw"),),
        cdi_devices=("example.com/cdi=host", "example.com/cdi=numbers", "example.com/cdi=hooked"),
    )


def write_cdi(directory: Path, *, base: str, names: tuple[str, ...] = ()) -> None:
    """The pod's CDI devices, or those of them that are named."""
    spec = json.loads((RECORDS / "cdi.json").read_text().replace(BASE, base))
    spec["devices"] = [each for each in spec["devices"] if not names or each["name"] in names]
    directory.mkdir(exist_ok=True)
    (directory / "spec.json").write_text(json.dumps(spec))


def decided(config: OciSpec, *, base: str) -> OciSpec:
    """Of an OCI spec, the part that the devices decide, with ``base`` as `BASE`.

    Of a variable that is there several times the last counts, as for runc; mounts of equal depth have no order.
    Groups that images have are left out.
    """
    linux, process = config["linux"], config["process"]
    env = dict(each.split("=", 1) for each in process["env"])
    mounts = [each for each in config["mounts"] if each["destination"] in _MOUNTS]
    part = {
        "env": {name: env[name] for name in _ENV if name in env},
        "groups": [gid for gid in process["user"].get("additionalGids", ()) if gid == _GROUP],
        "mounts": sorted(mounts, key=lambda each: str(each["destination"])),
        "devices": [each for each in linux["devices"] if each["path"].startswith(_NODES)],
        "rules": [
            each
            for each in linux["resources"]["devices"]
            if each["allow"] and (each.get("major"), each.get("minor"), each["access"]) in _RULES
        ],
        "hooks": config.get("hooks", {}),
    }
    shown: OciSpec = json.loads(json.dumps(part).replace(base, BASE))
    return shown


def without_host_mode(part: OciSpec) -> OciSpec:
    """The same as a CDI library before 1.1.0 makes it: no node gets its mode from the host's."""
    devices = [{**each} for each in part["devices"]]
    for each in devices:
        if each["path"] == FROM_HOST:
            del each["fileMode"]
    return {**part, "devices": devices}


def recorded() -> OciSpec:
    """What containerd made of the pod, as `decided` shows it."""
    made: OciSpec = json.loads((RECORDS / "made.json").read_text())
    return made
