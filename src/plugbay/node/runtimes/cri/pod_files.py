"""Files of the host that a container is given: those of the pod's that must be there, and those made for it."""

from __future__ import annotations

from pathlib import Path

from plugbay.model.resolution import alias_lines
from plugbay.node.runtimes.cri.sandboxes import RunningSandbox
from plugbay.node.runtimes.devices import find_devices
from plugbay.node.runtimes.hosts import hosts_text
from plugbay.node.runtimes.mounts import check_mounts
from plugbay.node.runtimes.port import ContainerSpec


def check_paths(spec: ContainerSpec) -> None:
    """An engine would make a directory of a mount that is missing, and that would stay on the host.

    Raises:
        ContainerStartError: a mount or a device node is not there.
    """
    find_devices(spec.edits.device_nodes)
    check_mounts(spec)


def write_hosts(sandbox: RunningSandbox, directory: Path, *, host: str) -> str:
    """The path of the pod's ``/etc/hosts``, written anew as its addresses may be new; empty where the host's will do.

    Args:
        host: what the host's says.
    """
    aliases = sandbox.spec.host_aliases
    if not sandbox.ips and not aliases:
        return ""
    text = hosts_text(sandbox.ips, sandbox.config.hostname, aliases) if sandbox.ips else host + alias_lines(aliases)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "etc-hosts"
    path.write_text(text)
    path.chmod(0o644)
    return str(path)
