import contextlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugbay.documents.texts import to_yaml
from plugbay.errors import InvalidManifest
from plugbay.manifest import Strictness, load_pods, pod_from_v1, pod_to_v1
from plugbay.model.actions import ExecAction, SleepAction
from plugbay.model.field_path import FieldPath
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.images import PullPolicy
from plugbay.model.pods import (
    Container,
    EmptyDir,
    EnvVar,
    HostPath,
    HostPathType,
    Pod,
    PodSpec,
    RestartPolicy,
    Volume,
    VolumeMount,
    pod_request,
)
from plugbay.model.ports import ContainerPort
from plugbay.model.projections import (
    ConfigKind,
    EnvSource,
    FieldFile,
    FieldFiles,
    KeyFile,
    KeyFiles,
    KeyReference,
    ProjectedSource,
    Projection,
    ProjectionKind,
    ResourceReference,
    TokenFile,
)
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.model.taints import Toleration, TolerationOperator

MANIFESTS = Path(__file__).parent / "manifests"


def manifests(folder: str) -> list[Path]:
    return sorted(path for path in (MANIFESTS / folder).iterdir() if path.suffix in {".yaml", ".json"})


def expected(path: Path) -> str:
    return path.with_suffix(".expected").read_text(encoding="utf-8")


def load(text: str, mode: Strictness = Strictness.STRICT) -> Pod:
    pods, _ = load_pods(text, source="pod.yaml", mode=mode)
    (pod,) = pods
    return pod


def problem_of(text: str) -> InvalidManifest:
    with pytest.raises(InvalidManifest) as caught:
        load_pods(text, source="pod.yaml", mode=Strictness.STRICT)
    return caught.value


@pytest.mark.parametrize("path", manifests("good"), ids=lambda path: path.stem)
def test_good_manifest_becomes_the_expected_pods(path: Path) -> None:
    pods, warnings = load_pods(path.read_text(encoding="utf-8"), source=path.name, mode=Strictness.STRICT)
    assert warnings == []
    assert "---\n".join(to_yaml(pod_to_v1(pod)) for pod in pods) == expected(path)


@pytest.mark.parametrize("path", manifests("good"), ids=lambda path: path.stem)
def test_what_is_shown_of_a_good_manifest_reads_back_as_the_same_pods(path: Path) -> None:
    pods, _ = load_pods(path.read_text(encoding="utf-8"), source=path.name, mode=Strictness.STRICT)
    again, _ = load_pods(expected(path), source="shown", mode=Strictness.STRICT)
    assert again == pods


@pytest.mark.parametrize("path", manifests("bad"), ids=lambda path: path.stem)
def test_bad_manifest_is_refused_in_the_expected_words(path: Path) -> None:
    with pytest.raises(InvalidManifest) as caught:
        load_pods(path.read_text(encoding="utf-8"), source=path.name, mode=Strictness.STRICT)
    assert f"{caught.value}\n" == expected(path)


def test_gopher_pod_asks_for_one_gopher() -> None:
    pod = load((MANIFESTS / "good" / "gopher-pod.yaml").read_text(encoding="utf-8"))
    assert pod.name == "gopher-pod"
    (container,) = pod.spec.containers
    assert container.image == "busybox"
    assert container.command == ("sh", "-c", "echo Hello, Kubernetes! && sleep 3600")
    assert pod_request(pod).containers[0].limits == {ResourceName("example.com/gopher"): 1}


def test_everything_supported_becomes_values() -> None:
    pod = load((MANIFESTS / "good" / "everything-supported.yaml").read_text(encoding="utf-8"))
    prepare, watcher = pod.spec.init_containers
    assert (prepare.kind, watcher.kind) == (ContainerKind.INIT, ContainerKind.SIDECAR)
    assert watcher.args == ("--verbose", "22:22", "2024-01-01")
    (main,) = pod.spec.containers
    assert main.requests["cpu"] == Quantity.parse("500m")
    assert main.requests["example.com/gopher"] == main.limits["example.com/gopher"] == Quantity.parse("1")
    assert main.volume_mounts[1] == VolumeMount("host", "/host", read_only=True)
    assert [volume.source for volume in pod.spec.volumes] == [
        EmptyDir(size_limit=Quantity.parse("1Gi")),
        HostPath("/etc/gophers", HostPathType.DIRECTORY),
        EmptyDir(),
    ]
    assert pod.spec.restart_policy is RestartPolicy.ON_FAILURE
    assert pod.spec.termination_grace_period_s == 5
    assert pod.spec.active_deadline_s == 3600
    assert main.post_start == ExecAction(("touch", "/srv/started"))
    assert watcher.pre_stop == SleepAction(1)
    assert main.env[1] == EnvVar("NODE", field_path="spec.nodeName")
    assert pod.spec.node_name == "node-1"
    assert pod.spec.host_network
    assert main.ports == (ContainerPort(8080, 8080),), "on the host's network every port is a host port"
    assert pod.unused == {}
    assert pod.spec.placement.tolerations == (Toleration("example.com/gopher", TolerationOperator.EXISTS),)


