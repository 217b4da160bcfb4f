"""The configuration file of a node, chosen by its label among files with names. Pure.

Source: k8s-device-plugin 0.20 ``cmd/config-manager/main.go``; spec 1.9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from plugbay.errors import UsageError
from plugbay.plugins.nvidia.config import flags as flag
from plugbay.plugins.nvidia.config.choices import FallbackStrategy
from plugbay.values import dataclass

NODE_LABEL: Final = str(flag.NODE_LABEL.default)
"""The label of a node whose value is the name of its file."""
_NAMED: Final = "default"


@dataclass(frozen=True, slots=True)
class NamedConfigs:
    """The rules by which a node's file is chosen.

    Attributes:
        label: the node's label that names it.
        default: the file of a node without that label; empty for none.
        fallbacks: tried in order when there is no default either.
    """

    label: str = NODE_LABEL
    default: str = ""
    fallbacks: tuple[FallbackStrategy, ...] = ()


def config_names(entries: Collection[str]) -> tuple[str, ...]:
    """The names of files among the entries of a directory, sorted; those of a ConfigMap's own links are left out.

    Args:
        entries: names of all entries that are not directories.
    """
    return tuple(sorted(name for name in entries if not name.startswith("..")))


def choose_config(rules: NamedConfigs, names: Sequence[str], labels: Mapping[str, str]) -> str | None:
    """The name of the node's file; None for an empty configuration.

    Args:
        names: of all files there are.
        labels: of the node. They have to be the node's own: what is not known yet is not an empty label.

    Raises:
        UsageError: there are no files, the one that is named is missing, or nothing names one.
    """
    if not names:
        raise UsageError("no configuration files available")
    if named := labels.get(rules.label, "") or rules.default:
        if named not in names:
            origin = f"label {rules.label}" if labels.get(rules.label) else "the default"
            raise UsageError(f"specified config {named} does not exist ({origin}; there are: {', '.join(names)})")
        return named
    for fallback in rules.fallbacks:
        match fallback:
            case FallbackStrategy.NAMED if _NAMED in names:
                return _NAMED
            case FallbackStrategy.SINGLE if len(names) == 1:
                return names[0]
            case FallbackStrategy.EMPTY:
                return None
            case _:
                continue
    raise UsageError(
        "no config was set, no default was provided, and all fallbacks failed "
        f"(label {rules.label}; fallbacks: {', '.join(each.value for each in rules.fallbacks) or 'none'})"
    )
