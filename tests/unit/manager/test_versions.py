from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RegistrationRefused
from plugbay.manager.versions import ApiVersion, accept_version, accept_versions, negotiate


def test_a_single_version_must_be_ours() -> None:
    assert accept_version("v1beta1") is ApiVersion.V1BETA1
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
    assert (negotiate(offered) is ApiVersion.V1BETA1) is ("v1beta1" in offered)
