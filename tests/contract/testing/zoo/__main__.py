"""Let an animal loose: ``python -m tests.contract.testing.zoo NAME DIRECTORY``.

The directory is the kubelet's for device plugins. A file ``sick`` beside it, if there is one, names the devices that
are unhealthy, one a line.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from tests.contract.testing.zoo.keeper import ANIMALS


def main() -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    name, directory = sys.argv[1:]
    asyncio.run(ANIMALS[name](Path(directory), Path(directory).parent / "sick").run())


if __name__ == "__main__":
    main()
