"""Limits of CPU and memory for a container's cgroup, as a kubelet computes them. Pure.

Source: kubelet 1.36 ``cm/helpers_linux.go``, ``kuberuntime_container_linux.go``, ``qos/policy.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from plugbay.model.pods import Container
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind, most_at_once
from plugbay.values import dataclass

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144
PERIOD_US: Final = 100_000
MIN_QUOTA_US: Final = 1000


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """A container's limits of CPU and memory, in the terms of cgroups.

    Attributes:
        cpu_shares: weight among the containers that want the CPU.
        cpu_quota_us: CPU time in each period of 100 ms; 0 means no limit.
        memory_bytes: 0 means no limit.
        memory_and_swap_bytes: 0 means no limit, or no accounting of swap.
    """

    cpu_shares: int = MIN_SHARES
    cpu_quota_us: int = 0
    memory_bytes: int = 0
    memory_and_swap_bytes: int = 0

    def without_swap(self) -> CgroupLimits:
        """The same limits, with swap included in the memory limit: by default a kubelet does not let pods swap."""
        return replace(self, memory_and_swap_bytes=self.memory_bytes)

    def linux_resources(self) -> dict[str, Any]:
        """The limits as the OCI runtime spec has them."""
        cpu: dict[str, int] = {"shares": self.cpu_shares}
        if self.cpu_quota_us:
            cpu |= {"quota": self.cpu_quota_us, "period": PERIOD_US}
        memory = {"limit": self.memory_bytes, "swap": self.memory_and_swap_bytes}
        given = {name: amount for name, amount in memory.items() if amount}
        return {"cpu": cpu, **({"memory": given} if given else {})}


DEFAULT_LIMITS: Final = CgroupLimits()


def cgroup_limits(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> CgroupLimits:
    """Compute the limits from a container's requests and limits of ``cpu`` and ``memory``."""
    request = requests["cpu"] if "cpu" in requests else limits.get("cpu")
    shares = MIN_SHARES
    if request is not None:
        shares = min(max(request.to_milli_ceil() * 1024 // 1000, MIN_SHARES), MAX_SHARES)
    quota = 0
    if "cpu" in limits and (milli := limits["cpu"].to_milli_ceil()) > 0:
        quota = max(milli * PERIOD_US // 1000, MIN_QUOTA_US)
    memory = limits["memory"].to_int_ceil() if "memory" in limits else 0
    return CgroupLimits(shares, quota, memory)


def memory_request(container: Container) -> int:
    """The memory that ``container`` requests, in bytes; 0 without a request."""
    return container.requests["memory"].to_int_ceil() if "memory" in container.requests else 0


def pod_limits(containers: Iterable[Container]) -> CgroupLimits:
    """Compute the limits of all ``containers`` of a pod, in admission order, at their most demanding moment.

    A container without a limit does not add to the sum.

    Source: kubelet 1.36 ``kuberuntime_sandbox_linux.go``, ``calculateSandboxResources``.
    """
    given = list(containers)
    requests = _together([(each.kind, each.requests) for each in given])
    return cgroup_limits(requests, _together([(each.kind, each.limits) for each in given]))


def _together(needs: Iterable[tuple[ContainerKind, Mapping[str, Quantity]]]) -> dict[str, Quantity]:
    cpu = [(kind, amounts["cpu"].to_milli_ceil()) for kind, amounts in needs if "cpu" in amounts]
    memory = [(kind, amounts["memory"].to_int_ceil()) for kind, amounts in needs if "memory" in amounts]
    return {
        **({"cpu": Quantity(Fraction(most_at_once(cpu), 1000))} if cpu else {}),
        **({"memory": Quantity(Fraction(most_at_once(memory)))} if memory else {}),
    }