# --- errors --------------------------------------------------------------------------------------------------------


def test_error_carries_field_line_and_source_of_each_problem() -> None:
    error = problem_of((MANIFESTS / "bad" / "unknown-fields.yaml").read_text(encoding="utf-8"))
    assert (error.field, error.line, error.source) == ("spec.restartpolicy", 5, "pod.yaml")
    assert [(each.field, each.line) for each in error.more] == [
        ("spec.colour", 6),
        ("spec.containers[0].volumeMount", 9),
        ("spec.containers[0].resources.limit", 11),
    ]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_json_objects_are_checked_alike_without_lines() -> None:
    with pytest.raises(InvalidManifest) as caught:
        pod_from_v1({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "P"}, "spec": {"containers": []}})
    error = caught.value
    assert (error.field, error.line) == ("metadata.name", None)
    assert [each.field for each in error.more] == ["spec.containers"]
    with pytest.raises(InvalidManifest, match="wants a Pod, found a list"):
        pod_from_v1([])


def test_line_of_a_merged_or_aliased_field_is_where_it_is_written() -> None:
    error = problem_of(
        """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - &base
    name: main
    image: [busybox]
  - <<: *base
    name: second
"""
    )
    assert [(each.field, each.line) for each in (error, *error.more)] == [
        ("spec.containers[0].image", 8),
        ("spec.containers[1].image", 8),
    ]


def test_deep_nesting_is_refused() -> None:
    assert problem_of("[" * 20_000).problem == "is nested too deeply"


# --- strictness ----------------------------------------------------------------------------------------------------

WARNED = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  colour: green
  subdomain: gopher
  containers:
  - name: main
    lifecycle: {preStop: {sleep: {seconds: 1}, tcpSocket: {port: 80}}}
