"""A scene ends at some time, and not before a plugin has had the times that it was given."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import all_rules
from plugbay.testing.conformance.rule import AnyScene
from plugbay.testing.conformance.rules.life.instances import FIRST_ENDS, KILLED, SECOND_ENDS
from plugbay.testing.conformance.rules.lists import RESTARTED
from plugbay.testing.conformance.rules.restarts.manners import CLEARED, NEW_DIRECTORY, NEW_SOCKET
from plugbay.testing.conformance.rules.restarts.streams import LOSSES
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand

LONG_S: Final = 10_000.0
SCENES: Final = tuple({id(each.scene): each.scene for each in all_rules()}.values())


def settings(*, ready_timeout_s: float = 1.0, retry_timeout_s: float = 1.0) -> ConformanceSettings:
    return ConformanceSettings(
        PluginCommand(("plugin",)), ready_timeout_s=ready_timeout_s, retry_timeout_s=retry_timeout_s
    )


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_each_scene_waits_for_a_plugin_that_starts_slowly(scene: AnyScene) -> None:
    assert scene.limit_s(settings(ready_timeout_s=LONG_S)) > LONG_S


@pytest.mark.parametrize("scene", [RESTARTED, KILLED, FIRST_ENDS, SECOND_ENDS], ids=lambda scene: scene.name)
def test_scene_with_two_starts_waits_for_both(scene: AnyScene) -> None:
    assert scene.limit_s(settings(ready_timeout_s=LONG_S)) > 2 * LONG_S


@pytest.mark.parametrize("scene", [NEW_SOCKET, CLEARED, NEW_DIRECTORY, LOSSES], ids=lambda scene: scene.name)
def test_scene_with_a_restart_of_the_kubelet_waits_until_the_plugin_tries_again(scene: AnyScene) -> None:
    assert scene.limit_s(settings(retry_timeout_s=LONG_S)) > LONG_S


def test_plugin_that_starts_while_the_kubelet_is_away_has_the_longer_time() -> None:
    assert settings(ready_timeout_s=60, retry_timeout_s=35).start_again_s == 60
    assert settings(ready_timeout_s=20, retry_timeout_s=35).start_again_s == 35
