"""Recorded pods as pods for our runtimes: with shorter sleeps, and an image that is here."""

from __future__ import annotations

import re
from typing import Final

from tests.replay.recording import Json

GRACE_S: Final = 2.0
"""The recorded pods' grace period. Ours have the shortest there is, which is longer: it is not in our clock's time."""


def manifest_of(name: str, spec: Json, *, speed: float, image: str = "busybox") -> Json:
    """A pod like the recorded one, with another image and shorter sleeps."""
    containers = {
        key: [_container(each, speed, image) for each in spec[key]]
        for key in ("initContainers", "containers")
        if key in spec
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**spec, **containers, "terminationGracePeriodSeconds": 1},
    }


def _container(raw: Json, speed: float, image: str) -> Json:
    command = raw["command"]
    if command == "prints itself, then sleeps":
        command = ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"]
    if command[:2] == ["sh", "-c"]:
        command = [*command[:2], _script(command[2], speed), *command[3:]]
    return {**raw, "image": image, "command": command}


def _script(script: str, speed: float) -> str:
    def shorter(match: re.Match[str]) -> str:
        seconds = int(match[1])
        return f"sleep {seconds / speed if seconds < 1000 else seconds}"

    script = re.sub(r"sleep (\d+)", shorter, script.replace("prints itself", "env"))
    if "trap" in script:
        return script
    # The first process of a container does not notice SIGTERM, and is killed if it is there when its time is over.
    script = re.sub(r"(sleep [0-9.]+)", r"(trap '' TERM; exec \1) & p=$!; wait $p || wait $p", script)
    return f"trap '{{ sleep {GRACE_S / speed}; kill -KILL 0; }} &' TERM; {script}"
