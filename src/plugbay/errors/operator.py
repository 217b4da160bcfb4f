"""Errors for the operator: a file, a path, a right, a flag or the machine is not as it must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import located, quote


class OperatorError(PlugbayError):
    """An operator must mend something outside the program: a file, a path, a right, a flag."""


class UsageError(OperatorError):
    """The command line asks for something that makes no sense; the text says which part."""


class NeedsRefused(OperatorError):
    """No pod may have, or can have, what plugins need; the text says what they need, and what is in the way."""


class PathTooLong(OperatorError):
    def __init__(self, path: str, limit: int) -> None:
        super().__init__(path, limit)
        self.path = path
        self.limit = limit

    def __str__(self) -> str:
        size = len(self.path.encode(errors="surrogateescape"))
        return f"socket path {self.path} has {size} bytes; unix sockets end at {self.limit}. Choose a shorter root"


class PathUnusable(OperatorError):
    """A file or directory is missing, of the wrong kind, or closed to us."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class RootInUse(OperatorError):
    def __init__(self, root: str, pid: int | None) -> None:
        super().__init__(root, pid)
        self.root = root
        self.pid = pid

    def __str__(self) -> str:
        by = f" (pid {self.pid})" if self.pid else ""
        return f"another plugbay node{by} is running on {self.root}"


class LockHeld(OperatorError):
    """Attributes: ``pid`` is the holder's as it wrote it, None when it is not known."""

    def __init__(self, path: str, pid: int | None) -> None:
        super().__init__(path, pid)
        self.path = path
        self.pid = pid

    def __str__(self) -> str:
        return f"{self.path} is locked by {f'process {self.pid}' if self.pid else 'another process'}"


class SocketInUse(OperatorError):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"another program is listening at {self.address}"


class KubeletIsLive(OperatorError):
    def __init__(self, socket_path: str) -> None:
        super().__init__(socket_path)
        self.socket_path = socket_path

    def __str__(self) -> str:
        return f"something answers at {self.socket_path}, probably a kubelet; plugbay never takes over a live node"


class InstanceUnreadable(OperatorError):
    """The state of a container instance cannot be found out now. It may run, so it counts as running."""

    def __init__(self, container: str, problem: str) -> None:
        super().__init__(container, problem)
        self.container = container
        self.problem = problem

    def __str__(self) -> str:
        return f"the state of container {quote(self.container)} is not known: {self.problem}"


class StoreUnusable(OperatorError):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"store {self.path}: {self.problem}"


class CorruptCheckpoint(OperatorError):
    """A device manager checkpoint that a kubelet would not load."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"checkpoint {self.source} is corrupted: {self.problem}"


class CheckpointNotOurs(OperatorError):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"checkpoint {self.path} was written by another program, probably a kubelet, since plugbay wrote it last; "
            "take it over with --on-foreign-checkpoint import, or move it away"
        )


class InvalidDocument(OperatorError):
    """A YAML or JSON text is broken.

    Attributes:
        field: a path such as ``devices[0].name``; empty for the text as a whole.
        line: 1-based line in ``source``.
        column: 1-based character of the line, if it is known; the sentence leaves it out.
    """

    def __init__(
        self,
        problem: str,
        field: str = "",
        line: int | None = None,
        source: str = "",
        column: int | None = None,
    ) -> None:
        super().__init__(problem, field, line, source, column)
        self.problem = problem
        self.field = field
        self.line = line
        self.source = source
        self.column = column

    def __str__(self) -> str:
        return located(self.problem, field=self.field, line=self.line, source=self.source or "document")


class GpusUnusable(OperatorError):
    """The driver, its GPUs or their MIG devices are not as the configuration wants them.

    Attributes:
        problem: in the words of NVIDIA's own plugin, where that refuses the same.
        step: the words that NVIDIA's plugin puts in front of the problem.
    """

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem, step)
        self.problem = problem
        self.step = step

    def __str__(self) -> str:
        return self.problem

    @property
    def reference_text(self) -> str:
        """The whole sentence that NVIDIA's plugin logs."""
        return f"{self.step}: {self.problem}" if self.step else self.problem


class ClusterUnusable(OperatorError):
    """The API of the cluster in which the process is a pod does not answer, or refuses; the text says what it takes."""


class InvalidCdiName(OperatorError):
    def __init__(self, what: str, text: str, problem: str) -> None:
        super().__init__(what, text, problem)
        self.what = what
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"invalid CDI {self.what} {quote(self.text)}: {self.problem}"


