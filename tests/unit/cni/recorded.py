"""The recorded calls of the official plugins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

RECORDS: Final = Path(__file__).parents[2] / "golden" / "cni" / "official-plugins.txt"

_BLOCK: Final = re.compile(
    r"^--- (?P<name>.*) \[(?P<plugin>.*)\]\n(?P<output>(?:(?!^--- )[\s\S])*?) => rc=(?P<rc>\d+)$", re.M
)


class Recorded(NamedTuple):
    """One call: what it printed, both streams together, and its exit status."""

    release: str
    name: str
    plugin: str
    output: bytes
    status: int


def recorded_calls() -> list[Recorded]:
    _, *sections = re.split(r"^#{16} (.*)$", RECORDS.read_text(encoding="utf-8"), flags=re.M)
    calls = []
    for path, text in zip(sections[::2], sections[1::2], strict=True):
        release = "1.9.1" if "1_9_1" in path else "1.1.1"
        for each in _BLOCK.finditer(text):
            calls.append(Recorded(release, each["name"], each["plugin"], each["output"].encode(), int(each["rc"])))
    return calls
