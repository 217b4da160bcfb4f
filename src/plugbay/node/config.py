"""The settings of a node, and the places where it keeps things."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import DEFAULT_LIMITS, ForeignCheckpoint, ReleaseLimits
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates
from plugbay.model.nodes import NO_INPUT, NodeInput
from plugbay.ops.listening import Address, TcpAddress
from plugbay.pods.devices import DeviceFailure
from plugbay.pods.node import MAX_PODS
from plugbay.runtimes.logs.files import DEFAULT_LOGS, LogLimits
from plugbay.runtimes.mounts import MissingMount
from plugbay.topology.settings import DEFAULT_SETTINGS, TopologySettings
from plugbay.traffic.file import RecordingSettings
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class OciConfig:
    """Settings for containers of the oci runtime.

    Attributes:
        engine: name or path of the engine; None is the first of crun and runc that works.
        rootfs: the directory that root file systems are made of; None is a choice of the host's system directories.
        cdi_directories: of CDI spec files, weakest first.
        cni_configuration: directory of network configurations; None puts all pods on the host's network.
        cni_binaries: directories of network plugins.
    """

    engine: str | None
    rootfs: Path | None
    cdi_directories: tuple[Path, ...]
    cni_configuration: Path | None
    cni_binaries: tuple[Path, ...]


class KubeletEngine(Enum):
    """The answer to a container engine that a kubelet has already."""

    REFUSE = "refuse"
    """The node does not start: the kubelet would end the node's pods within seconds."""
    USE = "use"


@dataclass(frozen=True, slots=True)
class CriConfig:
    """The choice of a container engine.

    Attributes:
        socket: where it answers; None is the first of the usual places where a socket is.
        cdi_directories: of CDI spec files, weakest first, for an engine that does not know CDI.
        on_kubelet: what to do if a kubelet has it.
    """

    socket: Path | None
    cdi_directories: tuple[Path, ...]
    on_kubelet: KubeletEngine = KubeletEngine.REFUSE


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings of a node, fixed when it starts.

    Attributes:
        root: everything the node keeps and serves lies below it. Absolute; unix sockets below it must not pass 107
            bytes.
        name: the node's name in the API; None is the host name, as for a kubelet.
        call_timeout_s: deadline of calls to plugins; see `plugbay.manager.config.ManagerConfig`.
        dial_timeout_s, pre_start_timeout_s: of dialling a plugin and of PreStartContainer; as a kubelet's.
        grace_period_s: how long the devices of a plugin that went away still count; a kubelet's is 5 minutes.
        plugins_group: the number of a group whose members may serve devices; None is the node's user alone, and root.
        on_foreign_checkpoint: what to do about a checkpoint file below ``root`` that a kubelet wrote.
        on_device_failure: what becomes of a running pod when one of its devices turns unhealthy.
        on_missing_mount: what to do about a mount whose host path does not exist.
        max_pods: so many pods the node takes at a time; a kubelet's default is 110.
        registers_with: the labels and taints that the node has from its first start on.
        manifests: directory of manifests whose pods the node keeps running, whatever the API says; it need not exist.
            With None, the pods that manifests made before are ended.
        gates: feature gates; the defaults are those of kubelet 1.36.
        release: limits of PostStopContainer and Deallocate, where the gate ``DeviceManagerDeallocate`` is on.
        topology: settings of the topology manager; a kubelet's default is the policy ``none``.
        fake_numa_nodes: so many NUMA nodes the node pretends to have, for trying policies and plugins; None is for
            the machine's own.
        metrics: where metrics, probes and status are answered; None is nowhere.
        api: where the API is answered over TCP too, with TLS and a token; None is nowhere.
        ui: where the page for browsers is served; None is nowhere.
        ui_names: names of hosts under which a browser may ask for it, besides addresses and ``localhost``.
        oci: how the oci runtime confines containers, if it is the one.
        logs: what the logs of a container may take; a kubelet's default is 5 files of 10 MiB each.
        cri: the engine of the cri runtime, if it is the one; without both, containers are plain processes.
        record: the file that keeps what plugins and the node say to each other; None is none.
    """

    root: Path
    name: str | None = None
    call_timeout_s: float = 60.0
    dial_timeout_s: float = 10.0
    pre_start_timeout_s: float = 30.0
    grace_period_s: float = 300.0
    plugins_group: int | None = None
    on_foreign_checkpoint: ForeignCheckpoint = ForeignCheckpoint.IMPORT
    on_device_failure: DeviceFailure = DeviceFailure.KEEP
    on_missing_mount: MissingMount = MissingMount.MAKE
    max_pods: int = MAX_PODS
    registers_with: NodeInput = NO_INPUT
    manifests: Path | None = None
    gates: FeatureGates = DEFAULT_GATES
    release: ReleaseLimits = DEFAULT_LIMITS
    topology: TopologySettings = DEFAULT_SETTINGS
    fake_numa_nodes: int | None = None
    metrics: Address | None = None
    api: TcpAddress | None = None
    ui: TcpAddress | None = None
    ui_names: tuple[str, ...] = ()
    logs: LogLimits = DEFAULT_LOGS
    oci: OciConfig | None = None
    cri: CriConfig | None = None
    record: RecordingSettings | None = None

    @property
    def real_root(self) -> Path:
        """The root without links and ``..``. What processes and engines keep of a path begins with this, and cgroups,
        sandboxes and the node's UID are named after it: a node that is started again by another path to its root has
        the same pods. Sockets lie below `root`, since a link may be what makes their paths short enough.
        """
        return self.root.resolve()

    @property
    def kubelet_paths(self) -> KubeletPaths:
        return KubeletPaths(self.root)

    @property
    def control_socket(self) -> Path:
        return control_socket(self.root)

    @property
    def api_keys(self) -> Path:
        """The directory of the API's certificate and token."""
        return self.root / "api"

    @property
    def kubeconfig(self) -> Path:
        return kubeconfig_path(self.root)

    @property
    def lock(self) -> Path:
        return self.root / "plugbay.lock"

    @property
    def manager_store(self) -> Path:
        return self.root / "state" / "devices.db"

    @property
    def pod_store(self) -> Path:
        return self.root / "state" / "pods.db"

    @property
    def containers(self) -> Path:
        return self.real_root / "containers"

    @property
    def oci_dir(self) -> Path:
        """All of the oci runtime: containers, sandboxes, and what engine and network plugins keep."""
        return self.real_root / "oci"

    @property
    def pod_logs(self) -> Path:
        """The logs of the cri runtime, laid out as by a kubelet."""
        return self.real_root / "logs" / "pods"

    @property
    def pods(self) -> Path:
        return self.real_root / "pods"


def control_socket(root: Path) -> Path:
    """The path of the socket at which the node on ``root`` answers."""
    return root / "plugbay.sock"


def kubeconfig_path(root: Path) -> Path:
    """The path of the kubeconfig that the node on ``root`` writes, if it serves its API over TCP."""
    return root / "kubeconfig"
