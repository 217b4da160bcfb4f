"""Licences as SPDX expressions, where packages say them so that a program can read them."""

from __future__ import annotations

import re
from email.message import Message
from typing import Final

_OF_SOURCES: Final = {
    # Their copyright files are prose. The first number of a version is enough for gcc and Python.
    r"gcc-\d+": "GPL-3.0-or-later WITH GCC-exception-3.1",
    r"glibc": "LGPL-2.1-or-later",
    r"libxcrypt": "LGPL-2.1-or-later",
    r"python3(\.\d+|-defaults)": "PSF-2.0",
}
_SHORT_NAMES: Final = {
    "apache-2.0": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "expat": "MIT",
    "gpl-1+": "GPL-1.0-or-later",
    "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-3+": "GPL-3.0-or-later",
    "isc": "ISC",
    "lgpl-2+": "LGPL-2.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later",
    "lgpl-3+": "LGPL-3.0-or-later",
    "mit": "MIT",
    "mpl-1.1": "MPL-1.1",
    "x11": "X11",
    "zlib": "Zlib",
}
_OF_WHEELS: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache-2.0": "Apache-2.0",
    "BSD-3-Clause": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "MIT": "MIT",
    "MPL-2.0": "MPL-2.0",
}


def of_debian(source: str, copyright_file: str) -> str | None:
    """All licences of a source package together, so perhaps more than a library of it has; None when one is unknown."""
    for pattern, expression in _OF_SOURCES.items():
        if re.fullmatch(pattern, source):
            return expression
    if not copyright_file.startswith("Format:"):
        return None
    found = set()
    for name in re.findall(r"^License:[ \t]*(.*)$", copyright_file, re.MULTILINE):
        choices = [_SHORT_NAMES.get(each.strip().lower()) for each in re.split(r"\s+or\s+", name)]
        known = [each for each in choices if each]
        if len(known) < len(choices):
            return None
        found.add(known[0] if len(known) == 1 else f"({' OR '.join(known)})")
    return " AND ".join(sorted(found)) or None


def of_wheel(metadata: Message) -> str | None:
    """What a wheel declares; None when that is prose."""
    if expression := metadata["License-Expression"]:
        return str(expression)
    for said in [metadata["License"], *metadata.get_all("Classifier", [])]:
        if said in _OF_WHEELS:
            return _OF_WHEELS[said]
    return None
