"""The Helm chart and the bases for kustomize, as helm and kubectl read them: what they give is what a manifest says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from plugbay import Capability, HostDirectory, Memory, OneAtATime, OnNodes, Privileged, Variable
from plugbay.model.selectors import parse_selector
from plugbay.sdk.author.needs import NodeReader
from plugbay.sdk.deploying.chart import chart
from plugbay.sdk.deploying.chart_values import plain, values_of
from plugbay.sdk.deploying.deployment import Deployment, Extra
from plugbay.sdk.deploying.objects import manifest
from plugbay.sdk.deploying.plugin_needs import combined
from tools import deploy

pytestmark = pytest.mark.e2e
CHART: Final = deploy.DEPLOY / "helm/plugbay"
NEEDS: Final = (
    HostDirectory("/dev", "x.example/card watches /dev/cards"),
    HostDirectory("/opt/card", "the library", writable=True, container_path="/card"),
    Capability("SYS_ADMIN", "it mounts"),
    Variable("LOG", "yes: all", "the vendor's log"),
    Memory(300, "the library"),
    NodeReader("labels choose its config"),
)
FILES: Final = {"plugins.yaml": "plugins: [{target: a.py}]\n", "a.py": "x = '{{ 1 }}'\n", "b.py": ' "y"\n\n'}


def made(*, name: str = "card-plugin", **fields: Any) -> Deployment:
    known: dict[str, Any] = {
        "needs": combined(("x.example/card",), ()),
        "namespace": "cards",
        "image": "r.example:5000/plugbay:1",
        "targets": ("a:A", "--x=1"),
    }
    return Deployment(name=name, **(known | fields))


DEPLOYMENTS: Final = (
    made(),
    made(
        name="2e3",
        needs=combined(("a.example/a", "b.example/b"), NEEDS),
        files=FILES,
        extras=frozenset({Extra.NETWORK_POLICY}),
    ),
    made(
        needs=combined(("x.example/card",), [Privileged("it opens /dev/card0"), OneAtATime("x"), OnNodes("c", "y")]),
        image=f"plugbay@sha256:{'0' * 64}",
        node_selector={"a": "1", "b": ""},
        affinity=(parse_selector("pool in (a,b),!old"), parse_selector("gpus>3")),
        tolerations=(),
        runtime_class="nvidia",
        priority_class="high",
        extras=frozenset(Extra) - {Extra.NAMESPACE},
        monitor_labels={"release": "prometheus"},
    ),
)


@pytest.fixture(scope="module")
def helm() -> str:
    found = shutil.which("helm") or shutil.which("helm", path=str(Path(sys.prefix) / "helm"))
    if found is None:
        pytest.skip("there is no helm; `make e2e` installs it on x86-64")
    return found


def output(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


def said_of(example: str) -> dict[tuple[str, str], Any]:
    """The objects that ``plugbay manifest`` prints."""
    said: Any = plain(manifest(deploy.deployment(example)))
    return {(each["kind"], each["metadata"]["name"]): each for each in said}


def by_name(text: str) -> dict[tuple[str, str], Any]:
    found = [each for each in yaml.safe_load_all(text) if each is not None]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_chart_renders_what_the_manifest_says(helm: str, tmp_path: Path) -> None:
    for number, deployment in enumerate(DEPLOYMENTS):
        directory = tmp_path / str(number)
        for name, text in chart(values_of(deployment), version="1.0.0").items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        rendered = by_name(output(helm, "template", deployment.name, directory, "--namespace=cards"))
        said: Any = plain(manifest(deployment))
        assert rendered == {(each["kind"], each["metadata"]["name"]): each for each in said}


def test_chart_is_without_fault_and_takes_several_plugins(helm: str) -> None:
    examples = [f"--values={CHART}/examples/{name}.yaml" for name in deploy.EXAMPLES]
    assert "0 chart(s) failed" in output(helm, "lint", "--strict", CHART)
    assert "0 chart(s) failed" in output(helm, "lint", "--strict", CHART, *examples)
    assert by_name(output(helm, "template", "none", CHART)) == {}
    rendered = by_name(output(helm, "template", "all", CHART, "--namespace=kube-system", *examples))
    assert rendered == {key: each for name in deploy.EXAMPLES for key, each in said_of(name).items()}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (("plugins.a.targets={a:A}",), "there is no public image; say where yours is"),
        (("plugins.a.targets={a:A}", "image.repository=r"), "which version of the image?"),
        (("plugins.a.target=a:A", "image.repository=r"), "additional properties 'target' not allowed"),
        (("plugins.A_b.targets={a:A}",), "invalid propertyName 'A_b'"),
        (("podMonitor.label.x=y",), "additional properties 'label' not allowed"),
        (("plugins.a.readsNodes=true",), "missing property 'targets'"),
    ],
)
def test_values_that_make_no_plugin_are_refused(helm: str, settings: tuple[str, ...], problem: str) -> None:
    argv = [part for each in settings for part in ("--set", each)]
    assert problem in refusal(helm, "template", "x", CHART, *argv)


def test_bases_for_kustomize_give_what_the_manifest_says(tmp_path: Path) -> None:
    for name in deploy.EXAMPLES:
        overlay = tmp_path / name
        shutil.copytree(deploy.DEPLOY / "kustomize" / name, tmp_path / "base" / name)
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_text(f"bases: [../base/{name}]\nnamespace: cards\nnameSuffix: -b\n")
        said = said_of(name)
        assert by_name(output("kubectl", "kustomize", tmp_path / "base" / name)) == said
        changed = by_name(output("kubectl", "kustomize", overlay))
        assert changed.keys() == {(kind, f"{each}-b") for kind, each in said}
        assert {each["metadata"]["namespace"] for each in changed.values()} == {"cards"}
        [before] = [each["spec"]["template"]["spec"] for (kind, _), each in said.items() if kind == "DaemonSet"]
        [after] = [each["spec"]["template"]["spec"] for (kind, _), each in changed.items() if kind == "DaemonSet"]
        for volume in (each for each in before["volumes"] if "configMap" in each):
            volume["configMap"]["name"] += "-b"
        assert after == before
