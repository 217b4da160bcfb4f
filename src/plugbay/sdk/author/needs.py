"""The rights that a plugin needs on its node beyond a container's own, each with the reason for it. Pure.

An author declares those that cannot be seen from the plugin itself; `plugbay.sdk.deploying` adds the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from plugbay.errors import InvalidPlugin, UsageError
from plugbay.errors.wording import shown
from plugbay.model.capabilities import CAPABILITIES
from plugbay.values import dataclass

_ALL: Final = "ALL"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class HostDirectory:
    """A directory of the host.

    Args:
        path: from the root, on the host. Every container has ``/proc`` and ``/sys``, but for what is below ``/sys/fs``
            and for the host's network interfaces.
        reason: what it is for, in half a sentence.
        writable: whether the plugin writes there.
        container_path: the same path if empty; one where the container itself has files, such as ``/usr``, is refused.
    """

    path: str
    reason: str
    writable: bool = False
    container_path: str = ""

    @property
    def place(self) -> str:
        """The path in the container."""
        return self.container_path or self.path


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability of Linux, such as ``NET_ADMIN``: without ``CAP_``, as Kubernetes has it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Privileged:
    """A privileged container: the only way to open device nodes of the host."""

    reason: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that is to be in the plugin's environment."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that the process has in use while it serves, in MiB, if it is more than the SDK's own 36."""

    mebibytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeName:
    """The name of the node that the process runs on, in the variable ``NODE_NAME``."""

    reason: str


@dataclass(frozen=True, slots=True)
class NodeReader:
    """The right to get and watch nodes at the API server, and the variable ``NODE_NAME`` that says which."""

    reason: str


@dataclass(frozen=True, slots=True)
class OneAtATime:
    """No second process of the plugin on the node: a roll-out ends the old one before it starts the new one."""

    reason: str


@dataclass(frozen=True, slots=True)
class OnNodes:
    """Nodes with certain labels, and no others; of several such needs one has to hold.

    Args:
        selector: conditions on labels, such as ``example.com/card=true,!old``.
    """

    selector: str
    reason: str


Need = HostDirectory | Capability | Privileged | Variable | Memory | NodeName | NodeReader | OneAtATime | OnNodes


def check_needs(name: str, needs: object) -> None:
    """Check the needs that the author of ``name`` declared.

    Raises:
        InvalidPlugin: one of them is of no use.
    """
    if not isinstance(needs, Iterable) or isinstance(needs, str):
        raise InvalidPlugin(name, f"`needs` is {shown(needs)}; it has to be a list, such as [plugbay.Capability(...)]")
    for need in needs:
        if problem := _problem(need):
            raise InvalidPlugin(name, f"`needs` has {need!r}: {problem}")


def _problem(need: object) -> str:
    match need:
        case HostDirectory(path=path):
            wrong = next((each for each in (path, need.place) if not _is_absolute(each)), None)
            problem = "" if wrong is None else f"{shown(wrong)} is not a path from the root without `.` and `..`"
            if not problem and need.place == "/":
                problem = "the host's root cannot be the container's: a container_path is wanted"
        case Capability(name=name):
            is_one = name in (*CAPABILITIES, _ALL)  # engines pass over one that they do not know
            problem = "" if is_one else "a capability has the name that Linux gives it, without CAP_, such as NET_ADMIN"
        case Variable(name=name, value=value):
            is_one = isinstance(name, str) and isinstance(value, str) and bool(_VARIABLE.fullmatch(name))
            problem = "" if is_one else "a variable has a name of letters, digits and _, and a text as its value"
        case Memory(mebibytes=size):
            is_one = isinstance(size, int) and not isinstance(size, bool) and size > 0
            problem = "" if is_one else "memory is a whole number of MiB, more than 0"
        case OnNodes(selector=selector):
            problem = _problem_of_selector(selector)
        case Privileged() | NodeName() | NodeReader() | OneAtATime():
            problem = ""
        case _:
            return "it is not one of plugbay's needs, such as HostDirectory, Capability, Privileged, Variable or Memory"
    return problem or _problem_of_reason(need.reason)


def _problem_of_selector(selector: object) -> str:
    from plugbay.model.selectors import parse_selector  # imported here: few plugins need it, and all import this

    try:
        is_one = isinstance(selector, str) and bool(parse_selector(selector))
    except UsageError as error:
        return str(error)
    return "" if is_one else "a selector has conditions on labels, such as example.com/card=true"


def _problem_of_reason(reason: object) -> str:
    is_one = isinstance(reason, str) and reason.strip() and reason.isprintable()
    return "" if is_one else "the reason has to be a line of text"


def _is_absolute(path: object) -> bool:
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable() or ":" in path:
        return False
    return path == "/" or all(part not in ("", ".", "..") for part in path[1:].split("/"))
