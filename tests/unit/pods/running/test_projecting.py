"""What files and variables hold, of the objects that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import ContainerStartError, VolumeUnusable
from plugbay.model.expansion import container_env
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, EnvVar, Pod, PodSpec, Volume, VolumeMount
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
from plugbay.model.security import Security
from plugbay.pods.running.configs import ConfigData, ConfigKey
from plugbay.pods.running.projecting import (
    ACCOUNT_DIRECTORY,
    EnvGrounds,
    Payload,
    ProjectedFile,
    config_keys,
    payload,
    with_account_volume,
    with_values,
)

MAP, SECRET = ConfigKind.CONFIG_MAP, ConfigKind.SECRET
OBJECTS = {
    ConfigKey(MAP, "lab", "settings"): ConfigData({"a": b"1", "b": b"$(A) $$"}, {"raw": b"\xff\0"}),
    ConfigKey(SECRET, "lab", "key"): ConfigData({"password": b"s3\xff"}),
}
CAPACITY = {"cpu": 2500, "memory": 2**30}
TOKEN = TokenFile("token")
MAIN = Container(
    ContainerName("main"),
    limits={"cpu": Quantity.parse("1500m")},
    requests={"cpu": Quantity.parse("1500m"), "memory": Quantity.parse("3Mi")},
)


def a_pod(container: Container = MAIN, *volumes: Volume, security: Security | None = None) -> Pod:
    spec = PodSpec((container,), volumes=volumes, security=security or Security())
    return Pod("p", spec, "lab", PodUid("u"), {"tier": "web"}, {})


def written(*sources: ProjectedSource, mode: int = 0o644, pod: Pod | None = None) -> Payload:
    return payload(
        "v",
        Projection(ProjectionKind.PROJECTED, sources, mode),
        pod or a_pod(),
        lookup=OBJECTS.get,
        tokens={TOKEN: "t0k3n"},
        capacity=CAPACITY,
    )


def contents(files: Payload) -> dict[str, bytes]:
    return {path: file.content for path, file in files.items()}


def env(*variables: EnvVar, sources: tuple[EnvSource, ...] = (), services: Mapping[str, str] | None = None) -> object:
    container = replace(MAIN, env=variables, env_from=sources)
    grounds = EnvGrounds(OBJECTS.get, CAPACITY, "10.0.0.1", (), services or {})
    return container_env(with_values(container, a_pod(container), grounds))


def problem(*variables: EnvVar, sources: tuple[EnvSource, ...] = ()) -> str:
    with pytest.raises(ContainerStartError) as caught:
        env(*variables, sources=sources)
    assert caught.value.reason == "CreateContainerConfigError"
    return str(caught.value)


# --- files ----------------------------------------------------------------------------------------------------------


def test_every_key_is_a_file_of_its_name() -> None:
    assert written(KeyFiles(MAP, "settings"), mode=0o400) == {
        "a": ProjectedFile(b"1", 0o400),
        "b": ProjectedFile(b"$(A) $$", 0o400),
        "raw": ProjectedFile(b"\xff\0", 0o400),
    }


def test_items_choose_keys_paths_and_modes() -> None:
    items = (KeyFile("raw", "deep/raw", 0o600), KeyFile("a", "first"))
    assert written(KeyFiles(MAP, "settings", items)) == {
        "deep/raw": ProjectedFile(b"\xff\0", 0o600),
        "first": ProjectedFile(b"1", 0o644),
    }


def test_what_is_optional_may_be_missing() -> None:
    assert written(KeyFiles(MAP, "nothing", optional=True), KeyFiles(SECRET, "nothing", optional=True)) == {}
    missing, there = KeyFile("nothing", "n"), KeyFile("a", "a")
    assert list(written(KeyFiles(MAP, "settings", (missing, there), optional=True))) == ["a"]


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ((KeyFiles(MAP, "nothing"),), 'configmap "nothing" not found'),
        ((KeyFiles(SECRET, "nothing"),), 'secret "nothing" not found'),
        (
            (KeyFiles(MAP, "settings", (KeyFile("x", "x"),)),),
            "configmap references non-existent config key: x",
        ),
        ((KeyFiles(SECRET, "key", (KeyFile("x", "x"),)),), "references non-existent secret key: x"),
        (
            (KeyFiles(SECRET, "one"), KeyFiles(MAP, "two")),
            '[secret "one" not found, configmap "two" not found]',
        ),
    ],
)
def test_what_is_missing_is_told_in_a_kubelets_words(sources: tuple[ProjectedSource, ...], words: str) -> None:
    with pytest.raises(VolumeUnusable) as caught:
        written(*sources)
    assert str(caught.value) == f'MountVolume.SetUp failed for volume "v" : {words}'


@pytest.mark.parametrize("key", ["..data", "..", "a/../b", "/a", "", "."])
def test_no_key_leads_out_of_the_volume(key: str) -> None:
    objects = {ConfigKey(SECRET, "lab", "odd"): ConfigData({key: b""})}
    projection = Projection(ProjectionKind.SECRET, (KeyFiles(SECRET, "odd"),))
    with pytest.raises(VolumeUnusable, match="cannot be a path in a volume"):
        payload("v", projection, a_pod(), lookup=objects.get, tokens={}, capacity={})


def test_fields_and_resources_are_files() -> None:
    fields = FieldFiles(
        (
            FieldFile("labels", "metadata.labels"),
            FieldFile("cpu", ResourceReference("limits.cpu", "main"), 0o600),
            FieldFile("memory", ResourceReference("limits.memory", "main", Quantity.parse("1Mi"))),
            FieldFile("asked", ResourceReference("requests.memory", "main", Quantity.parse("2Mi"))),
        )
    )
    files = written(fields)
    assert contents(files) == {"labels": b'tier="web"', "cpu": b"2", "memory": b"1024", "asked": b"2"}
    assert files["cpu"].mode == 0o600


def test_a_token_is_for_the_user_of_the_containers_alone() -> None:
    assert written(TOKEN) == {"token": ProjectedFile(b"t0k3n", 0o644)}
    assert written(TOKEN, pod=a_pod(security=Security(run_as_user=7))) == {"token": ProjectedFile(b"t0k3n", 0o600, 7)}
    assert written(TOKEN, pod=a_pod(security=Security(fs_group=7))) == {"token": ProjectedFile(b"t0k3n", 0o600)}


def test_the_account_is_added_where_the_container_has_nothing() -> None:
    own = VolumeMount("mine", ACCOUNT_DIRECTORY)
    spec = PodSpec((MAIN, replace(MAIN, name=ContainerName("own"), volume_mounts=(own,))))
    pod = with_account_volume(Pod("p", spec, "lab"))
    main, other = pod.spec.containers
    assert main.volume_mounts == (VolumeMount("kube-api-access-0", ACCOUNT_DIRECTORY, read_only=True),)
    assert other.volume_mounts == (own,)
    assert config_keys(pod) == {ConfigKey(MAP, "lab", "kube-root-ca.crt")}


# --- variables ------------------------------------------------------------------------------------------------------


def test_variables_come_from_keys_fields_and_resources_and_are_not_expanded() -> None:
    assert env(
        EnvVar("A", "a"),
        EnvVar("B", source=KeyReference(MAP, "settings", "b")),
        EnvVar("P", source=KeyReference(SECRET, "key", "password")),
        EnvVar("CPU", source=ResourceReference("limits.cpu", divisor=Quantity.parse("1m"))),
        EnvVar("IP", field_path="status.podIP"),
        EnvVar("ALL", "$(A) $(B) $(P)"),
    ) == {
        "A": "a",
        "B": "$(A) $$",
        "P": "s3\udcff",
        "CPU": "1500",
        "IP": "10.0.0.1",
        "ALL": "a $(A) $$ s3\udcff",
    }


def test_all_keys_become_variables_and_own_ones_win() -> None:
    sources = (EnvSource(MAP, "settings"), EnvSource(SECRET, "key", "K_"), EnvSource(MAP, "none", optional=True))
    assert env(EnvVar("a", "mine $(K_password)"), sources=sources) == {
        "a": "mine s3\udcff",
        "b": "$(A) $$",
        "K_password": "s3\udcff",
    }, "a binary value is not a variable"


def test_an_optional_key_that_is_missing_leaves_its_variable_out() -> None:
    missing = KeyReference(MAP, "settings", "x", optional=True)
    assert env(EnvVar("X", source=missing), EnvVar("Y", source=replace(missing, name="none"))) == {}


def test_the_variables_of_the_api_give_way() -> None:
    services = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = env(EnvVar("KUBERNETES_SERVICE_PORT", "1"), EnvVar("H", "$(KUBERNETES_SERVICE_HOST)"), services=services)
    assert found == {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1", "H": "127.0.0.1"}


def test_missing_values_are_told_in_a_kubelets_words() -> None:
    assert problem(EnvVar("X", source=KeyReference(MAP, "none", "x"))) == 'configmap "none" not found'
    assert problem(sources=(EnvSource(SECRET, "none"),)) == 'secret "none" not found'
    assert problem(EnvVar("X", source=KeyReference(MAP, "settings", "x"))) == (
        "couldn't find key x in ConfigMap lab/settings"
    )
    assert problem(EnvVar("X", source=KeyReference(SECRET, "key", "x"))) == "couldn't find key x in Secret lab/key"
    assert problem(EnvVar("X", source=KeyReference(MAP, "settings", "raw"))).startswith("couldn't find key raw")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_whatever_a_key_holds_arrives_as_it_is(text: str) -> None:
    objects = {ConfigKey(MAP, "lab", "m"): ConfigData({"k": text.encode()})}
    container = replace(MAIN, env=(EnvVar("K", source=KeyReference(MAP, "m", "k")),), env_from=(EnvSource(MAP, "m"),))
    found = container_env(with_values(container, a_pod(container), EnvGrounds(objects.get, {}, "", (), {})))
    assert found == {"k": text, "K": text}
