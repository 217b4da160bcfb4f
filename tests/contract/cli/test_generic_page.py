"""The page about the generic plugin: its configs are sound, and its commands print what it shows."""

from __future__ import annotations

import os
import shlex
import stat
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from plugbay.plugins.generic.config.fields import FILE
from plugbay.plugins.generic.config.reading import read_config
from plugbay.plugins.generic.serving.counts import LookCounts
from plugbay.plugins.generic.serving.measuring import compat_metrics, generic_metrics
from tests.contract.cli.test_check_config import plugbay
from tests.sysfs_trees import lay_out
from tests.test_docs import ALL, Block
from tests.unit.plugins.generic.config.test_every_field import fields_of

PAGE: Final = "docs/generic.md"
BLOCKS: Final = [block for block in ALL if block.page == PAGE]
CONFIGS: Final = [block for block in BLOCKS if block.language == "yaml" and not block.before.endswith("-->")]


@pytest.mark.parametrize("block", CONFIGS, ids=lambda block: str(block.line))
def test_configs_are_sound(block: Block) -> None:
    config = read_config(block.text, source=f"{PAGE}:{block.line}")
    assert config.warnings == ()


def test_the_page_names_every_field() -> None:
    text = Path(__file__).parents[3].joinpath(PAGE).read_text(encoding="utf-8")
    names = {name for _, name in fields_of(FILE, set())} - {"$schema"}
    assert {name for name in names if f"`{name}" not in text and f"{name}:" not in text} == set()


def test_the_page_names_every_metric() -> None:
    text = Path(__file__).parents[3].joinpath(PAGE).read_text(encoding="utf-8")
    metrics = (*generic_metrics(LookCounts(), 0, ()), *compat_metrics(()))
    assert [each.name for each in metrics if f"`{each.name}`" not in text] == []


@pytest.mark.root
async def test_outputs_are_those_of_the_commands_before_them(tmp_path: Path) -> None:
    """On the recorded machine with four identical sticks; /dev/kvm has to be a device node there."""
    lay_out("usb-sticks", tmp_path / "machine")
    os.mknod(tmp_path / "machine/dev/kvm", stat.S_IFCHR | 0o600, os.makedev(10, 232))
    (tmp_path / "devices.yaml").write_text(CONFIGS[0].text)
    shown = [
        (command.text.split(), output.text)
        for command, output in pairwise(BLOCKS)
        if command.language == "sh" and output.language == "text"
    ]
    assert len(shown) == 2
    for words, output in shown:
        done = await plugbay(tmp_path, *words[1:], "--machine-root", str(tmp_path / "machine"))
        assert (done.code, done.out) == (0, output), shlex.join(words)


async def test_mistakes_are_told_as_shown(tmp_path: Path) -> None:
    config, output = next(
        (before, after) for before, after in pairwise(BLOCKS) if before.language == "yaml" and after.language == "text"
    )
    (tmp_path / "devices.yaml").write_text(config.text)
    assert await plugbay(tmp_path, "check", "devices.yaml") == (1, output.text, "")