class InvalidCdiSpec(OperatorError):
    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source}: {self.problem}"


class UnresolvableCdiDevices(OperatorError):
    """No usable spec file defines these devices; then nothing is injected."""

    def __init__(self, names: Sequence[str], directories: Sequence[str] = ()) -> None:
        super().__init__(names, directories)
        self.names = tuple(names)
        self.directories = tuple(directories)

    def __str__(self) -> str:
        where = f" (looked in {', '.join(self.directories)})" if self.directories else ""
        return f"unresolvable CDI devices {', '.join(self.names)}{where}"


class CdiInjectionFailed(OperatorError):
    """The host lacks something that a spec names; the text says what."""


class EngineUnusable(OperatorError):
    """No OCI engine runs containers on this machine.

    Attributes:
        refusals: each engine that was tried, and why it is of no use.
    """

    def __init__(self, refusals: Mapping[str, str]) -> None:
        super().__init__(refusals)
        self.refusals = dict(refusals)

    def __str__(self) -> str:
        tried = "; ".join(f"{name}: {problem}" for name, problem in self.refusals.items())
        return f"no OCI engine runs containers here: {tried}"


class ContainerEngineUnusable(OperatorError):
    """No server at a socket speaks CRI."""

    def __init__(self, socket: str, problem: str) -> None:
        super().__init__(socket, problem)
        self.socket = socket
        self.problem = problem

    def __str__(self) -> str:
        return f"there is no usable container engine at {self.socket}: {self.problem}"


class UnusableTopology(OperatorError):
    """The topology manager cannot work as it was told to on this machine; the texts are the kubelet's.

    Source: kubelet 1.36 ``cm/topologymanager/topology_manager.go``, ``policy_options.go``.
    """


class NodeUnreachable(OperatorError):
    def __init__(self, socket_path: str, problem: str) -> None:
        super().__init__(socket_path, problem)
        self.socket_path = socket_path
        self.problem = problem

    def __str__(self) -> str:
        return f"no plugbay node answers at {self.socket_path} ({self.problem}); start one with: plugbay node up"


class InvalidNetworkConfig(OperatorError):
    """A CNI configuration cannot be used.

    Attributes:
        source: the file, or another name of its origin.
        line: 1-based, None when the problem has no place; ``column`` likewise.
    """

    def __init__(self, source: str, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(source, problem, line, column)
        self.source = source
        self.problem = problem
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        return f"{self.source}{place}: {self.problem}"


class NetworkNotFound(OperatorError):
    """There is no CNI configuration; ``name`` is empty if any network would have done."""

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(name, directory)
        self.name = name
        self.directory = directory

    def __str__(self) -> str:
        if self.name:
            return f"no CNI network named {quote(self.name)} in {self.directory}"
        return f"no CNI network in {self.directory}; put a .conflist file there"


class NetworkPluginMissing(OperatorError):
    """A CNI plugin's binary is in none of the directories."""

    def __init__(self, plugin: str, directories: Sequence[str]) -> None:
        super().__init__(plugin, directories)
        self.plugin = plugin
        self.directories = tuple(directories)

    def __str__(self) -> str:
        return f"failed to find plugin {quote(self.plugin)} in path [{' '.join(self.directories)}]"


class NamespaceUnusable(OperatorError):
    """A namespace cannot be made, entered or removed."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"namespace {self.path}: {self.problem}"


class NetworkBusy(OperatorError):
    """Another process is at work on the same container's networks, or collects a network's garbage."""

    def __init__(self, container: str) -> None:
        super().__init__(container)
        self.container = container

    def __str__(self) -> str:
        return f"another process is at work on the networks of container {quote(self.container)}"


class DriverUnusable(OperatorError):
    """The NVIDIA driver cannot be asked anything.

    Attributes:
        reason: one word, such as ``LibraryMissing``, ``DriverNotLoaded`` or ``DriverHung``.
        problem: a sentence, with what to do.
        code: NVML's return code; 0 when it gave none.
    """

    def __init__(self, reason: str, problem: str, code: int) -> None:
        super().__init__(reason, problem, code)
        self.reason = reason
        self.problem = problem
        self.code = code

    def __str__(self) -> str:
        return self.problem


class CompilerUnusable(OperatorError):
    """The fake NVML library cannot be compiled here.

    Attributes:
        problem: a missing compiler, or the words of one that failed.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"no C compiler works here ({self.problem}); on Debian, install gcc and libc6-dev"
