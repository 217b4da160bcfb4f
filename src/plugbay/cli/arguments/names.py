"""Names of pods and nodes as users and ``-o name`` write them: ``web`` or ``pod/web``; for ``type=`` of arguments."""

from __future__ import annotations

import argparse
from typing import Final

POD: Final = "Pod"
NODE: Final = "Node"
_KINDS: Final = {"pod": POD, "pods": POD, "po": POD, "node": NODE, "nodes": NODE, "no": NODE}
"""The kinds, by each of kubectl's spellings."""


def pod_name(text: str) -> str:
    """The name of a pod, which may have its kind before it.

    An impossible name is refused: a wait for the end of such a pod, for instance, would succeed at once.
    """
    return _named(text, POD)


def node_name(text: str) -> str:
    """The name of a node, which may have its kind before it."""
    return _named(text, NODE)


def object_of(text: str) -> tuple[str, str]:
    """Kind and name of ``pod/web`` or ``node/n1``."""
    kind, slash, name = text.partition("/")
    if not slash or kind.lower() not in _KINDS or not _can_be(name):
        raise argparse.ArgumentTypeError(f"wants pod/NAME or node/NAME, found {text!r}")
    return _KINDS[kind.lower()], name


def _named(text: str, wanted: str) -> str:
    word = wanted.lower()
    if not text:  # of a variable that is not set, most likely
        raise argparse.ArgumentTypeError("wants a name, found ''")
    kind, slash, name = text.rpartition("/")
    if slash and _KINDS.get(kind.lower()) != wanted:
        raise argparse.ArgumentTypeError(f"takes {word}s only, such as {word}/NAME, found {text!r}")
    if not _can_be(name):
        raise argparse.ArgumentTypeError(
            f"wants the name of a {word}, of lower-case letters, digits, - and ., found {text!r}"
        )
    return name


def _can_be(name: str) -> bool:
    # Imported here: only a command that has a name to check pays for it.
    from plugbay.model.dns import is_subdomain

    return is_subdomain(name)