"""


def test_lenient_drops_fields_with_a_warning() -> None:
    pods, warnings = load_pods(WARNED, source="pod.yaml", mode=Strictness.LENIENT)
    assert [str(warning) for warning in warnings] == [
        "pod.yaml:5: spec.colour: unknown field; ignored",
        "pod.yaml:6: spec.subdomain: not supported by plugbay's node yet; ignored",
        "pod.yaml:9: spec.containers[0].lifecycle.preStop.tcpSocket: not supported by plugbay's node yet; ignored",
    ]
    assert pods == [
        Pod(name="p", spec=PodSpec(containers=(Container(ContainerName("main"), pre_stop=SleepAction(1)),)))
    ]


def test_lenient_still_refuses_what_is_wrong() -> None:
    with pytest.raises(InvalidManifest, match="wants a string, found the number 5"):
        load_pods(WARNED.replace("main", "5"), source="pod.yaml", mode=Strictness.LENIENT)


def a_pod(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main"}], **spec},
    }


@pytest.mark.parametrize(
    ("field", "harmless", "harmful"),
    [
        ("hostUsers", True, False),
        ("os", {"name": "linux"}, {"name": "windows"}),
        ("setHostnameAsFQDN", False, True),
        ("ephemeralContainers", [], [{"name": "debug"}]),
        (
            "securityContext",
            {"appArmorProfile": {"type": "Unconfined"}},
            {"appArmorProfile": {"type": "RuntimeDefault"}},
        ),
        ("securityContext", {"seLinuxOptions": {}}, {"seLinuxOptions": {"level": "s0"}}),
        ("subdomain", "", "burrow"),
    ],
    ids=lambda value: json.dumps(value),
)
def test_unsupported_fields_pass_with_what_happens_anyway(field: str, harmless: object, harmful: object) -> None:
    assert pod_from_v1(a_pod(**{field: harmless})).unused == {}
    with pytest.raises(InvalidManifest, match="not supported by plugbay's node yet"):
        pod_from_v1(a_pod(**{field: harmful}))


def test_token_volume_of_the_server_is_dropped_only_where_the_server_puts_it() -> None:
    token = {"name": "kube-api-access-abcde", "projected": {"sources": []}}
    assert pod_from_v1(a_pod(volumes=[{"name": "data"}, token])).spec.volumes == (Volume("data", EmptyDir()),)
    assert len(pod_from_v1(a_pod(volumes=[token, {"name": "data"}])).spec.volumes) == 2


# --- the YAML dialect ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("=", "="),
        ("1.2.3", "1.2.3"),
        ("'yes'", "yes"),
        ('"\\ud83d\\ude00"', "😀"),
        ("!!str 5", "5"),
        ("|\n      a\n      b", "a\nb\n"),
    ],
    ids=repr,
)
def test_scalars_that_are_texts(scalar: str, value: str) -> None:
    pod = load(to_yaml(a_pod()).replace("- name: main", f"- name: main\n    args:\n    - {scalar}"))
    assert pod.spec.containers[0].args == (value,)


@pytest.mark.parametrize(
    ("scalar", "found"),
    [
        ("5", "the number 5"),
        ("0644", "the number 420"),
        ("0x1F", "the number 31"),
        ("1_000", "the number 1000"),
        ("1e3", "the number 1000.0"),
        ("-.inf", "the number -inf"),
        ("on", "the boolean true"),
        ("NO", "the boolean false"),
        ("~", "null"),
        ("", "null"),
    ],
)
def test_scalars_that_are_no_texts(scalar: str, found: str) -> None:
    error = problem_of(to_yaml(a_pod()).replace("- name: main", f"- name: main\n    args:\n    - {scalar}"))
    assert error.problem.removesuffix("; put it in quotes") == f"wants a string, found {found}"


def test_number_with_too_many_digits_is_refused() -> None:
    error = problem_of(f"apiVersion: v1\nkind: {'9' * 10_000}\n")
    assert (error.field, error.line) == ("kind", 2)
    assert "is not a usable number" in error.problem


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1:-~<= ", max_size=6), inner, max_size=3),
    max_leaves=12,
)


@given(st.text("aeny019.:-_+~<=Tx ", max_size=8))
def test_written_texts_stay_texts_here_and_in_pyyaml(text: str) -> None:
    written = to_yaml(a_pod(hostname=None) | {"metadata": {"name": "p", "annotations": {"key": text}}})
    assert load(written).annotations == {"key": text}
    assert yaml.safe_load(written)["metadata"]["annotations"] == {"key": text}


# --- round trip ----------------------------------------------------------------------------------------------------

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True, alphabet="abz019-")
printable = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
amounts = st.builds("{}{}".format, st.integers(0, 2000), st.sampled_from(["", "m", "k", "Mi", "e3"])).map(
    Quantity.parse
)
whole_amounts = st.integers(0, 2000).map(str).map(Quantity.parse)
paths = st.from_regex(r"(/[a-z0-9]{1,4}){1,3}", fullmatch=True, alphabet="abz019/")
env_names = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="="), min_size=1, max_size=6)


kinds = st.sampled_from(ConfigKind)
units = st.sampled_from(["limits.memory", "requests.ephemeral-storage"])
divisors = st.sampled_from(["1", "1k", "1Mi"]).map(Quantity.parse)
references = st.builds(ResourceReference, units, labels, divisors)
keys = st.builds(KeyReference, kinds, labels, labels, st.booleans())
variables = st.builds(EnvVar, env_names, printable) | st.builds(EnvVar, env_names, source=keys | references)
env_sources = st.builds(EnvSource, kinds, labels, st.just("") | env_names, st.booleans())
empty_dirs = st.builds(EmptyDir, st.booleans(), st.none() | whole_amounts)
modes = st.integers(0, 0o777)


@st.composite
def projections(draw: st.DrawFn) -> Projection:
    kind = draw(st.sampled_from(ProjectionKind))
    names = iter(draw(st.lists(labels, unique=True, min_size=6, max_size=6)))  # no path twice

    def key_files(of: ConfigKind) -> KeyFiles:
        items = draw(st.lists(st.builds(KeyFile, labels, st.just(next(names)), st.none() | modes), max_size=1))
        return KeyFiles(of, draw(labels), tuple(items), draw(st.booleans()))

    def field_files() -> FieldFiles:
        fields = st.sampled_from(["metadata.labels", "metadata.uid", "metadata.annotations['a']"]) | references
        item = st.builds(FieldFile, st.just(next(names)), fields, st.none() | modes)
        return FieldFiles(tuple(draw(st.lists(item, max_size=1))))

    match kind:
        case ProjectionKind.CONFIG_MAP:
            sources: list[ProjectedSource] = [key_files(ConfigKind.CONFIG_MAP)]
        case ProjectionKind.SECRET:
            sources = [key_files(ConfigKind.SECRET)]
        case ProjectionKind.DOWNWARD_API:
            sources = [field_files()]
        case ProjectionKind.PROJECTED:
            token = st.builds(TokenFile, st.just(next(names)), st.just("") | labels, st.integers(600, 10**5))
            sources = [key_files(draw(kinds)), field_files(), draw(token)]
            sources = sources[: draw(st.integers(0, 3))]
    return Projection(kind, tuple(sources), draw(modes))


@st.composite
def containers(draw: st.DrawFn, *, name: str, kind: ContainerKind, volumes: list[str]) -> Container:
    limits = draw(st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts))
    limits |= draw(st.dictionaries(st.sampled_from(["example.com/gopher", "example.org/mole"]), whole_amounts))
    mounts = draw(st.lists(paths, unique=True, max_size=3)) if volumes else []
    return Container(
        name=ContainerName(name),
        image=draw(printable),
        pull_policy=draw(st.none() | st.sampled_from(PullPolicy)),
        command=tuple(draw(st.lists(printable, max_size=3))),
        args=tuple(draw(st.lists(printable, max_size=3))),
        working_dir=draw(st.none() | paths),
        env=tuple(draw(st.lists(variables, max_size=3))),
        env_from=tuple(draw(st.lists(env_sources, max_size=2))),
        limits=limits,
        requests=limits | draw(st.dictionaries(st.just("ephemeral-storage"), amounts)),
        volume_mounts=tuple(
            VolumeMount(draw(st.sampled_from(volumes)), path, draw(st.booleans()), draw(st.just("") | labels))
            for path in mounts
        ),
        kind=kind,
    )


UNUSED: dict[FieldPath, object] = {
    ("spec", "hostIPC"): True,
    ("spec", "affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"): [{"weight": 1}],
    ("spec", "enableServiceLinks"): False,
    ("spec", "containers", 0, "resizePolicy"): [{"resourceName": "cpu"}],
}


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    sources = empty_dirs | st.builds(HostPath, paths, st.sampled_from(HostPathType)) | projections()
    volumes = [Volume(name, draw(sources)) for name in draw(st.lists(labels, unique=True, max_size=3))]
    names = [volume.name for volume in volumes]
    init_kinds = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=2))
    inits = [draw(containers(name=f"i{at}", kind=kind, volumes=names)) for at, kind in enumerate(init_kinds)]
    app_count = draw(st.integers(1, 2))
    apps = [draw(containers(name=f"c{at}", kind=ContainerKind.APP, volumes=names)) for at in range(app_count)]
    unused = draw(st.sets(st.sampled_from(list(UNUSED))))
    return Pod(
        name=draw(labels),
        namespace=draw(labels),
        uid=PodUid(draw(st.just("") | labels)),
        labels=draw(st.dictionaries(labels, st.just("") | labels, max_size=2)),
        annotations=draw(st.dictionaries(labels, printable, max_size=2)),
        generate_name=draw(st.just("") | labels),
        spec=PodSpec(
            containers=tuple(apps),
            init_containers=tuple(inits),
            volumes=tuple(volumes),
            restart_policy=draw(st.sampled_from(RestartPolicy)),
            termination_grace_period_s=draw(st.integers(0, 10**6)),
            node_name=draw(st.none() | labels),
            service_account=draw(st.just("") | labels),
            automount_token=draw(st.none() | st.booleans()),
            pull_secrets=tuple(draw(st.lists(labels, max_size=2))),
        ),
        unused={path: UNUSED[path] for path in unused},
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pods())
def test_pods_survive_v1_json_and_yaml(pod: Pod) -> None:
    v1 = pod_to_v1(pod)
    assert pod_from_v1(json.loads(json.dumps(v1))) == pod
    assert load(to_yaml(v1)) == pod
    assert pod_to_v1(pod_from_v1(v1)) == v1


@settings(max_examples=150, deadline=None)
@given(json_values, st.sampled_from(["metadata", "spec"]) | st.none())
def test_any_object_is_read_or_refused(value: object, under: str | None) -> None:
    v1 = {**a_pod(), under: value} if under else value
    with contextlib.suppress(InvalidManifest):
        assert isinstance(pod_from_v1(v1), Pod)


@settings(max_examples=150, deadline=None)
@given(st.text("ab:-?&*!|>'\"{}[],#%@` \n\t<~0\\\ufeff\x00\x85", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert problem_of(text).source == "pod.yaml"


def test_a_generated_name_may_begin_with_more_than_fits() -> None:
    """It is cut when the name is made; a node that refused it could not read the pods that it took in before."""
    metadata = {"generateName": "g" * 300}
    v1 = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert pod_from_v1(v1).generate_name == "g" * 300
