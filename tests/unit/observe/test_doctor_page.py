"""docs/doctor.md has a section for every check, with the words of the catalogue, and for nothing else."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

import pytest

from plugbay.observe.doctor.catalogue import CHECKS
from plugbay.observe.doctor.evidence.values import Examined
from plugbay.observe.doctor.finding import Check

PAGE: Final = Path(__file__).parents[3] / "docs/doctor.md"
GROUPS: Final = {
    "1": "Kubelet and plugins",
    "2": "Checkpoint and PodResources",
    "3": "Resources and devices",
    "4": "Pods",
    "5": "Containers: CDI, engine, device nodes",
    "6": "Networks",
    "7": "Settings and machine",
}
WORD: Final = re.compile(r"\bPBD[0-9]{3}\b")


def section(check: Check) -> str:
    """The check's section."""
    texts = (f"**{check.title}** ({check.severity.value})", f"Cause: {check.cause}", f"Remedy: {check.remedy}")
    # Escaped: a page shows <...> and | as they are.
    paragraphs = ["\n".join(textwrap.wrap(each, 120, break_on_hyphens=False)) for each in texts]
    return "\n\n".join([f"### {check.id}", *paragraphs])


def catalogue() -> str:
    """All sections, in groups; what the page has below its introduction."""
    parts: list[str] = []
    for number, title in GROUPS.items():
        parts += [f"## {title}", *(section(each) for each in CHECKS if each.id[3] == number)]
    return "\n\n".join(parts) + "\n"


def test_ids_are_unique_and_in_order() -> None:
    ids = [each.id for each in CHECKS]
    assert ids == sorted(set(ids))
    assert all(WORD.fullmatch(each) for each in ids)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_page_has_a_section_with_cause_and_remedy(check: Check) -> None:
    assert section(check) in PAGE.read_text(encoding="utf-8")
    assert check.page == f"docs/doctor.md#{check.id.lower()}"
    for text in (check.title, check.cause, check.remedy):
        assert text.strip() == text
        assert set(WORD.findall(text)) <= {each.id for each in CHECKS}


def test_page_ends_with_the_catalogue_and_nothing_else() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(catalogue())


def test_a_check_says_what_it_reads() -> None:
    without = {each.id for each in CHECKS if not each.needs}
    assert without == {"PBD113"}  # what it needs is an argument
    assert Examined.__dataclass_params__.frozen  # type: ignore[attr-defined]  # what dataclasses leave there
