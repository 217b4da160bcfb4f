"""The API of a cluster: requests that block."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from plugbay.errors import ClusterUnusable, PathUnusable
from plugbay.ops.cluster import ClusterApi, cluster_of


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example.com ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
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
        with pytest.raises(ClusterUnusable, match="the cluster cannot be asked at"):
            ClusterApi(f"http://127.0.0.1:{listening.getsockname()[1]}", tmp_path).send("GET", "x")
        thread.join()


def test_a_token_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(PathUnusable, match="is not UTF-8 text"):
        ClusterApi("http://127.0.0.1:9", tmp_path).send("GET", "x")


def test_a_pod_knows_its_cluster() -> None:
    assert cluster_of({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "x").url == "https://10.0.0.1:443"
    assert cluster_of({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "x").url == (
        "https://[fd00::1]:6443"
    )
    with pytest.raises(ClusterUnusable, match="a file is wanted, and this process is not a pod of a cluster"):
        cluster_of({}, "a file is wanted")
