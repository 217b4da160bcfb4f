import pytest

from plugbay.model.downward import FIELD_PATHS, is_field_path, with_field_values
from plugbay.model.expansion import container_env
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, EnvVar, Pod, PodSpec

EXPECTED = {
    "metadata.name": "p",
    "metadata.namespace": "lab",
    "metadata.uid": "u",
    "metadata.labels['app.kubernetes.io/name']": "gopher",
    "metadata.annotations['note']": "costs $$(5) $(A)",
    "metadata.labels['missing']": "",
    "spec.nodeName": "n1",
    "spec.serviceAccountName": "default",
    "status.hostIP": "10.0.0.1",
    "status.hostIPs": "10.0.0.1",
    "status.podIP": "10.0.0.1",
    "status.podIPs": "10.0.0.1",
}


@pytest.mark.parametrize("path", EXPECTED)
def test_a_field_becomes_a_value_and_is_not_expanded(path: str) -> None:
    container = Container(ContainerName("c"), env=(EnvVar("A", "a"), EnvVar("F", field_path=path), EnvVar("G", "$(F)")))
    pod = Pod(
        "p",
        PodSpec((container,), node_name="n1"),
        "lab",
        PodUid("u"),
        {"app.kubernetes.io/name": "gopher"},
        {"note": "costs $$(5) $(A)"},
    )
    env = container_env(with_field_values(container, pod, host_ip="10.0.0.1"))
    assert env == {"A": "a", "F": EXPECTED[path], "G": EXPECTED[path]}


def test_every_path_has_a_value() -> None:
    assert set(FIELD_PATHS) <= EXPECTED.keys()


def test_a_named_account_is_told() -> None:
    container = Container(ContainerName("c"), env=(EnvVar("F", field_path="spec.serviceAccountName"),))
    pod = Pod("p", PodSpec((container,)), unused={("spec", "serviceAccountName"): "robot"})
    assert container_env(with_field_values(container, pod, host_ip="")) == {"F": "robot"}


@pytest.mark.parametrize(
    "path", ["", "metadata", "metadata.labels", "metadata.labels['']", "status.phase", "spec.nodeName "]
)
def test_other_paths_are_refused(path: str) -> None:
    assert not is_field_path(path)
