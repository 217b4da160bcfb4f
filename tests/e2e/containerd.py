"""A containerd of the tests' own, in namespaces of its own: networks and mounts vanish with them.

It is the one that the environment variable ``PLUGBAY_E2E_CONTAINERD`` names, else the installed one; programs that
belong to it, such as its shim, lie in the same directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from plugbay.errors import RpcFailed
from plugbay.wire.cri import CriClient
from tests.e2e.images import PAUSE, busybox, write_images

CNI: Final = Path("/usr/lib/cni")
READY_S: Final = 30
SUBNET: Final = "10.214.98.0/24"
SUBNET_6: Final = "fd00:10:214:98::/64"

BINARY: Final = os.environ.get("PLUGBAY_E2E_CONTAINERD") or "containerd"

_TOOLS: Final = (BINARY, "ctr", "runc", "unshare", "nsenter", "ip")
_PLUGINS: Final = ("bridge", "host-local", "portmap", "bandwidth", "loopback")
_CONFIG: Final = """
root = "{base}/root"
state = "{base}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
  "io.containerd.nri.v1.nri",
]
[grpc]
  address = "{base}/containerd.sock"
[ttrpc]
  address = "{base}/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{base}/opt"
"""
_VERSION_1: Final = """
version = 2
{general}
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  disable_apparmor = true
  enable_selinux = false
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
{cdi}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{base}/cni"
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        Root = "{base}/runc"
        SystemdCgroup = false
"""
_VERSION_2: Final = """
version = 3
{general}
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_selinux = false
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{base}/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{cni}"]
    conf_dir = "{base}/cni"
    max_conf_num = 1
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        Root = "{base}/runc"
        SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
"""
# What the daemon and the plugins keep in fixed places lies in memory and is gone with the namespace.
_SETTLE: Final = (
    "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && ip link set lo up && echo settled && exec cat"
)


@cache
def why_not() -> str:
    """Why no containerd can be had here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root"
    lacking = [each for each in _TOOLS if shutil.which(each) is None]
    lacking += [str(CNI / each) for each in _PLUGINS if not (CNI / each).is_file()]
    if busybox() is None:
        lacking.append("busybox (busybox-static)")
    if lacking:
        return f"needs {', '.join(lacking)}"
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"needs namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@cache
def version() -> tuple[int, int]:
    """Of the daemon, which is there."""
    told = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r" v?(\d+)\.(\d+)\.", told)
    assert found is not None, told
    return int(found[1]), int(found[2])


def knows_cdi() -> bool:
    return version() >= (1, 7)


