import pytest

from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.pods import Container, Pod, PodSpec, pod_request, with_identity
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind, ContainerRequest

GOPHER = ResourceName("example.com/gopher")


def a_container(name: str, kind: ContainerKind = ContainerKind.APP, **limits: str) -> Container:
    amounts = {key.replace("__", "/").replace("_", "."): Quantity.parse(text) for key, text in limits.items()}
    return Container(ContainerName(name), kind=kind, limits=amounts)


def test_request_takes_extended_resources_in_admission_order() -> None:
    pod = Pod(
        name="p",
        namespace="lab",
        uid=PodUid("u"),
        spec=PodSpec(
            init_containers=(
                a_container("init", ContainerKind.INIT, example_com__gopher="3"),
                a_container("sidecar", ContainerKind.SIDECAR, cpu="1"),
            ),
            containers=(
                a_container("zero", example_com__gopher="0", memory="1Gi"),
                a_container("more", example_com__gopher="1k", kubernetes_io__thing="1", hugepages="2Mi"),
            ),
        ),
    )
    request = pod_request(pod)
    assert (request.uid, request.namespace, request.name) == ("u", "lab", "p")
    assert request.containers == (
        ContainerRequest(ContainerName("init"), ContainerKind.INIT, {GOPHER: 3}),
        ContainerRequest(ContainerName("sidecar"), ContainerKind.SIDECAR, {}),
        ContainerRequest(ContainerName("zero"), ContainerKind.APP, {GOPHER: 0}),
        ContainerRequest(ContainerName("more"), ContainerKind.APP, {GOPHER: 1000}),
    )


def test_request_reads_limits_only_and_rounds_up() -> None:
    container = Container(
        ContainerName("c"),
        requests={"example.com/mole": Quantity.parse("1")},
        limits={"example.com/gopher": Quantity.parse("1500m")},
    )
    request = pod_request(Pod(name="p", spec=PodSpec(containers=(container,))))
    assert request.containers[0].limits == {GOPHER: 2}


SPEC = PodSpec(containers=(a_container("c"),))


def test_identity_fills_only_what_is_missing() -> None:
    made = with_identity(Pod(name="", generate_name="gopher-", spec=SPEC), uid=PodUid("new"), suffix="x7k2p")
    assert (made.name, made.uid) == ("gopher-x7k2p", "new")
    kept = with_identity(
        Pod(name="p", generate_name="gopher-", uid=PodUid("old"), spec=SPEC), uid=PodUid("new"), suffix="x7k2p"
    )
    assert (kept.name, kept.uid) == ("p", "old")


def test_generated_name_fits_a_label() -> None:
    made = with_identity(Pod(name="", generate_name="g" * 100, spec=SPEC), uid=PodUid("u"), suffix="x7k2p")
    assert len(made.name) == 63
    assert made.name.endswith("gx7k2p")


@pytest.mark.parametrize("kind", [ContainerKind.INIT, ContainerKind.SIDECAR], ids=lambda kind: kind.value)
def test_kinds_stand_in_their_lists(kind: ContainerKind) -> None:
    with pytest.raises(ValueError, match="only app containers"):
        PodSpec(containers=(a_container("c", kind),))
    with pytest.raises(ValueError, match="app containers do not"):
        PodSpec(containers=(), init_containers=(a_container("c"),))
