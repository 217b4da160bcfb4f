"""A cluster's API on a real port with TLS: enough of it to read and write objects as a pod does."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from plugbay.ops.cluster import ClusterApi

TOKEN = "secret"
EXTENSIONS = """\
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1
authorityKeyIdentifier = keyid
"""


@dataclass(slots=True)
class FakeCluster:
    """The rig.

    Attributes:
        objects: by their paths; an object that is put has to have the version of the one that is there.
        refusals: statuses of the next answers to requests that write.
        forbidden: the beginnings of paths that the account may not use.
        requests: the method and path of each.
    """

    url: str = ""
    account: Path = Path()
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    forbidden: tuple[str, ...] = ()
    requests: list[tuple[str, str]] = field(default_factory=list)
    version: int = 0

    @property
    def api(self) -> ClusterApi:
        return ClusterApi(self.url, self.account)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.requests.append((method, path))
        if path.startswith(self.forbidden or ("-",)):
            return 403, {"message": f"{path} is forbidden"}
        if method != "GET" and self.refusals:
            return self.refusals.pop(0), {"message": "refused"}
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        known = self.objects.get(path)
        if known is None and method != "POST":
            return 404, {"message": "not found"}
        if method == "GET":
            return 200, known
        if known is not None and body["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version), "uid": "u"}
        self.objects[path] = body
        return 201 if method == "POST" else 200, body


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ``ca.crt`` and ``server.pem``, of this run only."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed to make certificates with")
    directory = tmp_path_factory.mktemp("tls")
    (directory / "extensions").write_text(EXTENSIONS)
    new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config extensions"
    for words in (
        f"{new} -x509 -subj /CN=ca -keyout ca.key -out ca.crt -days 2 -extensions ca",
        f"{new} -subj /CN=server -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions "
        "-extensions server -out server.crt",
    ):
        subprocess.run((openssl, *words.split()), cwd=directory, check=True, capture_output=True)
    parts = [(directory / name).read_text() for name in ("server.key", "server.crt")]
    (directory / "server.pem").write_text("".join(parts))
    return directory


@contextmanager
def fake_cluster(directory: Path, tls: Path) -> Iterator[FakeCluster]:
    """Serve a cluster's API; ``directory`` becomes that of the pod's service account."""
    cluster = FakeCluster(account=directory)
    (directory / "token").write_text(f"{TOKEN}\n")
    shutil.copy(tls / "ca.crt", directory / "ca.crt")

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            status, content = 401, None
            if self.headers["Authorization"] == f"Bearer {TOKEN}":
                status, content = cluster.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls / "server.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        cluster.url = f"https://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield cluster
        finally:
            server.shutdown()
            thread.join()
