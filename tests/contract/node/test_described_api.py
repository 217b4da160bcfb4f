"""The API held against its own description in OpenAPI: Schemathesis makes requests of it, and judges the answers."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from plugbay.node.config import NodeConfig
from plugbay.node.run import open_node
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.contract.rigs.one_of_each import FIELDS, NEW_EVENT

requests = pytest.importorskip("requests")
schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")

# The node runs in this process, and draws random numbers for its waits and for names whenever it likes.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
DEADLINE_S: Final = 60
NAMES: Final = {"customresourcedefinitions": "as.example.com", "nodes": "n1"}
"""The names of objects; of other kinds they are ``a``."""


def kind_of(path: str) -> str:
    """The plural name of the kind that a path is about."""
    parts = [each for each in path.split("/") if each]
    return parts[parts.index("{name}") - 1] if "{name}" in parts else parts[-1]


def tamed(case: Any, number: int) -> Any:
    """A request that reaches more than the first check, and has no effect outside of the node.

    Pods are gated: none runs a command that was made up. Most requests name one object, and only some have made-up
    parameters, which most of the time are refused at once.
    """
    name = NAMES.get(kind_of(case.operation.path), "a")
    places = {"namespace": "default", "name": name}
    case.path_parameters = {key: places.get(key, value) for key, value in (case.path_parameters or {}).items()}
    if number % 3:
        case.query = {}
    if case.query and case.query.get("watch") not in (None, False):
        case.query["timeoutSeconds"] = 1
    if isinstance(case.body, dict):
        case.body = dict(case.body)
        if number % 4:
            case.body |= {"metadata": {"name": name}}
            case.body = {key: value for key, value in case.body.items() if key not in ("apiVersion", "kind")}
        gate(case.body)
    return case


def gate(value: Any) -> None:
    """Keep the pods that an object is, or has a template for, from running."""
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key == "spec" and isinstance(inner, dict) and ("containers" in inner or "schedulerName" in inner):
            value[key] = inner | {"schedulingGates": [{"name": "example.com/held"}], "nodeName": None}
        gate(value[key])


class Described:
    """The API of a node over TLS.

    Attributes:
        asked: the number of requests.
        problems: the answers that are not as described, by operation.
    """

    def __init__(self, config: NodeConfig, directory: Path) -> None:
        content = yaml.safe_load(config.kubeconfig.read_text())
        [cluster], [user] = content["clusters"], content["users"]
        authority = directory / "ca.crt"
        authority.write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
        self._server = cluster["cluster"]["server"]
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(authority)
        self._session.headers["Authorization"] = f"Bearer {user['user']['token']}"
        self.asked = 0
        self.problems: list[str] = []

    def operations(self) -> Iterator[Any]:
        """All operations of all groups."""
        index = self._session.get(f"{self._server}/openapi/v3").json()["paths"]
        for place in sorted(index):
            document = self._session.get(f"{self._server}{index[place]['serverRelativeURL']}").json()
            described = schemathesis.openapi.from_dict(document)
            described.config.update(base_url=self._server)
            for found in described.get_all_operations():
                yield found.ok()

    def make_one(self, path: str) -> None:
        """Make the object that a path is about, unless it is there; reviews are answered only."""
        plural = kind_of(path)
        if plural.endswith("reviews"):
            return
        place = path.partition("/{name}")[0].replace("{namespace}", "default")
        fields = NEW_EVENT if "events.k8s.io" in path else FIELDS.get(plural, {})
        body = {"metadata": {"name": NAMES.get(plural, "a")}, **fields}
        made = self._session.post(f"{self._server}{place}", json=body).status_code
        assert made in (201, 405, 409), f"{plural}: {made}"

    def judge(self, case: Any) -> None:
        """Send a request, and hold its answer against the description."""
        self.asked += 1
        case = tamed(case, self.asked)
        answer = case.call(session=self._session, verify=self._session.verify, timeout=DEADLINE_S)
        case.validate_response(answer, checks=checks.CHECKS.get_by_names(list(CHECKS)))

    def try_all(self, examples: settings) -> None:
        for operation in self.operations():

            @examples
            @given(case=operation.as_strategy())
            def answers_as_described(case: Any) -> None:
                self.judge(case)

            self.make_one(operation.path)
            try:
                answers_as_described()
            except (Exception, BaseExceptionGroup) as error:  # all operations are tried
                self.problems.append("\n".join([operation.label, *map(str, getattr(error, "exceptions", (error,)))]))


async def hold_against_description(root: Path, directory: Path, examples: settings) -> int:
    """The number of requests that a node has answered, all as it describes its API."""
    config = NodeConfig(root, name="n1", api=TcpAddress("127.0.0.1", 0))
    async with open_node(config, environ=os.environ, clock=SystemClock()):
        described = Described(config, directory)
        await asyncio.to_thread(described.try_all, examples)
    assert not described.problems, "\n\n".join(described.problems)
    return described.asked


async def test_every_operation_answers_as_it_is_described(sockets: Path, tmp_path: Path) -> None:
    few = settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    assert await hold_against_description(sockets, tmp_path, few) > 600


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_every_operation_answers_many_requests_as_it_is_described(sockets: Path, tmp_path: Path) -> None:
    many = settings(max_examples=100, suppress_health_check=list(HealthCheck))
    assert await hold_against_description(sockets, tmp_path, many) > 10_000
