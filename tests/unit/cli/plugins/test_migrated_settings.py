"""``plugbay migrate`` loses no setting, whatever else its files hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugbay.documents.texts import Document, read_documents
from plugbay.errors import PlugbayError
from plugbay.model.field_path import field_text
from plugbay.plugins.nvidia.migrating.manifests import migrate_nvidia
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, Migration
from plugbay.sdk.deploying.migrating.squat import migrate_squat
from tests.unit.cli.plugins.test_cli_migrate import GOLDEN, SAMPLES

keys = st.sampled_from(
    """devices device name groups paths path type usb count limit domain listen apiVersion kind metadata spec template
    containers initContainers image args command env value volumes configMap data config map default fallbackStrategies
    migStrategy gfd nfd mps enabled root tolerations affinity nodeSelector flags version sharing odd Strange""".split()
)
TEXTS = (
    "",
    "x",
    "/dev/x*",
    "Device",
    "DaemonSet",
    "v1",
    "ConfigMap",
    "nvidia-device-plugin",
    "mixed",
    "--mig-strategy",
    "--device=a: 1",
    "squat/generic-device-plugin:1",
)
scalars = st.none() | st.booleans() | st.integers(-2, 20) | st.sampled_from(TEXTS)
trees = st.recursive(scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=4))


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    children = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    if not children and path:
        yield path
    for step, below in children:
        yield from leaves(below, (*path, step))


def lost(migration: Migration, documents: list[Document]) -> list[str]:
    """The settings of which no note tells, not even one about what holds them."""
    told: dict[str, set[str]] = {}
    for note in migration.notes:
        told.setdefault(note.place.rpartition(":")[0], set()).add(note.setting.partition(": ")[0])
    missing = []
    for number, document in enumerate(documents):
        of_file = told.get(f"f{number}", set())
        for path in leaves(document.value):
            above = {field_text(path[:end]) or "the whole" for end in range(len(path) + 1)}
            if not above & of_file:
                missing.append(f"f{number}: {field_text(path)}")
    return missing


def mixed(sample: str, additions: list[tuple[Any, Any]]) -> list[Document]:
    """A sample with further settings in places that hold some."""
    values = [each.value for each in read_documents((GOLDEN / f"{sample}.yaml").read_text(), source="")]
    holders: list[Any] = []

    def collect(value: object) -> None:
        if isinstance(value, dict | list):
            holders.append(value)
            for each in value.values() if isinstance(value, dict) else value:
                collect(each)

    for value in values:
        collect(value)
    for number, (key, tree) in enumerate(additions):
        holder = holders[(number * 7 + len(str(tree))) % len(holders)]
        if isinstance(holder, dict):
            holder[key] = tree
        else:
            holder.append(tree)
    return [next(read_documents(json.dumps(each), source="")) for each in values if each is not None]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sample=st.sampled_from(SAMPLES), additions=st.lists(st.tuples(keys, trees), max_size=6))
def test_no_mixture_of_settings_loses_one(sample: str, additions: list[tuple[Any, Any]]) -> None:
    documents = mixed(sample, additions)
    parts = [ForeignSettings(each, f"f{number}") for number, each in enumerate(documents)]
    try:
        migration = migrate_squat(parts, (), "") if sample.startswith("squat") else migrate_nvidia(parts, ())
    except PlugbayError:
        return  # nothing is printed then
    assert not lost(migration, documents)
