"""All kinds that a node serves from its start. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.node.api.resources import RESOURCES
from plugbay.node.api.stored.accounts.identity import LEASES, SERVICE_ACCOUNTS
from plugbay.node.api.stored.accounts.reviews import REVIEWS
from plugbay.node.api.stored.accounts.roles import RBAC_KINDS
from plugbay.node.api.stored.configuration import CONFIG_MAPS, SECRETS
from plugbay.node.api.stored.custom.definitions import DEFINITIONS
from plugbay.node.api.stored.inactive.claims import CLAIMS
from plugbay.node.api.stored.inactive.network import NETWORK
from plugbay.node.api.stored.inactive.policies import POLICIES
from plugbay.node.api.stored.inactive.storage import STORAGE
from plugbay.node.api.stored.namespaces import NAMESPACES
from plugbay.node.api.stored.priorities import PRIORITY_CLASSES
from plugbay.node.api.stored.workloads.rows import WORKLOADS

INACTIVE: Final = (*CLAIMS, *NETWORK, *POLICIES, *STORAGE)
"""Kinds that nothing on the node acts on."""
BUILT_IN: Final = (
    CONFIG_MAPS,
    DEFINITIONS,
    LEASES,
    NAMESPACES,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    *RBAC_KINDS,
    *RESOURCES,
    *REVIEWS,
    *WORKLOADS,
    *INACTIVE,
)
