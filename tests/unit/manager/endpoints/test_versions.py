from __future__ import annotations

from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RegistrationRefused
from plugbay.manager.endpoints import versions
from plugbay.manager.endpoints.versions import PluginVersion, accept_version, accept_versions, negotiate


def test_a_single_version_must_be_ours() -> None:
    assert accept_version("v1beta1") is PluginVersion.V1BETA1
    with pytest.raises(RegistrationRefused) as caught:
        accept_version("v1beta1 ")
    assert str(caught.value) == (
        'requested API version "v1beta1 " is not supported by kubelet. Supported version is ["v1beta1"]'
    )


@pytest.mark.parametrize(
    ("offered", "listed"), [([], "[]"), (["v1alpha", "v2"], "[v1alpha v2]"), (["V1beta1"], "[V1beta1]")]
)
def test_a_list_without_our_version_is_refused(offered: list[str], listed: str) -> None:
    with pytest.raises(RegistrationRefused) as caught:
        accept_versions(offered)
    assert str(caught.value) == f"manager version, v1beta1, is not among plugin supported versions {listed}"


@given(st.lists(st.sampled_from(["v1", "v1alpha", "v1beta1", "v2", ""])))
def test_order_and_repetition_of_a_list_do_not_matter(offered: list[str]) -> None:
    assert (negotiate(offered) is PluginVersion.V1BETA1) is ("v1beta1" in offered)


class TwoVersions(Enum):
    """A day when there is another API, which is better."""

    V1 = "v1"
    V1BETA1 = "v1beta1"


@pytest.fixture
def two_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PluginVersion", TwoVersions)


@pytest.mark.usefixtures("two_versions")
@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v1"], "v1"),
        (["v1beta1"], "v1beta1"),
        (["v1beta1", "v1"], "v1"),
        (["v2", "v1beta1"], "v1beta1"),
    ],
)
def test_of_several_versions_the_best_that_both_speak_is_chosen(offered: list[str], chosen: str) -> None:
    assert accept_versions(offered).value == chosen
    assert accept_version(chosen).value == chosen


@pytest.mark.usefixtures("two_versions")
def test_refusals_name_every_version_of_ours() -> None:
    with pytest.raises(RegistrationRefused, match=r'^requested API version "v2" .* \["v1" "v1beta1"\]$'):
        accept_version("v2")
    with pytest.raises(RegistrationRefused, match=r"^manager version, v1 v1beta1, .* versions \[v2\]$"):
        accept_versions(["v2"])
