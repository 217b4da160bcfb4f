"""What real containers can reach of the host through their root file system: no socket, and nothing that is secret."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.runtimes.oci.rootfs import HostView
from plugbay.runtimes.port import ContainerSpec
from tests.container_specs import changed
from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import Places, output_of, places, run, runtime_on, spec, why_not

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PYTHON = str(Path(sys.executable).resolve())
"""In a container too, wherever the virtual environment lies."""
PLACES_OF_SOCKETS = ("/run", "/var/lib", "/home", "/root", "/srv", "/tmp", "/opt", "/usr/local/share", "/etc/xdg")
CONNECT = """
import json, os, socket, sys
found = {}
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        found[path] = "connected"
    except OSError as error:
        found[path] = error.strerror
print(json.dumps(found))
"""
ASK = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect("/control")
try:
    client.sendall(b"GET /api/v1/nodes HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    print(client.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""


@pytest.fixture
def listening() -> Iterator[list[str]]:
    """Sockets that every user may connect to, all over the host; those there already are not touched."""
    with ExitStack() as stack:
        paths = []
        for place in filter(os.path.isdir, PLACES_OF_SOCKETS):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pb-test-", dir=place)))
            directory.chmod(0o755)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(directory / "s"))
            (directory / "s").chmod(0o777)
            listener.listen()
            paths.append(str(directory / "s"))
        yield paths


def with_python(places: Places) -> None:
    prefix = Path(sys.base_prefix)
    places.view = replace(places.view, programs=(prefix / "bin", prefix / "lib"))


async def test_no_socket_of_the_host_can_be_connected_to(
    places: Places, spec: ContainerSpec, listening: list[str]
) -> None:
    with_python(places)
    async with runtime_on(places) as runtime:
        state = await runtime.start(changed(spec, argv=("sleep", "600")))
        with socket.socket(socket.AF_UNIX) as later:
            shown = next(each for each in listening if each.startswith(("/opt", "/usr")))
            later_path = str(Path(shown).with_name("later"))
            later.bind(later_path)
            Path(later_path).chmod(0o777)
            later.listen()
            found = json.loads((await run(runtime, state.id, PYTHON, "-c", CONNECT, *listening, later_path))[0])
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(later_path)
    assert set(found.values()) <= {"No such file or directory", "Connection refused"}, found
    assert found[later_path] == "Connection refused", "it is seen, and leads nowhere"


async def test_no_socket_is_reached_through_the_whole_host_either(
    places: Places, spec: ContainerSpec, listening: list[str]
) -> None:
    """With ``--oci-rootfs /``; the root of a node, and a kubelet's, are empty there."""
    hidden = Path(next(each for each in listening if each.startswith("/var/lib"))).parent
    places.view = HostView(Path("/"), hidden=(hidden,), layer=places.view.layer)
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        found = json.loads((await run(runtime, state.id, PYTHON, "-c", CONNECT, *listening))[0])
        assert (await run(runtime, state.id, "ls", "-A", str(hidden)))[0] == ""
    assert set(found.values()) <= {"No such file or directory", "Connection refused"}, found


async def test_secrets_of_the_host_are_not_there(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    script = "cat /etc/shadow /etc/gshadow /etc/sudoers; ls -A /root /home /srv /mnt /var/lib /var/log; id -un; true"
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, changed(spec, argv=("sh", "-c", script)))
    said = [line for line in text.splitlines() if "No such file" not in line and not line.endswith(":") and line]
    assert said == ["root"]


async def test_programs_find_their_libraries_names_and_certificates(places: Places, spec: ContainerSpec) -> None:
    with_python(places)
    script = f"ls / /var/tmp/ >/dev/null && getent passwd root && {PYTHON} -c 'import ssl; print(ssl.OPENSSL_VERSION)'"
    async with runtime_on(places) as runtime:
        lines = (await output_of(runtime, changed(spec, argv=("sh", "-c", script)))).splitlines()
    assert lines[0].startswith("root:x:0:0")
    assert "SSL" in lines[1]


@pytest.mark.timeout(120)
async def test_container_that_was_given_the_control_socket_is_refused(plugbay: Plugbay) -> None:
    async with plugbay.node_up("--runtime", "oci"):
        volumes = [{"name": "v", "hostPath": {"path": f"{plugbay.root}/plugbay.sock"}}]
        container = {
            "name": "main",
            "command": [PYTHON, "-c", ASK],
            "volumeMounts": [{"name": "v", "mountPath": "/control"}],
        }
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert (await plugbay("pod", "run", "-f", "-", given=json.dumps(pod))).code == 0
        assert (await plugbay("pod", "wait", "--for=jsonpath={.status.phase}=Succeeded", "p")).code == 0
        done = await plugbay("pod", "logs", "p")
        assert done.out == "b''\n", done
        assert (await plugbay("node", "get")).code == 0
