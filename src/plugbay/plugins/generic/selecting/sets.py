"""Matches of the paths of a group, taken together as the other plugin takes them. Pure.

Source: generic-device-plugin 0.1 ``deviceplugin/path.go``, ``discoverPath``.
"""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.plugins.generic.config.rules import PathRule

PathSet = tuple[tuple[PathRule, str], ...]
"""The rules of a group that take part, each with the path that one unit gets by it."""


def sets_of(found: Sequence[tuple[PathRule, Sequence[str]]]) -> list[PathSet]:
    """One set for each unit, before copies.

    There are as many as the rule with the most matches has, but not more than any rule has with its ``limit``; a rule
    with fewer begins anew. An optional rule without a match takes no part.

    Args:
        found: the rules of the group in order, each with its matches in order.
    """
    taking_part = [(rule, matches) for rule, matches in found if matches or not rule.is_optional]
    if not taking_part:
        return []
    longest = max(len(matches) for _, matches in taking_part)
    most = min(len(matches) * max(rule.limit, 1) for rule, matches in taking_part)
    if len(taking_part) == 1:
        [(rule, matches)] = taking_part
        return [((rule, path),) for path in matches]
    return [
        tuple((rule, matches[index % len(matches)]) for rule, matches in taking_part)
        for index in range(min(longest, most))
    ]


def container_path(mount_path: str, host_path: str) -> str:
    """The path in the container: the host's by default; a directory, with a slash at its end, gets the host's name."""
    if not mount_path:
        return host_path
    return mount_path + host_path.rpartition("/")[2] if mount_path.endswith("/") else mount_path
