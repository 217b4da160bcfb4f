"""``plugbay manifest``: what it prints is what an API server takes, field by field."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugbay.cli.main import run
from tests.contract.rigs.api_calls import ApiCaller
from tests.contract.rigs.node_run import running_node

PATHS = {
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",
    "DaemonSet": "/apis/apps/v1/namespaces/kube-system/daemonsets",
}
IMAGE = ("--image", "registry.example.com/plugbay:1")
DEADLINE_S = 60
CODE = """
from plugbay import Capability, Device, DevicePlugin, HostDirectory, Memory, Variable
from parts import NAME
print("said while it is loaded")

class Cards(DevicePlugin):
    resource_name = NAME
    watch = "/dev/cards"
    cdi_kind = NAME
    needs = [
        HostDirectory("/opt/card", "the vendor's library"),
        Capability("NET_ADMIN", "it configures card0"),
        Variable("CARD_LOG", "yes: all", "the vendor's log"),
        Memory(100, "the vendor's library"),
    ]

    def discover(self):
        yield Device("a")

    def release(self, assignment):
        pass
"""
DIRECTORY = ("directory", "--resource=example.com/card", "--path=/etc/cards", "--env=CARD")
SCRATCH = ("scratch", "--resource=example.com/scratch", "--directory=/srv/scratch", "--size=1Gi", "--count=2")


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


async def ended(directory: Path, *argv: str) -> tuple[int | None, str, str]:
    pipe = asyncio.subprocess.PIPE
    words = (sys.executable, "-m", "plugbay", "manifest", *argv)
    process = await asyncio.create_subprocess_exec(*words, cwd=directory, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def printed(directory: Path, *argv: str) -> tuple[str, str]:
    code, out, err = await ended(directory, *argv, *IMAGE)
    assert code == 0, err
    return out, err


async def test_an_api_server_takes_what_is_printed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cards.py").write_text(CODE)
    (tmp_path / "parts.py").write_text("NAME = 'example.com/card'\n")
    (tmp_path / "plugins.yaml").write_text("plugins: [{target: cards.py}]\n")
    commands: list[tuple[str, ...]] = [
        ("--config", "plugins.yaml", "--node-selector", "example.com/cards=true"),
        SCRATCH,
        ("nvidia", "--mig-strategy=mixed", "--device-list-strategy=cdi-cri", "--mps-root=/run/mps"),
    ]
    texts = await asyncio.gather(*(printed(tmp_path, *each) for each in commands))
    assert texts[0][1] == "said while it is loaded\n"
    objects: list[dict[str, Any]] = [each for out, _ in texts for each in yaml.safe_load_all(out)]
    assert [each["kind"] for each in objects] == ["ConfigMap", "DaemonSet", "DaemonSet", "DaemonSet"]
    assert sorted(objects[0]["data"]) == ["cards.py", "parts.py", "plugins.yaml"]
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for each in objects:
            status, answer, _ = await ask("POST", PATHS[each["kind"]], each, **strict)
            assert status == 201, answer["message"]
            assert answer["metadata"]["name"] == each["metadata"]["name"]
        objects[-1]["spec"]["template"]["spec"]["containers"][0]["readinessProb"] = {}
        status, answer, _ = await ask("POST", PATHS["DaemonSet"], objects[-1], **strict)
        assert status in (400, 422), "the node knows which fields there are"


async def test_a_directory_is_written_once_and_what_differs_in_it_is_kept(tmp_path: Path) -> None:
    argv = (*DIRECTORY, *IMAGE, "-o=kustomize", "--to=base", "--with=network-policy")
    assert (await ended(tmp_path, *argv))[:2] == (
        0,
        "base/kustomization.yaml created\nbase/daemonset.yaml created\nbase/networkpolicy.yaml created\n",
    )
    (tmp_path / "base/networkpolicy.yaml").write_text("mine")
    (tmp_path / "base/daemonset.yaml").unlink()
    problem = "base/networkpolicy.yaml: is there with other content; nothing was written (--overwrite replaces it)"
    assert await ended(tmp_path, *argv) == (1, "", f"plugbay: error: {problem}\n")
    assert sorted(path.name for path in (tmp_path / "base").iterdir()) == ["kustomization.yaml", "networkpolicy.yaml"]
    assert (await ended(tmp_path, *argv, "--overwrite"))[:2] == (
        0,
        "base/kustomization.yaml unchanged\nbase/daemonset.yaml created\nbase/networkpolicy.yaml replaced\n",
    )


@pytest.mark.parametrize(
    ("argv", "code", "problem"),
    [
        (("gone.py",), 1, "gone.py: "),
        (("gone:Cards",), 1, "gone"),
        ((*DIRECTORY, f"--name={'c' * 64}"), 2, "and not 64"),
        ((*DIRECTORY, "--namespace=Kube"), 2, "--namespace Kube: a namespace has 1 to 63 lower-case letters"),
        ((*DIRECTORY, "--with=grafana"), 2, "--with grafana: there is namespace, pod-monitor, dashboard"),
        ((*DIRECTORY, "--node-affinity=a in b"), 2, "'a in b' is not a label selector"),
        (
            (*DIRECTORY, "--pod-security=baseline"),
            1,
            "HostPath Volumes: the host's /etc/cards (example.com/card watches",
        ),
        ((*DIRECTORY, "--monitor-labels=a=b"), 2, "ask for it by --with pod-monitor"),
        ((*DIRECTORY, "-o=helm"), 2, "-o helm wants --to DIR"),
        (
            (*DIRECTORY, "-o=helm", "--to=x", "--namespace=a"),
            2,
            "--namespace: a chart has the namespace of its release",
        ),
        ((*DIRECTORY, "-o=helm", "--to=x", "--with=dashboard,namespace"), 2, "--with namespace: a chart has the"),
        ((*DIRECTORY, "--to=x"), 2, "--to is for -o kustomize and -o helm"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_to_apply(
    argv: tuple[str, ...],
    code: int,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["manifest", *argv, *IMAGE]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("plugbay: error: ")
    assert problem in err
    assert err.count("\n") == 1


LICENCE = "{name: licence, domain: example.com, tokens: 1}"


@pytest.mark.parametrize(
    ("options", "text", "port"),
    [
        (("--device", LICENCE), "", 9400),
        (("--device", LICENCE, "--listen", ":8080"), "", 8080),
        (("--device", LICENCE, "--listen=[::]:8081"), "", 8081),
        (("--device", LICENCE, "--compat-metrics"), "", 8080),
        (("--config", "devices.yaml"), f"listen: 0.0.0.0:8082\ndevices: [{LICENCE}]\n", 8082),
    ],
)
async def test_the_port_that_a_plugin_is_to_listen_at_holds_everywhere(
    tmp_path: Path, options: tuple[str, ...], text: str, port: int
) -> None:
    (tmp_path / "devices.yaml").write_text(text)
    command = ("generic", *options, *IMAGE, "--with", "network-policy,pod-monitor")
    code, out, err = await ended(tmp_path, *command)
    assert (code, err) == (0, "")
    objects = {each["kind"]: each for each in yaml.safe_load_all(out)}
    [container] = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert [word for word in container["command"] if "listen" in word or "metrics=" in word] == [f"--metrics=:{port}"]
    assert container["ports"] == [{"name": "metrics", "containerPort": port}]
    assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} == {"metrics"}
    assert objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port}]
    assert objects["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"
    directory = tmp_path / "chart"
    assert (await ended(tmp_path, *command, "-o", "helm", "--to", str(directory)))[0] == 0
    [values] = yaml.safe_load((directory / "values.yaml").read_text())["plugins"].values()
    assert values.get("port", 9400) == port


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "unix:/run/metrics.sock", ":0"])
async def test_an_address_that_no_probe_reaches_is_refused(tmp_path: Path, address: str) -> None:
    code, _, err = await ended(tmp_path, "generic", "--device", LICENCE, "--listen", address, *IMAGE)
    assert code == 2
    assert f"--listen {address}: Prometheus and the kubelet ask from outside the pod; give a port, as :9400" in err
