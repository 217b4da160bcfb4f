"""The tables of kinds that are stored as they are. Pure.

Source: Kubernetes 1.36 ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.printers import v1
from plugbay.printers.tables import AGE, NAME, Cell, Column, TableColumns, age_cell


def _config_map_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return v1.name(value), len(v1.mapping(value, "data")) + len(v1.mapping(value, "binaryData")), age_cell(value, now)


def _secret_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return v1.name(value), v1.text(value, "type"), len(v1.mapping(value, "data")), age_cell(value, now)


def _account_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return v1.name(value), len(v1.objects(value, "secrets")), age_cell(value, now)


def _lease_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return v1.name(value), v1.text(value, "spec", "holderIdentity"), age_cell(value, now)


_DATA: Final = Column("Data", "How many keys it has", kind="integer")

CONFIG_MAPS: Final = TableColumns((NAME, _DATA, AGE), _config_map_cells)
SECRETS: Final = TableColumns((NAME, Column("Type", "What it is used for"), _DATA, AGE), _secret_cells)
SERVICE_ACCOUNTS: Final = TableColumns(
    (NAME, Column("Secrets", "How many secrets may be used with it", kind="integer"), AGE), _account_cells
)
LEASES: Final = TableColumns((NAME, Column("Holder", "The program that holds it"), AGE), _lease_cells)
