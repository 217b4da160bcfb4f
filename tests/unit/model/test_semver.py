from __future__ import annotations

import pytest

from plugbay import Device
from plugbay.errors import InvalidDevice, InvalidVersion
from plugbay.model.semver import SemVer


@pytest.mark.parametrize("text", ["0.0.0", "535.104.5", "1.2.3-rc.1", "1.2.3-0a.-", "1.2.3+build.007", "1.2.3-a+b"])
def test_versions(text: str) -> None:
    device = Device("a", attributes={"driver": SemVer(text)})
    assert str(device.attributes["driver"]) == text


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3\n", "1.2.3+" + "x" * 60])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidVersion, match="is not a semantic version"):
        SemVer(text)


def test_list_is_of_one_type() -> None:
    assert Device("a", attributes={"driver": (SemVer("1.0.0"), SemVer("2.0.0"))})
    with pytest.raises(InvalidDevice, match="is a list of several types"):
        Device("a", attributes={"driver": (SemVer("1.0.0"), "2.0.0")})
