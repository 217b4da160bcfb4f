"""The DaemonSet: no right but what is needed, and no object that an API server would refuse."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugbay import Capability, HostDirectory, Memory, OneAtATime, Privileged, Variable
from plugbay.errors import NeedsRefused, UsageError
from plugbay.sdk.author.needs import Need
from plugbay.sdk.deploying.deployment import Deployment, default_name
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.deploying.objects import manifest
from plugbay.sdk.deploying.plugin_needs import combined

WHY = "a reason"


def deployment(
    *needs: Need, name: str = "card-plugin", served: tuple[str, ...] = ("x.example/card",), **fields: Any
) -> Deployment:
    known = {"namespace": "kube-system", "image": "registry.example.com/plugbay:1", "targets": ("cards:Cards",)}
    return Deployment(name=name, needs=combined(served, needs), **(known | fields))


def objects(made: Deployment) -> list[Any]:
    return list(yaml.safe_load_all(noted_yaml(manifest(made))))


def pod_of(made: Deployment) -> Any:
    return objects(made)[-1]["spec"]["template"]["spec"]


def container_of(made: Deployment) -> Any:
    [container] = pod_of(made)["containers"]
    return container


def test_least_rights() -> None:
    pod = pod_of(deployment())
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsUser": 0,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["automountServiceAccountToken"] is False
    assert [each["name"] for each in pod["volumes"]] == ["device-plugins"], "the kubelet's sockets"
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & pod.keys()


def test_it_runs_on_every_node_and_tells_whether_it_is_ready() -> None:
    pod = pod_of(deployment())
    [container] = pod["containers"]
    assert (pod["priorityClassName"], pod["tolerations"]) == ("system-node-critical", [{"operator": "Exists"}])
    assert container["command"][2:] == ["cards:Cards", "--root=/var/lib/kubelet", "--metrics=:9400"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["ports"] == [{"name": "metrics", "containerPort": 9400}]
    assert "nodeSelector" not in pod
    assert pod_of(deployment(node_selector={"b": "", "a": "1"}))["nodeSelector"] == {"a": "1", "b": ""}


def test_declared_rights_are_there_with_their_reasons() -> None:
    made = deployment(Capability("NET_ADMIN", "it configures card0"), Variable("LOG", "1", "the vendor's log"))
    container = container_of(made)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["env"] == [{"name": "LOG", "value": "1"}]
    text = noted_yaml(manifest(made))
    assert "# It configures card0.\n" in text
    assert "# The vendor's log.\n" in text


@pytest.mark.parametrize(
    "need", [Privileged("it opens /dev/card0"), Capability("SYS_ADMIN", "it mounts")], ids=["privileged", "admin"]
)
def test_no_api_server_takes_these_rights_without_escalation(need: Need) -> None:
    made = deployment(need)
    security = container_of(made)["securityContext"]
    assert "allowPrivilegeEscalation" not in security
    assert security["readOnlyRootFilesystem"] is True
    assert f"# {need.reason.replace('it', 'It', 1)}.\n" in noted_yaml(manifest(made))


def test_exactly_the_needed_directories() -> None:
    made = deployment(
        HostDirectory("/dev", "x.example/card watches /dev/cards"),
        HostDirectory("/opt/card", "the library"),
        HostDirectory("/opt-card", "the state", writable=True, container_path="/state"),
        HostDirectory("/var/lib/kubelet/device-plugins", "the kubelet's socket", writable=True),
        HostDirectory("/", "the driver", container_path="/driver-root"),
    )
    pod = pod_of(made)
    [container] = pod["containers"]
    assert container["volumeMounts"] == [
        {"name": "device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
        {"name": "dev", "mountPath": "/dev", "readOnly": True},
        {"name": "root", "mountPath": "/driver-root", "readOnly": True},
        {"name": "opt-card", "mountPath": "/opt/card", "readOnly": True},
        {"name": "opt-card-2", "mountPath": "/state"},
    ]
    assert [each["hostPath"] for each in pod["volumes"]] == [
        {"path": "/var/lib/kubelet/device-plugins", "type": "Directory"},
        {"path": "/dev", "type": "Directory"},
        {"path": "/", "type": "Directory"},
        {"path": "/opt/card", "type": "DirectoryOrCreate"},
        {"path": "/opt-card", "type": "DirectoryOrCreate"},
    ]
    assert "# x.example/card watches /dev/cards.\n" in noted_yaml(manifest(made))


def test_memory_is_what_was_measured_with_room() -> None:
    def memory(*needs: Need) -> tuple[str, str]:
        amounts = container_of(deployment(*needs))["resources"]
        return amounts["requests"]["memory"], amounts["limits"]["memory"]

    assert memory() == ("48Mi", "96Mi")
    assert memory(Memory(20, WHY)) == ("48Mi", "96Mi")
    assert memory(Memory(300, WHY)) == ("400Mi", "800Mi")


def test_files_are_mounted_and_new_code_replaces_the_pods() -> None:
    def annotations(**files: str) -> object:
        made = deployment(files={name.replace("_", "."): text for name, text in files.items()})
        return objects(made)[-1]["spec"]["template"]["metadata"].get("annotations")

    config, daemon_set = objects(deployment(files={"plugins.yaml": "plugins: []\n"}))
    assert (config["kind"], config["data"]) == ("ConfigMap", {"plugins.yaml": "plugins: []\n"})
    assert config["metadata"] == daemon_set["metadata"]
    files = {"name": "files", "configMap": {"name": "card-plugin"}}
    assert daemon_set["spec"]["template"]["spec"]["volumes"][-1] == files
    assert annotations(plugins_yaml="a") is None, "a config file is read again by itself"
    assert annotations(a_py="1", plugins_yaml="a") == annotations(a_py="1", plugins_yaml="b")
    assert annotations(a_py="1") != annotations(a_py="2")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "Card"}, "--name Card: a name has 1 to 63 lower-case letters"),
        ({"name": "c" * 64}, "first and last, and not 64"),
        ({"name": ""}, "--name : a name has"),
        ({"namespace": "kube.system"}, "--namespace kube.system: a namespace has"),
        ({"image": "a b"}, "--image 'a b' is not the name of an image"),
        ({"image": ""}, "--image '' is not"),
        ({"image": "registry.example.com/Plug:1"}, "is not the name of an image, such as"),
        ({"runtime_class": "a_b"}, "--runtime-class a_b: a name has"),
        ({"files": {"a.py": "x" * 1024 * 1024 + "y"}}, "the files have 1048577 bytes"),
    ],
)
def test_what_an_api_server_would_refuse(fields: Any, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        deployment(**fields)
    assert problem in str(caught.value)


@pytest.mark.parametrize("place", ["/plugin", "/plugin/gophers"])
def test_place_of_the_files_is_taken(place: str) -> None:
    with pytest.raises(NeedsRefused, match="/plugin holds the plugin's files"):
        deployment(HostDirectory(place, WHY))


@pytest.mark.parametrize(
    ("served", "name"),
    [
        (("x.example/card",), "card-plugin"),
        (("x.example/Card_v1.2",), "card-v1-2-plugin"),
        (("nvidia",), "nvidia-plugin"),
        (("a.example/a", "a.example/b"), "plugbay-plugins"),
    ],
)
def test_name_of_its_own(served: tuple[str, ...], name: str) -> None:
    assert default_name(combined(served, ())) == name


def test_name_that_is_too_long_is_not_cut() -> None:
    with pytest.raises(UsageError, match="has 67 characters, and a name at most 63: give a --name"):
        default_name(combined((f"x.example/{'c' * 60}",), ()))


def test_a_rollout_overlaps_if_two_processes_may_run() -> None:
    def update(*needs: Need) -> Any:
        return objects(deployment(*needs))[-1]["spec"]["updateStrategy"]

    assert update() == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}
    alone = OneAtATime("it holds card0 open")
    assert update(alone) == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    text = noted_yaml(manifest(deployment(alone)))
    assert (
        "# It holds card0 open. So the old process ends first: containers keep their devices, new ones wait.\n" in text
    )


@pytest.mark.parametrize(
    "place",
    [
        *("/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/lib", "/lib", "/bin/x", "/sbin", "/lib64"),
        *("/usr/lib/x86_64-linux-gnu", "/usr/lib/python3/dist-packages", "/usr/local/lib/python3.13"),
        *("/etc", "/opt", "/home", "/root", "/tmp", "/run", "/var", "/var/run", "/run/secrets", "/proc/bus"),
    ],
)
def test_no_directory_of_the_host_hides_what_the_container_itself_has(place: str) -> None:
    with pytest.raises(NeedsRefused, match=rf"^{place} \(a reason\) cannot be mounted: it hides"):
        deployment(HostDirectory(place, WHY))
    with pytest.raises(NeedsRefused, match="it hides"):
        deployment(HostDirectory("/srv/cards", WHY, container_path=place))
    [_, mount] = container_of(deployment(HostDirectory(place, WHY, container_path="/host")))["volumeMounts"]
    assert mount["mountPath"] == "/host"


@pytest.mark.parametrize(
    "place",
    [
        *("/etc/cards", "/opt/card", "/home/cards", "/tmp/cards", "/run/udev", "/var/run/cdi", "/var/lib/cards"),
        *("/usr/share/cards", "/usr/lib/firmware", "/lib/modules", "/usr/lib/x86_64-linux-gnu/dri", "/dev", "/sys"),
        *("/srv", "/dev/shm", "/sys/fs/cgroup", "/mnt", "/driver-root"),
    ],
)
def test_directory_of_the_host_where_the_container_has_none(place: str) -> None:
    [_, mount] = container_of(deployment(HostDirectory(place, WHY)))["volumeMounts"]
    assert mount["mountPath"] == place
