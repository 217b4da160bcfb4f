"""``node enclose``: plugins with the stock kubelet's path compiled in, against a node of ours."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from plugbay.cli.arguments.starting import is_node_up
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.kubelet_machine import WITH_KUBELET, needs_kubelet_machine, on_kubelet_machine

NOBODY: Final = 65534
AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
COMPILED_IN: Final = """
from plugbay import Device, plugin, run

@plugin("example.com/compiled-in")
def devices():
    yield Device("a", env={"IT": "a"})

run(devices, argv=["--root", "/var/lib/kubelet"])
"""


def user_namespaces() -> bool:
    """Whether a user without rights may make them."""
    if os.geteuid() != 0:
        return (
            subprocess.run(["unshare", "--user", "--mount", "true"], capture_output=True, check=False).returncode == 0
        )
    return shutil.which("setpriv") is not None and (
        subprocess.run([*AS_NOBODY, "unshare", "-Um", "true"], capture_output=True, check=False).returncode == 0
    )


NEEDS_ROOT: Final = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NEEDS_NO_ROOT: Final = pytest.mark.skipif(os.geteuid() == 0, reason="is another case")
NEEDS_NAMESPACES: Final = pytest.mark.skipif(not user_namespaces(), reason="needs user namespaces")
WITHOUT_RIGHTS: Final = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
"""What runs a command as root that may not mount, as in many containers."""
WHO: Final = {
    "root": pytest.param((), marks=NEEDS_ROOT, id="root"),
    "without rights": pytest.param(WITHOUT_RIGHTS, marks=[NEEDS_ROOT, NEEDS_NAMESPACES], id="root-without-rights"),
    "nobody": pytest.param(AS_NOBODY, marks=[NEEDS_ROOT, NEEDS_NAMESPACES], id="nobody"),
    "self": pytest.param((), marks=[NEEDS_NO_ROOT, NEEDS_NAMESPACES], id="self"),
}
by_everybody: Final = pytest.mark.parametrize("user", WHO.values())
by_those_who_have_python: Final = pytest.mark.parametrize("user", [WHO["root"], WHO["without rights"], WHO["self"]])
"""It may lie in a home directory."""


def command(plugbay: Plugbay, *argv: str) -> tuple[str, ...]:
    return sys.executable, "-m", "plugbay", "--root", str(plugbay.root), *argv


def be_the_root_of(root: Path, user: tuple[str, ...]) -> None:
    """What a user's node makes."""
    (root / "device-plugins").mkdir()
    if user is AS_NOBODY:
        os.chown(root, NOBODY, NOBODY)


