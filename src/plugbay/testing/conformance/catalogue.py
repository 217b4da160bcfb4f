"""All rules, and the choice of some by their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Final

from plugbay.errors import UsageError
from plugbay.testing.conformance.rule import AnyRule, Rule

_ROOM: Final = "plugbay.testing.conformance.rules"
MODULES: Final = (
    "start",
    "registration",
    "options",
    "lists",
    "changes",
    "allocate",
    "edits",
    "wrong_ids",
    "preferences",
    "hooks",
    "restarts.manners",
    "restarts.streams",
    "load.parallel",
    "load.usage",
    "life.ending",
    "life.instances",
)
"""The modules with rules; each rule is a constant of one of them."""


@cache
def all_rules() -> tuple[AnyRule, ...]:
    """Every rule, by number."""
    found: dict[int, AnyRule] = {}
    for module in MODULES:
        for each in vars(import_module(f"{_ROOM}.{module}")).values():
            if isinstance(each, Rule):
                if found.setdefault(each.number, each) is not each:
                    raise AssertionError(f"two rules have the number {each.name}")
    return tuple(found[number] for number in sorted(found))


def chosen_rules(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[AnyRule, ...]:
    """The rules that ``only`` names, all if it is empty, without those that ``skip`` names.

    Args:
        only, skip: numbers such as PB101, and groups such as PB1xx.

    Raises:
        UsageError: one of them names no rule.
    """
    wanted, unwanted = _named(only), _named(skip)
    rules = [each for each in all_rules() if (not wanted or each.name in wanted) and each.name not in unwanted]
    if not rules:
        raise UsageError("no rule is left to judge by: --skip names all that --only names")
    return tuple(rules)


def rule_named(name: str) -> AnyRule:
    """The rule with this number, such as PB101.

    Raises:
        UsageError: there is none.
    """
    for each in all_rules():
        if each.name == name.upper():
            return each
    raise UsageError(f"{name} is not a rule; `plugbay conform --list` shows all")


def page_of(rule: AnyRule) -> str:
    """The page of a rule, Markdown: what is checked, why, and how to mend it."""
    return files("plugbay.testing.conformance").joinpath(f"pages/{rule.name}.md").read_text(encoding="utf-8")


def _named(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        group = name.upper().removesuffix("XX")
        if group != name.upper() and len(group) == len("PB1"):
            found |= {each.name for each in all_rules() if each.name.startswith(group)}
        else:
            found.add(rule_named(name).name)
    return found