class Containerd:
    """A daemon that can be killed and started again; see `containerd`."""

    def __init__(self, base: Path, holder: int) -> None:
        self.base = base
        self.socket = base / "containerd.sock"
        self.network = ("nsenter", "--target", str(holder), "--net")
        """Before a command line: runs it where the daemon listens on loopback."""
        self.enter = (*self.network, "--mount")
        self._holder = holder
        self._pid = 0

    def start(self) -> None:
        """Returns when it answers."""
        # Not our child: who looks for children that a test has left must not find it.
        path = f"PATH={Path(BINARY).parent}:$PATH " if "/" in BINARY else ""
        command = f"{path}{BINARY} --config {self.base}/config.toml >>{self.base}/log 2>&1 </dev/null & echo $!"
        self._pid = int(self.run("sh", "-c", command))
        asyncio.run(_until_ready(self.socket))

    def kill(self) -> None:
        """As the kernel would when memory runs out; what it runs goes on."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def run(self, *argv: str) -> str:
        """The output of a program beside the daemon, where its pods' host is."""
        done = subprocess.run([*self.enter, *argv], capture_output=True, text=True, check=False, timeout=READY_S)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def ctr(self, *argv: str) -> str:
        return self.run("ctr", "--address", str(self.socket), "--namespace", "k8s.io", *argv)

    def containers(self) -> list[str]:
        """All containers and sandboxes there are."""
        return self.ctr("containers", "list", "--quiet").split()

    def until_containers(self, count: int) -> None:
        """Returns when there are so many, or more; sandboxes count too."""
        self._until(lambda there: there >= count)

    def until_no_more_than(self, count: int) -> None:
        self._until(lambda there: there <= count)

    def leavings(self) -> list[str]:
        """What pods may not leave behind: links, rules, mounts, namespaces, addresses, and records of all kinds."""
        links = [line.split()[1] for line in self.run("ip", "-o", "link").splitlines()]
        rules = self.run("sh", "-c", "iptables-save -t nat; ip6tables-save -t nat").splitlines()
        ours = [SUBNET.rpartition(".")[0], SUBNET_6.rpartition("::")[0]]
        mounts = self.run("cat", "/proc/self/mountinfo").splitlines()
        remembered = self.run("sh", "-c", "find /var/lib/cni/results -type f 2>/dev/null || true").split()
        return [
            *(each for each in links if each.startswith(("veth", "bwp", "ifb"))),
            *(each for each in rules if each.startswith("-A CNI-DN-") or any(subnet in each for subnet in ours)),
            *(each for each in mounts if str(self.base) in each),
            *remembered,
            *(str(each) for each in (self.base / "addresses").glob("*/*[.:]*") if "last_reserved_ip" not in each.name),
            *map(str, (self.base / "state").glob("io.containerd.runtime.v2.task/k8s.io/*")),
        ]

    def until_nothing_runs(self) -> None:
        """Returns when there are no processes but the daemon: shims end by and by, and leave socket files at times."""
        deadline = time.monotonic() + READY_S
        while left := self._others():
            assert time.monotonic() < deadline, left
            time.sleep(0.02)

    def end_lost_shims(self) -> None:
        """Kill the shims that the daemon lost by itself: of sandboxes that it told nobody of, and that nobody stopped.

        containerd 1.6 hangs up on the shim of a sandbox whose client dies as it is made, or never hears of it, and
        forgets it: no list shows it, and it stays. It does so without a node that comes back, too. Shims of sandboxes
        that somebody knew, and those that outlive a stop, are left to be found.
        """
        log = (self.base / "log").read_text(errors="replace")
        for pid in _all_in(self._holder) - {self._pid}:
            shim = re.search(r"containerd-shim-\S+ .*-id (\w+)", _command_line(pid))
            if shim is None:
                continue
            before, _, _ = log.partition(f'msg="shim disconnected" id={shim[1]}')
            was_told = f'returns sandbox id \\"{shim[1]}' in log
            if not was_told and f'StopPodSandbox for \\"{shim[1]}' not in before:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _others(self) -> list[str]:
        """The command lines of what runs besides the daemon."""
        return [line for pid in _all_in(self._holder) - {self._pid} if (line := _command_line(pid))]

    def until_alone(self, container: str) -> None:
        """Returns when the container runs nothing but its first process."""
        deadline = time.monotonic() + READY_S
        while len(there := self.ctr("tasks", "ps", container).splitlines()[1:]) > 1:
            assert time.monotonic() < deadline, there
            time.sleep(0.02)

    def _until(self, holds: Callable[[int], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not holds(len(there := self.containers())):
            assert time.monotonic() < deadline, there
            time.sleep(0.02)  # an engine of this age tells nobody

    def _end(self, number: signal.Signals) -> None:
        if self._pid == 0:
            return
        with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(self._pid)) as process:
            os.kill(self._pid, number)
            assert select.select([process], [], [], READY_S)[0], "containerd does not end"
        self._pid = 0


@contextmanager
def containerd(base: Path) -> Iterator[Containerd]:
    """A daemon below ``base``, an empty directory with a short path, with all test images."""
    _write_settings(base)
    with _namespaces() as holder:
        daemon = Containerd(base, holder)
        try:
            daemon.start()
            for archive in write_images(base):
                daemon.ctr("images", "import", str(archive))
            yield daemon
        finally:
            daemon.stop()
            _kill_all_in(holder)


def _write_settings(base: Path) -> None:
    places = {"base": base, "pause": PAUSE, "cni": CNI, "runc": shutil.which("runc")}
    cdi = f'  enable_cdi = true\n  cdi_spec_dirs = ["{base}/cdi"]' if knows_cdi() else ""
    layout = _VERSION_2 if version() >= (2, 0) else _VERSION_1
    (base / "config.toml").write_text(layout.format(general=_CONFIG.format(**places), cdi=cdi, **places))
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": "e2e0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{base}/addresses",
            "ranges": [[{"subnet": SUBNET}], [{"subnet": SUBNET_6}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    bandwidth = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
    network = {"cniVersion": "1.0.0", "name": "e2e", "plugins": [bridge, portmap, bandwidth]}
    (base / "cni").mkdir()
    (base / "cni/10-e2e.conflist").write_text(json.dumps(network))


@contextmanager
def _namespaces() -> Iterator[int]:
    """The PID of a process that keeps them."""
    argv = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", _SETTLE]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"settled\n"
        try:
            yield holder.pid
        finally:
            holder.stdin.close()


def _kill_all_in(holder: int) -> None:
    """What a failed test has left; returns when it has ended."""
    for pid in _all_in(holder):
        with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as ending:
            os.kill(pid, signal.SIGKILL)
            select.select([ending], [], [], READY_S)


def _all_in(holder: int) -> set[int]:
    """The processes in the namespaces that ``holder`` keeps, and their children."""
    namespace = os.readlink(f"/proc/{holder}/ns/mnt")
    parents = {int(each.name): _parent(each) for each in Path("/proc").glob("[0-9]*")}
    found = {pid for pid in parents if pid != holder and _mount_namespace(pid) == namespace}
    # Containers have mount namespaces of their own, and are children of those in ours.
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _command_line(pid: int) -> str:
    """Empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _mount_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


async def _until_ready(socket: Path) -> None:
    client = CriClient(socket)
    deadline = time.monotonic() + READY_S
    try:
        await client.connect(READY_S)
        while True:
            try:
                if not (await client.status()).problems:
                    return
            except RpcFailed:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, "the engine is not ready"
            await asyncio.sleep(0.1)  # nothing tells when it is
    finally:
        await client.close()
