"""Errors for the pod's author: the pod asks for something wrong, or does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import located, quote

_SHOWN_PROBLEMS: Final = 10


class PodError(PlugbayError):
    """A pod asks for something wrong, or does not exist."""


class InvalidManifest(PodError):
    """A manifest cannot be used.

    Attributes:
        field: path such as ``spec.containers[0].image``; empty for the document as a whole.
        line: 1-based line in ``source``, or None when it has no text.
        more: the other problems of the same manifest, in document order; ``str()`` has a line for each, up to ten.
    """

    def __init__(
        self,
        problem: str,
        *,
        field: str = "",
        line: int | None = None,
        source: str = "",
        more: Sequence[InvalidManifest] = (),
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field
        self.line = line
        self.source = source
        self.more = tuple(more)

    def __reduce__(self) -> tuple[object, ...]:
        return (_make_invalid_manifest, (self.problem, self.field, self.line, self.source, self.more))

    def __str__(self) -> str:
        lines = [problem.sentence for problem in (self, *self.more)]
        shown = lines[:_SHOWN_PROBLEMS]
        if len(lines) > len(shown):
            shown.append(f"and {len(lines) - len(shown)} more")
        return "\n".join(shown)

    @property
    def sentence(self) -> str:
        """This problem alone, without ``more``."""
        return located(self.problem, field=self.field, line=self.line, source=self.source or "manifest")


def _make_invalid_manifest(
    problem: str, field: str, line: int | None, source: str, more: Sequence[InvalidManifest]
) -> InvalidManifest:
    return InvalidManifest(problem, field=field, line=line, source=source, more=more)


class InvalidQuantity(PodError):
    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"quantity {self.text!r} {self.problem}"


class PodNotFound(PodError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"pods {quote(self.name)} not found"


class PodExists(PodError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"pods {quote(self.name)} already exists"


class PodForbidden(PodError):
    """A pod asks for something that is not there to be had."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f'pods "{self.name}" is forbidden: {self.problem}'


class PodNotBindable(PodError):
    """A pod cannot be bound by a client."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f'Operation cannot be fulfilled on pods/binding "{self.name}": {self.problem}'


class ImmutablePod(PodError):
    """A change of a pod is not possible; ``fields`` are those that would change."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        super().__init__(name, fields)
        self.name = name
        self.fields = tuple(fields)

    def __str__(self) -> str:
        shown = ", ".join(self.fields[:_SHOWN_PROBLEMS])
        if len(self.fields) > _SHOWN_PROBLEMS:
            shown += f" and {len(self.fields) - _SHOWN_PROBLEMS} more"
        return (
            f"Pod {quote(self.name)} is invalid: {shown}: Forbidden: pod updates may not change fields other than "
            "metadata.labels, annotations, ownerReferences and finalizers, images of containers, "
            "spec.activeDeadlineSeconds (it may be set and come nearer) and spec.tolerations (some may be added); "
            "delete the pod first"
        )


class ContainerNotFound(PodError):
    def __init__(self, container: str, pod: str, valid: Sequence[str]) -> None:
        super().__init__(container, pod, valid)
        self.container = container
        self.pod = pod
        self.valid = valid

    def __str__(self) -> str:
        return f"container {self.container} is not valid for pod {self.pod}; it has: {', '.join(self.valid)}"


class VolumeUnusable(PodError):
    """A volume is not what the pod says it is, or cannot be made."""

    def __init__(self, volume: str, problem: str) -> None:
        super().__init__(volume, problem)
        self.volume = volume
        self.problem = problem

    def __str__(self) -> str:
        return f"MountVolume.SetUp failed for volume {quote(self.volume)} : {self.problem}"


class ContainerStartError(PodError):
    """A runtime cannot start a container.

    Attributes:
        reason: the reason that a kubelet shows: ``StartError`` or ``RunContainerError`` (the container has terminated,
            with code 128), or anything else, such as ``CreateContainerError`` (the pod waits, and it is tried again).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class SandboxFailed(PodError):
    """A runtime cannot make or remove the sandbox of a pod, as the text says; it is tried again."""


class InstanceNotFound(PodError):
    """A runtime has no container instance with this ID."""

    def __init__(self, container: str) -> None:
        super().__init__(container)
        self.container = container

    def __str__(self) -> str:
        return f"container {quote(self.container)}: not found"


class ExecFailed(PodError):
    """A command cannot be run in a container; a command that ran and failed is not an error."""

    def __init__(self, container: str, problem: str) -> None:
        super().__init__(container, problem)
        self.container = container
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot exec in container {self.container}: {self.problem}"


class AttachFailed(ExecFailed):
    """A client cannot be attached to a container."""

    def __str__(self) -> str:
        return f"cannot attach to container {self.container}: {self.problem}"


class PortUnreachable(PodError):
    """A port of a pod cannot be connected to, as the text says."""

    def __init__(self, port: int, problem: str) -> None:
        super().__init__(port, problem)
        self.port = port
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class InvalidBandwidth(PodError):
    """A pod's bandwidth annotation is not an amount that an engine would shape to."""

    def __init__(self, annotation: str, value: str, problem: str) -> None:
        super().__init__(annotation, value, problem)
        self.annotation = annotation
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"annotation {self.annotation}: {quote(self.value)} {self.problem}"


class InvalidAttachment(PodError):
    """An attachment to a network has a name or an argument that plugins must not get."""

    def __init__(self, what: str, value: str, problem: str) -> None:
        super().__init__(what, value, problem)
        self.what = what
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} {quote(self.value)} {self.problem}"
