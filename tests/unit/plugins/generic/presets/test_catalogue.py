"""Each preset is a config that can be served as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import UsageError
from plugbay.plugins.generic.config.reading import examine_config
from plugbay.plugins.generic.presets import catalogue
from plugbay.plugins.generic.presets.catalogue import PRESETS, preset_text, presets_text


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_sound(name: str) -> None:
    found = examine_config(preset_text(name), source=f"{name}.yaml")
    assert (found.errors, found.warnings) == ((), ())
    assert found.config is not None
    assert len(found.config.entries) == 1
    assert found.config.entries[0].domain == "devices.example.com"


@pytest.mark.parametrize("name", PRESETS)
def test_presets_begin_with_a_comment_for_their_readers(name: str) -> None:
    assert preset_text(name).startswith("# ")


def test_every_text_is_listed() -> None:
    assert {path.stem for path in Path(catalogue.__file__).parent.glob("*.yaml")} == set(PRESETS)


@pytest.mark.parametrize(
    ("name", "words"), [("fues", 'did you mean "fuse"?'), ("../kvm", "kvm"), ("x", "known are kvm")]
)
def test_an_unknown_name_is_told_with_what_was_meant(name: str, words: str) -> None:
    with pytest.raises(UsageError, match="there is no preset") as caught:
        preset_text(name)
    assert words in str(caught.value)


def test_several_presets_are_one_sound_config_with_all_their_comments() -> None:
    text = presets_text([*PRESETS, "kvm"])
    found = examine_config(text, source="all.yaml")
    assert (found.errors, found.warnings) == ((), ())
    alone = [examine_config(preset_text(name), source="").config for name in PRESETS]
    assert found.config is not None
    assert found.config.entries == tuple(each.entries[0] for each in alone if each is not None)
    assert text.count("# ") == sum(preset_text(name).count("# ") for name in PRESETS)
