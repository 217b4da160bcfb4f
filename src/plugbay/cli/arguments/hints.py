"""Hints for commands that other programs have, or that are called differently here. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_ABOUT_PODS: Final = frozenset({"pod", "pods", "po"})
_ABOUT_NODES: Final = frozenset({"node", "nodes", "no"})
_ABOUT_EVENTS: Final = frozenset({"event", "events", "ev"})

_CHANGE: Final = "change the manifest, then: plugbay pod apply -f FILE"
_CONTEXTS: Final = "there are no contexts: --root DIR or $PLUGBAY_ROOT says which node is meant"
_PODS_ONLY: Final = "plugbay's node runs pods only"
_INSTEAD: Final = {
    "annotate": _CHANGE,
    "api-resources": "there are pods, nodes and events: see plugbay pod, plugbay node and plugbay events",
    "api-versions": "there is v1, with pods, nodes and events",
    "attach": "plugbay pod logs -f NAME shows what a container prints, plugbay pod exec -it NAME -- sh runs a shell",
    "autoscale": _PODS_ONLY,
    "cluster-info": _CONTEXTS,
    "config": _CONTEXTS,
    "cp": "to copy a file, pass it through a command: plugbay pod exec -i NAME -- sh -c 'cat > FILE' < FILE",
    "debug": "plugbay pod describe NAME says what a pod waits for; plugbay pod exec -it NAME -- sh looks inside",
    "diff": "plugbay pod apply -f FILE says which fields cannot change, and changes the others",
    "edit": _CHANGE,
    "explain": "plugbay pod run --dry-run -f FILE names each field that is unknown or not supported, with its line",
    "expose": _PODS_ONLY,
    "kill": "plugbay pod delete NAME --force kills a pod at once",
    "label": _CHANGE,
    "patch": _CHANGE,
    "port-forward": "a pod is reached at its address: plugbay pod get NAME -o jsonpath='{.status.podIP}'",
    "proxy": "the node answers HTTP on the socket plugbay.sock below its root",
    "replace": _CHANGE,
    "rollout": _PODS_ONLY,
    "scale": _PODS_ONLY,
    "start": "plugbay node up starts a node, and plugbay pod run a pod",
    "stop": "plugbay node down stops the node, and plugbay pod delete NAME a pod",
    "taint": "plugbay node cordon keeps pods away from the node",
    "top": "plugbay node devices shows which container holds which device",
}
"""Hints for commands of kubectl, docker and podman."""


def instead_of(given: str, after: Sequence[str], groups: Mapping[str, Mapping[str, str]]) -> str:
    """The command to type in place of ``given``, as the end of a sentence; empty when none is known.

    Args:
        after: the words that follow it.
        groups: for each group, by its whole name, the words that its commands may be called by, and their names.
    """
    kind = after[0].partition("/")[0].lower() if after else ""
    if kind in _ABOUT_EVENTS and given in ("get", "list", "ls"):
        return 'did you mean "plugbay events"?'
    found = [f"{group} {commands[given]}" for group, commands in groups.items() if given in commands]
    for word, kinds in (("pod", _ABOUT_PODS), ("node", _ABOUT_NODES)):
        if kind in kinds:
            found = [each for each in found if each.split()[-2] == word] or found
    if found:
        quoted = [f'"{each}"' for each in found]
        return f"did you mean {' or '.join(quoted)}?"
    return _INSTEAD.get(given, "")
