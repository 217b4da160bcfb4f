"""Files that are made for a pod's containers."""

from __future__ import annotations

from pathlib import Path

from plugbay.model.resolution import alias_lines
from plugbay.node.runtimes.cri.sandboxes import RunningSandbox
from plugbay.node.runtimes.hosts import hosts_text


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
