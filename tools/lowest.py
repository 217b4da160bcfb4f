"""Print pip constraints that hold every runtime dependency at the lowest version pyproject.toml allows."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
LOWER_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)")


def constraints(requirements: list[str]) -> list[str]:
    """``requirements`` as pins.

    Raises:
        ValueError: one of them has no lower bound, or more than that.
    """
    pins = []
    for requirement in requirements:
        match = LOWER_BOUND.fullmatch(requirement)
        if match is None:
            raise ValueError(f"{PROJECT.name}: dependency {requirement!r} is not of the form name>=version")
        pins.append(f"{match['name']}=={match['version']}")
    return pins


def main() -> int:
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    print("\n".join(constraints([*project["dependencies"], *extras["node"], *extras["nvidia"]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