def traces() -> tuple[bool, list[str]]:
    """What an enclosed program might leave on the machine; others mount elsewhere meanwhile."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return Path("/var/lib/kubelet").exists(), [line for line in mounts if line.split()[4].startswith("/var/lib")]


@asynccontextmanager
async def running(*argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.communicate(), DEADLINE_S)


async def enclosed(plugbay: Plugbay, user: tuple[str, ...], *argv: str) -> tuple[int | None, str]:
    async with running(*user, *command(plugbay, "node", "enclose", "--", *argv)) as process:
        out, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode, out.decode()


@by_those_who_have_python
async def test_plugin_with_a_compiled_in_path_serves_our_node(plugbay: Plugbay, user: tuple[str, ...]) -> None:
    """Be there a /var/lib/kubelet on the machine or not."""
    before = traces()
    file = plugbay.root / "compiled_in.py"
    file.write_text(COMPILED_IN)
    async with running(*user, *command(plugbay, "node", "up", "--name", "n1", "--runtime", "process")) as node:
        await plugbay.line_with(node, "SIGTERM or Ctrl-C stops")
        argv = command(plugbay, "node", "enclose", "--", sys.executable, str(file))
        async with running(*user, *argv) as plugin:
            await plugbay.line_with(plugin, "example.com/compiled-in: registered with the kubelet at /var/lib/kubelet")
            done = await plugbay("pod", "run", "it", "--resource", "example.com/compiled-in=1", "--", "sleep", "1000")
            assert done.code == 0, done
            await plugbay.until_running("it")
            assert "\nIT=a\n" in (await plugbay("pod", "exec", "it", "--", "env")).out
            await plugbay("pod", "delete", "it", "--force")
            plugin.terminate()
            await asyncio.wait_for(plugin.communicate(), DEADLINE_S)
            assert plugin.returncode == 0
    assert traces() == before


@by_everybody
async def test_program_sees_all_but_the_kubelets_directory_as_it_is(plugbay: Plugbay, user: tuple[str, ...]) -> None:
    be_the_root_of(plugbay.root, user)
    others = sorted(entry.name for entry in Path("/var/lib").iterdir() if entry.name != "kubelet")
    script = 'id -u; id -g; ls -A /var/lib/kubelet; echo; ls -A /var/lib; stat -c %i /var/lib/dpkg; grep -i capeff "$0"'
    code, out = await enclosed(plugbay, user, "sh", "-c", script, "/proc/self/status")
    uid, gid, *_ = out.splitlines()
    seen, _, rest = out.partition("\n\n")
    assert code == 0, out
    assert (uid, gid) == ((str(NOBODY),) * 2 if user is AS_NOBODY else (str(os.geteuid()), str(os.getegid())))
    assert seen.splitlines()[2:] == ["device-plugins"]
    assert sorted(each for each in rest.splitlines()[: len(others) + 1] if each != "kubelet") == others
    assert str(os.stat("/var/lib/dpkg").st_ino) in rest.splitlines()
    if user is AS_NOBODY:
        assert rest.splitlines()[-1].split()[-1].strip("0") == "", "no more rights than the user has"


@by_everybody
async def test_exit_code_and_signals_are_the_programs(plugbay: Plugbay, user: tuple[str, ...]) -> None:
    be_the_root_of(plugbay.root, user)
    assert await enclosed(plugbay, user, "sh", "-c", "exit 7") == (7, "")
    assert await enclosed(plugbay, user, "/no/such") == (127, "plugbay: error: /no/such: No such file or directory\n")
    assert (await enclosed(plugbay, user, "/etc/passwd"))[0] == 126
    async with running(*user, *command(plugbay, "node", "enclose", "--", "sh", "-c", "echo up; exec sleep 1000")) as it:
        await plugbay.line_with(it, "up")
        it.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(it.wait(), DEADLINE_S) == -signal.SIGTERM


async def test_without_a_node_or_a_program_it_says_so(plugbay: Plugbay) -> None:
    code, said = await enclosed(plugbay, (), "true")
    assert (code, said.startswith(f"plugbay: error: no plugbay node answers at {plugbay.root}")) == (1, True)
    assert not is_node_up(plugbay.root)
    done = await plugbay("node", "enclose")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "plugbay: error: say what to run after --, such as: plugbay node enclose -- ./my-plugin",
    )


@needs_kubelet_machine
async def test_a_live_kubelet_is_out_of_its_sight() -> None:
    done = await on_kubelet_machine(
        WITH_KUBELET
        + "plugbay node up --runtime process > /tmp/node &\nuntil grep -q SIGTERM /tmp/node; do sleep 0.05; done\n"
        + f"cat > /tmp/it.py <<'END'\n{COMPILED_IN}END\n"
        + 'plugbay node enclose -- "$PYTHON" /tmp/it.py 2> /tmp/plugin &\n'
        + "until grep -q ': registered' /tmp/plugin; do sleep 0.05; done\n"
        + "cat /tmp/kubelet; plugbay node devices -o name 2>/dev/null || plugbay node get -o yaml"
    )
    kubelet, *node = done.out.splitlines()
    assert kubelet == "kubelet is up", "and no plugin registered"
    assert any("example.com/compiled-in" in line for line in node), done
