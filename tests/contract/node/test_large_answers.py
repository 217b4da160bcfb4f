"""Large answers over TLS: in gzip for clients that take it, and whole in either case."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import closing
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.contract.rigs.node_run import DEADLINE_S
from tests.contract.rigs.spdy_client import ApiNode, api_node

MAPS = "/api/v1/namespaces/default/configmaps"
VALUE = "".join(f"line {number}\n" for number in range(30_000))


async def asked(
    api: ApiNode, path: str, method: str = "GET", body: Any = None, **more: str
) -> tuple[HTTPResponse, bytes]:
    """An answer to a client that takes gzip, and its body as it came; of a watch the first line.

    Args:
        more: further headers.
    """

    def ask() -> tuple[HTTPResponse, bytes]:
        address = urlsplit(api.server)
        connection = HTTPSConnection(str(address.hostname), address.port, timeout=DEADLINE_S, context=api.tls)
        with closing(connection):
            headers = {"Authorization": f"Bearer {api.token}", "Accept-Encoding": "gzip", **more}
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response, response.readline() if "watch" in path else response.read()

    return await asyncio.to_thread(ask)


async def test_large_answers_are_compressed_and_streams_are_not(sockets: Path) -> None:
    async with api_node(sockets) as api:
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"value": VALUE}}
        created, answer = await asked(api, MAPS, "POST", wanted)
        assert (created.status, created.headers["Content-Encoding"]) == (201, "gzip")
        assert len(answer) < len(VALUE) / 2
        for path in (MAPS, f"{MAPS}/large"):
            response, body = await asked(api, path)
            assert (response.headers["Content-Encoding"], response.headers["Vary"]) == ("gzip", "Accept-Encoding")
            found = json.loads(gzip.decompress(body))
            maps = found["items"] if path == MAPS else [found]
            assert [each["data"]["value"] for each in maps if each["metadata"]["name"] == "large"] == [VALUE]
        response, line = await asked(api, f"{MAPS}?watch=true&fieldSelector=metadata.name%3Dlarge")
        assert response.headers["Content-Encoding"] is None
        assert json.loads(line)["object"]["data"]["value"] == VALUE
        response, body = await asked(api, "/api/v1/namespaces/default/pods/p")
        assert response.headers["Content-Encoding"] is None
        assert json.loads(body)["metadata"]["name"] == "p"


async def test_clients_that_name_yaml_first_are_given_it(sockets: Path) -> None:
    async with api_node(sockets) as api:
        for size in (0, 3):
            wanted = {"metadata": {"name": f"c{size}"}, "data": {"value": VALUE * size, "no": "no", "line": "a\nb: c"}}
            made = json.loads((await asked(api, MAPS, "POST", wanted, **{"Accept-Encoding": "identity"}))[1])
            for path in (f"{MAPS}/c{size}", f"{MAPS}?fieldSelector=metadata.name%3Dc{size}", "/apis/apps", "/version"):
                response, body = await asked(api, path, Accept="application/yaml", **{"Accept-Encoding": "identity"})
                assert (response.status, response.headers["Content-Type"]) == (200, "application/yaml")
                found = yaml.safe_load(body)
                assert found == json.loads((await asked(api, path, **{"Accept-Encoding": "identity"}))[1])
            assert made["data"]["no"] == "no"
        response, body = await asked(api, f"{MAPS}?watch=true", Accept="application/yaml")
        assert (response.status, json.loads(body)["reason"]) == (406, "NotAcceptable")
