"""What an image holds, as an SPDX document in JSON.

Source: SPDX 2.3, chapters 6, 7 and 11; package-url's types deb and pypi.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tools.image.inputs import Kind, Pin

PATH: Final = "usr/share/plugbay/sbom.spdx.json"
_UNKNOWN: Final = "NOASSERTION"


@dataclass(frozen=True, slots=True)
class Component:
    """One package in an image."""

    pin: Pin
    purl: str
    licence: str | None
    supplier: str = ""
    homepage: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """The image that a document is about."""

    name: str
    version: str
    architecture: str
    licence: str
    created: str


def purl(pin: Pin, *, distribution: str, architecture: str) -> str:
    """The package's URL, as scanners compare them."""
    match pin.kind:
        case Kind.DEB:
            name, _, release = distribution.partition("-")
            where = f"arch={architecture}&distro={name}-{release}"
            return f"pkg:deb/{name}/{pin.name}@{quote(pin.version, safe='')}?{where}"
        case Kind.WHEEL:
            return f"pkg:pypi/{re.sub(r'[-_.]+', '-', pin.name).lower()}@{quote(pin.version, safe='')}"


def document(subject: Subject, components: Sequence[Component]) -> bytes:
    """The same components make the same bytes."""
    packages = [_package(component) for component in sorted(components, key=lambda each: each.pin)]
    image = {
        "SPDXID": "SPDXRef-image",
        "name": subject.name,
        "versionInfo": subject.version,
        "primaryPackagePurpose": "CONTAINER",
        **_unspoken(subject.licence),
    }
    contents = hashlib.sha256(json.dumps([image, packages], sort_keys=True).encode()).hexdigest()
    name = f"{subject.name}-{subject.version}-{subject.architecture}"
    made: dict[str, Any] = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{contents}",
        "creationInfo": {"created": subject.created, "creators": ["Tool: plugbay-image"]},
        "packages": [image, *packages],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"),
            *(_relation("SPDXRef-image", "CONTAINS", package["SPDXID"]) for package in packages),
        ],
    }
    return json.dumps(made, indent=1).encode() + b"\n"


def _package(component: Component) -> dict[str, Any]:
    pin = component.pin
    said: dict[str, Any] = {
        "SPDXID": f"SPDXRef-{pin.kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', pin.name)}",
        "name": pin.name,
        "versionInfo": pin.version,
        **_unspoken(component.licence or _UNKNOWN),
        "checksums": [{"algorithm": "SHA256", "checksumValue": pin.sha256}],
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": component.purl}
        ],
    }
    if component.supplier:
        said["supplier"] = f"Organization: {component.supplier}"
    if component.homepage:
        said["homepage"] = component.homepage
    if component.licence is None and pin.kind is Kind.DEB:
        said["licenseComments"] = f"/usr/share/doc/{pin.name}/copyright in the image"
    return said


def _unspoken(licence: str) -> dict[str, Any]:
    return {
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": licence,
        "copyrightText": _UNKNOWN,
    }


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
