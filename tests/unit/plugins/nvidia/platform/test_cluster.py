"""The API of a cluster, and the labels of a node in it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from plugbay.errors import ClusterUnusable, PathUnusable
from plugbay.plugins.nvidia.platform.cluster import ClusterApi, cluster_of

NODES = {"n1": {"metadata": {"labels": {"a/b": "c"}}}, "bare": {"metadata": {}}, "odd": []}


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/v1/nodes/")
        is_allowed = self.headers["Authorization"] == "Bearer secret"
        self.send_response(403 if not is_allowed else 200 if name in NODES else 404)
        self.end_headers()
        self.wfile.write(json.dumps(NODES.get(name)).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_labels_are_read_with_the_account_of_the_pod(url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    cluster = ClusterApi(url, tmp_path)
    assert cluster.labels_of("n1") == {"a/b": "c"}
    assert cluster.labels_of("bare") == {}
    for name in ("odd", "none"):
        with pytest.raises(ClusterUnusable, match=f"the labels of node {name} cannot be read"):
            cluster.labels_of(name)
    (tmp_path / "token").write_text("wrong")
    with pytest.raises(ClusterUnusable, match="403"):
        cluster.labels_of("n1")
    (tmp_path / "token").unlink()
    with pytest.raises(PathUnusable):
        cluster.labels_of("n1")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example.com ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 200 OK\r\n\r\n\xff",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
    ],
    ids=["nothing", "not-http", "cut-short", "bad-chunk", "deep", "not-text", "many-headers"],
)
def test_whatever_is_answered_is_told_in_a_sentence(tmp_path: Path, answer: bytes) -> None:
    (tmp_path / "token").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ClusterUnusable, match="the labels of node n1 cannot be read"):
            ClusterApi(f"http://127.0.0.1:{listening.getsockname()[1]}", tmp_path).labels_of("n1")
        thread.join()


def test_a_token_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(PathUnusable, match="is not UTF-8 text"):
        ClusterApi("http://127.0.0.1:9", tmp_path).labels_of("n1")


def test_a_pod_knows_its_cluster() -> None:
    assert cluster_of({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "x").url == "https://10.0.0.1:443"
    assert cluster_of({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "x").url == (
        "https://[fd00::1]:6443"
    )
    with pytest.raises(ClusterUnusable, match="a file is wanted, and this process is not a pod of a cluster"):
        cluster_of({}, "a file is wanted")
