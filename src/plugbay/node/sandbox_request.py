"""What a pod asks of its sandbox: pure."""

from __future__ import annotations

from typing import Final

from plugbay.model.pods import Pod
from plugbay.node.runtimes.sandboxes import Network, SandboxSpec

_SHARING: Final = ("hostPID", "hostIPC", "shareProcessNamespace")


def sandbox_spec(pod: Pod) -> SandboxSpec:
    """The sandbox of ``pod``; ports are those of its regular containers, as a kubelet passes them on."""
    return SandboxSpec(
        pod.uid,
        pod.namespace,
        pod.name,
        network=Network.HOST if pod.spec.host_network else Network.POD,
        annotations=pod.annotations,
        ports=tuple(port for container in pod.spec.containers for port in container.ports),
        runtime_class=pod.spec.runtime_class,
        shared=tuple(name for name in _SHARING if pod.unused.get(("spec", name))),
        labels=pod.labels,
        hostname=pod.spec.hostname,
        security=pod.spec.security,
        privileged=any(container.security.privileged for container in pod.spec.all_containers),
    )
