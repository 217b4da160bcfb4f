import pytest

from plugbay.model.downward import FIELD_PATHS, field_value, file_text, is_field_path, is_file_field_path
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, PodSpec

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
def test_a_field_has_a_value(path: str) -> None:
    pod = Pod(
        "p",
        PodSpec((Container(ContainerName("c")),), node_name="n1"),
        "lab",
        PodUid("u"),
        {"app.kubernetes.io/name": "gopher"},
        {"note": "costs $$(5) $(A)"},
    )
    assert field_value(path, pod, host_ip="10.0.0.1", pod_ips=["10.0.0.1"]) == EXPECTED[path]


def test_every_path_has_a_value() -> None:
    assert set(FIELD_PATHS) <= EXPECTED.keys()


def test_a_named_account_is_told() -> None:
    pod = Pod("p", PodSpec((Container(ContainerName("c")),), service_account="robot"))
    assert field_value("spec.serviceAccountName", pod, host_ip="", pod_ips=()) == "robot"


def test_a_file_has_a_line_for_each_label() -> None:
    pod = Pod("p", PodSpec(()), labels={"b": "2", "a": 'say "1"\n'}, annotations={})
    assert file_text("metadata.labels", pod) == 'a="say \\"1\\"\\n"\nb="2"'
    assert file_text("metadata.annotations", pod) == ""
    assert file_text("metadata.labels['b']", pod) == "2"


@pytest.mark.parametrize("path", ["spec.nodeName", "status.podIP", "metadata", "metadata.labels['']"])
def test_a_file_holds_only_what_can_change_or_is_the_identity(path: str) -> None:
    assert not is_file_field_path(path)


@pytest.mark.parametrize(
    "path", ["", "metadata", "metadata.labels", "metadata.labels['']", "status.phase", "spec.nodeName "]
)
def test_other_paths_are_refused(path: str) -> None:
    assert not is_field_path(path)
