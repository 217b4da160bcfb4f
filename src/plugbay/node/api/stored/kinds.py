"""All kinds that a node serves from its start. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.node.api.resources import RESOURCES
from plugbay.node.api.stored.configuration import CONFIG_MAPS, SECRETS
from plugbay.node.api.stored.identity import LEASES, SERVICE_ACCOUNTS
from plugbay.node.api.stored.namespaces import NAMESPACES
from plugbay.node.api.stored.reviews import REVIEWS

BUILT_IN: Final = (CONFIG_MAPS, *RESOURCES, *REVIEWS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, LEASES)
