"""The network of one pod: loopback, the default CNI network, and the pod's addresses.

Used by the runtimes that make sandboxes themselves; CRI engines call CNI on their own.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.cni.addresses import Address
from plugbay.cni.chain import Attachment
from plugbay.cni.config import NetworkConfig, parse_list
from plugbay.cni.directory import load_default
from plugbay.cni.result import Interface, Ip, Result, container_addresses
from plugbay.cni.runtime import CniRuntime
from plugbay.errors import (
    InvalidNetworkConfig,
    InvalidNetworkResult,
    NamespaceUnusable,
    NetworkNotFound,
    NetworkPluginFailed,
    NetworkPluginMissing,
    PlugbayError,
)
from plugbay.kernel.links import LinkState, link_addresses, link_state, set_link_state
from plugbay.kernel.netns import in_netns
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

# As with containerd: the cached result is found under this name when the pod is removed.
LOOPBACK: Final = parse_list(
    b'{"cniVersion":"0.3.1","name":"cni-loopback","plugins":[{"type":"loopback"}],"loadOnlyInlinedPlugins":true}',
    source="the loopback network",
)
_LO: Final = "lo"
_NO_MAC: Final = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class PodAddresses:
    """The addresses that a pod got of its network.

    Attributes:
        ips: ``podIPs``, never empty: the first IPv4 address, else the first one, and then the others in their order.
    """

    ips: tuple[Address, ...]
    result: Result

    @property
    def ip(self) -> Address:
        """``podIP``."""
        return self.ips[0]


def pod_args(*, namespace: str, name: str, uid: str, container_id: str) -> tuple[tuple[str, str], ...]:
    """The words about a pod in ``CNI_ARGS``, as Kubernetes engines write them."""
    return (
        ("IgnoreUnknown", "1"),
        ("K8S_POD_NAMESPACE", namespace),
        ("K8S_POD_NAME", name),
        ("K8S_POD_INFRA_CONTAINER_ID", container_id),
        ("K8S_POD_UID", uid),
    )


class PodNetwork:
    """Puts pods on the network that the first file of a directory configures.

    Args:
        config_directory: read anew for each pod, as it may change.
    """

    def __init__(self, runtime: CniRuntime, config_directory: Path, *, proc_root: Path) -> None:
        self._runtime = runtime
        self._config_directory = config_directory
        self._proc_root = proc_root

    async def load(self) -> NetworkConfig:
        """The network that the next pod gets, for looking at what it can do before a sandbox is made.

        Raises:
            NetworkNotFound, InvalidNetworkConfig: there is none.
        """
        return await asyncio.to_thread(load_default, self._config_directory)

    async def add(self, pod: Attachment) -> PodAddresses:
        """Give a pod its loopback and its network; a failure leaves nothing behind, as far as plugins let us.

        Raises:
            NetworkNotFound, InvalidNetworkConfig: a network is not configured.
            NetworkPluginMissing, NetworkPluginFailed: a plugin is not there, or failed.
            InvalidNetworkResult: the pod has got no address.
            NamespaceUnusable: the pod's namespace cannot be entered.
        """
        network = await self.load()
        try:
            await add_loopback(self._runtime, pod, proc_root=self._proc_root)
            result = await self._runtime.attach(network, pod)
            ips = container_addresses(result, pod.ifname)
            if not ips:
                raise InvalidNetworkResult(f"network {network.name} gave {pod.ifname} no IP address")
            return PodAddresses(ips, result)
        except BaseException:
            await self._roll_back(pod)
            raise

    async def remove(self, pod: Attachment) -> None:
        """Take a pod off everything it is on; also when it was added by half, or never, or is gone.

        What was remembered is undone as it was then. When nothing was, today's network is asked to undo it.

        Raises:
            NetworkPluginMissing, NetworkPluginFailed: a plugin is not there any more, or failed; it can be tried again.
        """
        is_there = await asyncio.to_thread(Path(pod.netns).exists) if pod.netns else False
        netns = pod.netns if is_there else ""
        undone = await self._runtime.detach_cached(pod.container_id, netns=netns)
        if any(each.network != LOOPBACK.name for each in undone):
            return
        try:
            await self._runtime.detach(await self.load(), replace(pod, netns=netns))
        except (NetworkNotFound, InvalidNetworkConfig, NetworkPluginMissing) as error:
            # Neither could the pod have been added then; what was begun would have been remembered.
            logger.info("container %s was not on a network, so nothing is removed: %s", pod.container_id, error)

    async def _roll_back(self, pod: Attachment) -> None:
        try:
            await self._runtime.detach_cached(pod.container_id)
        except PlugbayError as error:
            logger.warning(
                "the network of container %s is left half-made; the removal of its pod tries again: %s",
                pod.container_id,
                error,
            )


async def add_loopback(runtime: CniRuntime, pod: Attachment, *, proc_root: Path) -> Result:
    """Bring up a pod's loopback, with the official plugin when it is installed.

    Raises:
        NetworkPluginFailed, NamespaceUnusable: it cannot be done.
    """
    try:
        return await runtime.attach(LOOPBACK, Attachment(pod.container_id, pod.netns, _LO))
    except NetworkPluginMissing:  # nothing was done
        return await asyncio.to_thread(bring_up_loopback, Path(pod.netns), proc_root=proc_root)


async def remove_loopback(runtime: CniRuntime, pod: Attachment) -> None:
    """Undo `add_loopback`. The loopback that we set up ourselves ends with its namespace."""
    try:
        await runtime.detach(LOOPBACK, Attachment(pod.container_id, pod.netns, _LO))
    except (NetworkPluginMissing, NetworkPluginFailed) as error:
        logger.info("container %s: %s", pod.container_id, error)


def bring_up_loopback(netns: Path, *, proc_root: Path) -> Result:
    """Do the work of the official loopback plugin, for machines that lack it. Blocks for a moment.

    Raises:
        NamespaceUnusable: it cannot be entered, or its ``lo`` has an address of something else.

    Source: containernetworking plugins 1.9 ``plugins/main/loopback``.
    """

    def bring_up() -> tuple[Ip, ...]:
        if link_state(_LO) is LinkState.DOWN:
            set_link_state(_LO, LinkState.UP)
        found = link_addresses(_LO, proc_root=proc_root)
        foreign = [each for each in found if not each.ip.is_loopback]
        if foreign:
            raise NamespaceUnusable(str(netns), f"loopback interface has an address that is not loopback: {foreign[0]}")
        firsts = {each.version: each for each in reversed(found)}
        return tuple(Ip(firsts[version], interface=0) for version in sorted(firsts))

    try:
        ips = in_netns(netns, bring_up)
    except OSError as error:
        raise NamespaceUnusable(str(netns), f"cannot bring {_LO} up: {error.strerror}") from error
    return Result(LOOPBACK.version, (Interface(_LO, _NO_MAC, sandbox=str(netns)),), ips)
