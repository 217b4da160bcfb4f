"""The process runtime of a node."""

from __future__ import annotations

from collections.abc import Mapping

from plugbay.node.config import NodeConfig
from plugbay.node.runtimes.chosen import ChosenRuntime, oci_containers, refuse_foreign
from plugbay.ops.clock import Clock
from plugbay.runtimes.pod_ports import LoopbackPorts
from plugbay.runtimes.process.unconfined import process_runtime
from plugbay.runtimes.sandboxes import HostSandboxes


def open_process(config: NodeConfig, *, environ: Mapping[str, str], clock: Clock) -> ChosenRuntime:
    """The runtime of a node whose containers are plain processes.

    Raises:
        PathUnusable: the node's pods have another runtime.
    """
    refuse_foreign(config.pod_logs, runtime="cri")
    refuse_foreign(oci_containers(config), runtime="oci")
    runtime = process_runtime(config.containers, environ=environ, clock=clock.now, logs=config.logs)
    return ChosenRuntime(runtime, HostSandboxes(), LoopbackPorts(), "the node itself, as plain processes")
