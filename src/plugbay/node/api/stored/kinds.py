"""All kinds that a node serves from its start. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.node.api.resources import RESOURCES
from plugbay.node.api.stored.configuration import CONFIG_MAPS, SECRETS

BUILT_IN: Final = (CONFIG_MAPS, *RESOURCES, SECRETS)
