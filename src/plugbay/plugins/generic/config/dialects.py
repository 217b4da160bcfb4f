"""Dialects: the config may be a file of its own, or a section of MicroShift's config. Pure.

Source: MicroShift 4.20 ``pkg/config/gdp.go``.
"""

from __future__ import annotations

from typing import Final

from plugbay.plugins.generic.config.fields import DOMAIN, ENTRY
from plugbay.plugins.generic.config.nodes import Keyed, Keys, Node
from plugbay.plugins.generic.config.problems import ConfigFindings
from plugbay.plugins.generic.config.records import ConfigField as Field
from plugbay.plugins.generic.config.records import Record, RecordShape
from plugbay.plugins.generic.config.shapes import ChoiceShape, ListShape

MICROSHIFT_KEY: Final = "genericDevicePlugin"
MICROSHIFT_DOMAIN: Final = "device.microshift.io"
"""Domain of a section that names none."""

MICROSHIFT: Final = RecordShape(
    MICROSHIFT_KEY,
    "Section of MicroShift's config.",
    lambda: (
        Field("status", ChoiceShape({"Disabled": "", "Enabled": ""}), "Whether its devices are served; Disabled "
              "by default."),
        DOMAIN,
        Field("devices", ListShape(ENTRY, emptiness="is empty, and at least one device must be there"),
              "The resources."),
    ),
)  # fmt: skip


def section_of(node: Node) -> Keyed | None:
    """The section of a config of MicroShift; None in any other."""
    entries = node.entries if isinstance(node, Keys) else ()
    return next((each for each in entries if each.key.lower() == MICROSHIFT_KEY.lower()), None)


def refuse_disabled(section: Record, findings: ConfigFindings) -> None:
    """Note that a section is not enabled: its devices would not be served, for no reason that shows."""
    if section.values.get("status", "Disabled") != "Enabled":
        problem = "is Disabled, as it is by default, so that nothing is served; write status: Enabled"
        findings.error(section.spot_of("status"), (*section.path, "status"), problem)
