"""True kubectls: streams of one from before 1.31, which speaks SPDY, and of the installed one; checks of the old one.

The old one is Debian's package ``kubernetes-client``, which is fetched for the tests when another one is installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract.rigs.node_run import DEADLINE_S
from tests.contract.rigs.spdy_client import ApiNode, api_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

WEBSOCKETS_SINCE = (1, 31)
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
SERVER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        client, _ = server.accept()
        with client:
            received = 0
            while chunk := client.recv(65536):
                received += len(chunk)
            client.sendall(b"%d" % received)
"""


class Kubectl(NamedTuple):
    program: str
    environ: dict[str, str]

    def argv(self, api: ApiNode, *argv: str) -> list[str]:
        return [self.program, "--kubeconfig", str(api.node.config.kubeconfig), *argv]

    async def __call__(self, api: ApiNode, *argv: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
        """The exit code and what was printed."""
        async with self.start(api, *argv) as process, asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate(given)
            return process.returncode or 0, out, err

    @asynccontextmanager
    async def start(self, api: ApiNode, *argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.argv(api, *argv), stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **self.environ}
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()


def version_of(program: str) -> tuple[int, int]:
    printed = subprocess.run([program, "version", "--client", "-o", "json"], capture_output=True, check=True)
    version = json.loads(printed.stdout)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


@pytest.fixture(scope="session")
def installed() -> str:
    if (program := shutil.which("kubectl")) is None:
        pytest.skip("kubectl is not installed")
    return program


@pytest.fixture(scope="session")
def before_websockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A kubectl from before 1.31: the installed one, or else that of Debian's package."""
    program = shutil.which("kubectl")
    if program is not None and version_of(program) < WEBSOCKETS_SINCE:
        yield program
        return
    directory = tmp_path_factory.mktemp("kubectl")
    try:
        subprocess.run(["apt-get", "download", "-q", "kubernetes-client"], cwd=directory, check=True, timeout=120)
        (package,) = directory.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
        program = str(directory / "usr/bin/kubectl")
        version = version_of(program)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        pytest.skip(f"Debian's package kubernetes-client cannot be fetched: {error}")
    if version >= WEBSOCKETS_SINCE:
        pytest.skip(f"Debian's kubectl is {version}, which speaks WebSocket")
    yield program
    shutil.rmtree(directory)


@pytest.fixture(params=["old", "spdy", "websocket"])
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    if request.param == "old":
        return Kubectl(request.getfixturevalue("before_websockets"), {})
    return Kubectl(request.getfixturevalue("installed"), SPDY if request.param == "spdy" else {})


@pytest.fixture
async def api(sockets: Path) -> AsyncIterator[ApiNode]:
    async with api_node(sockets) as api:
        yield api


async def test_exec_has_output_input_and_an_exit_code(api: ApiNode, kubectl: Kubectl) -> None:
    code, out, err = await kubectl(api, "exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (code, out) == (7, b"out\n")
    assert err.endswith(b"err\ncommand terminated with exit code 7\n")
    sent = bytes(range(256)) * 20_000
    assert await kubectl(api, "exec", "-i", "p", "--", "cat", given=sent) == (0, sent, b"")
    code, _, err = await kubectl(api, "exec", "p", "--", "no-such-program")
    assert code == 1
    assert b"no-such-program" in err


async def test_run_attaches_and_ends_as_its_container_does(api: ApiNode, kubectl: Kubectl) -> None:
    """Standard error is kubectl's own words only, which differ by version."""
    options = ("-i", "--rm", "--restart=Never", "--image=none", "--command", "--")
    code, out, _ = await kubectl(api, "run", "shell", *options, "sh", given=b"echo in-$((1+1)); exit 4")
    assert (code, out.splitlines()[0]) == (4, b"in-2")
    code, out, _ = await kubectl(api, "run", "cat", *options, "cat", given=b"hello\n")
    assert (code, out.splitlines()[0]) == (0, b"hello")


async def test_exec_on_a_terminal_has_its_size(api: ApiNode, kubectl: Kubectl) -> None:
    """``script`` gives kubectl a terminal; kubectl tells its size when the command runs already."""
    if shutil.which("script") is None:
        pytest.skip("script, of util-linux, is not installed")
    sized = 'while [ "$(stty size)" = "0 0" ]; do sleep 0.05; done; stty size; exit 3'
    inner = shlex.join(kubectl.argv(api, "exec", "-it", "p", "--", "sh", "-c", sized))
    process = await asyncio.create_subprocess_exec(
        "script",
        "-qec",
        f"stty rows 37 cols 91; {inner}",
        "/dev/null",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **kubectl.environ},
    )
    async with asyncio.timeout(DEADLINE_S):
        assert process.stdin is not None
        assert process.stdout is not None
        printed = await process.stdout.read()
        process.stdin.close()
        assert await process.wait() == 3
    assert b"37 91" in printed


async def test_files_are_copied_both_ways(api: ApiNode, kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(os.urandom(3_000_000))
    for source, target in (
        (str(tmp_path / "from"), f"p:{tmp_path / 'there'}"),
        (f"p:{tmp_path / 'there'}", str(tmp_path / "back")),
    ):
        code, _, err = await kubectl(api, "cp", source, target)
        assert code == 0, err
    assert (tmp_path / "back").read_bytes() == (tmp_path / "from").read_bytes()


async def test_ports_are_forwarded_and_one_that_is_closed_is_told(api: ApiNode, kubectl: Kubectl) -> None:
    async with (
        kubectl.start(api, "exec", "p", "--", "python3", "-c", SERVER) as server,
        asyncio.timeout(DEADLINE_S),
    ):
        assert server.stdout is not None
        port = int(await server.stdout.readline())
        async with kubectl.start(api, "port-forward", "pod/p", f":{port}", ":1") as forwarding:
            open_port, closed = await local_ports(forwarding, {port, 1})
            counts = await asyncio.gather(*(sent_and_answered(open_port, 1_000_000) for _ in range(10)))
            assert counts == [b"1000000"] * 10
            assert await sent_and_answered(closed, 1) == b""
            assert forwarding.stderr is not None
            said = await forwarding.stderr.readline()
            assert b"error forwarding port 1 to pod p" in said
            assert b"connection refused" in said


async def local_ports(forwarding: asyncio.subprocess.Process, ports: set[int]) -> list[int]:
    """The ports at which kubectl listens on IPv4, the larger remote one first."""
    found: dict[int, int] = {}
    assert forwarding.stdout is not None
    while found.keys() != ports:
        line = (await forwarding.stdout.readline()).decode()
        assert line, "kubectl has ended"
        if match := re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> (\d+)", line):
            found[int(match[2])] = int(match[1])
    return [found[port] for port in sorted(found, reverse=True)]


async def sent_and_answered(port: int, count: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"x" * count)
        writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_logs_are_read(api: ApiNode, kubectl: Kubectl) -> None:
    assert await kubectl(api, "logs", "p") == (0, b"", b"")


async def test_the_old_one_checks_and_explains_by_openapi_v2(api: ApiNode, before_websockets: str) -> None:
    kubectl = Kubectl(before_websockets, {})
    if version_of(before_websockets) >= (1, 27):
        pytest.skip("this kubectl reads OpenAPI v3")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    for answer in (b"created", b"unchanged", b"unchanged (server dry run)"):
        rehearsal = ["--dry-run=server"] if b"dry run" in answer else []
        code, out, err = await kubectl(api, "apply", "-f", "-", *rehearsal, given=json.dumps(manifest).encode())
        assert (code, out) == (0, b"configmap/a " + answer + b"\n"), err
    code, _, err = await kubectl(api, "create", "-f", "-", given=json.dumps(manifest | {"dta": {}}).encode())
    assert code == 1
    assert b'unknown field "dta"' in err
    _, out, _ = await kubectl(api, "explain", "deployments.spec.replicas")
    assert b"FIELD:    replicas <integer>" in out
