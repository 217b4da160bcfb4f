"""Images on a scripted engine: when they are pulled, with which logins, and what failures come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.images import PullPolicy
from plugbay.model.registry_logins import PullAccess, RegistryLogin
from plugbay.runtimes.cri.images import elapsed
from tests.container_specs import changed
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine
from tests.unit.runtimes.cri.scripted_runtime import SPEC, Runtime, runtime

__all__ = ["runtime"]


async def test_an_image_that_is_there_is_not_pulled(engine: ScriptedEngine, runtime: Runtime) -> None:
    assert await runtime.tries(SPEC) == ""
    assert [each.message for each in runtime.told] == [
        'Container image "img:1" already present on machine and can be accessed by the pod'
    ]
    assert engine.asked("PullImage") == []


async def test_one_that_is_not_is_pulled_and_told_of(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable = {"new:latest"}
    assert await runtime.tries(changed(SPEC, image="new")) == ""
    assert [(each.reason, each.message) for each in runtime.told] == [
        ("Pulling", 'Pulling image "new"'),
        ("Pulled", 'Successfully pulled image "new" in 0s (0s including waiting). Image size: 0 bytes.'),
    ]


async def test_always_pulls_what_is_there(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable = {"img:1"}
    assert await runtime.tries(changed(SPEC, pull_policy=PullPolicy.ALWAYS)) == ""
    assert runtime.reasons == ["Pulling", "Pulled"]


@pytest.mark.parametrize(
    ("image", "policy", "reason", "events"),
    [
        pytest.param("none:1", PullPolicy.NEVER, "ErrImageNeverPull", ["ErrImageNeverPull"], id="never"),
        pytest.param("none:1", PullPolicy.IF_NOT_PRESENT, "ErrImagePull", ["Pulling", "Failed"], id="no-such-image"),
        pytest.param("No/Name", PullPolicy.ALWAYS, "InvalidImageName", ["InspectFailed"], id="no-name"),
    ],
)
async def test_why_an_image_is_not_there(
    runtime: Runtime, image: str, policy: PullPolicy, reason: str, events: list[str]
) -> None:
    assert await runtime.tries(changed(SPEC, image=image, pull_policy=policy)) == reason
    assert runtime.reasons == events


async def test_an_engine_that_cannot_look_says_so(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.failures["ImageStatus"] = [RpcFailed(RpcCode.UNAVAILABLE, "down")]
    assert await runtime.tries(SPEC) == "ImageInspectError"
    assert [each.message for each in runtime.told] == [
        'Failed to inspect image "img:1": rpc error: code = Unavailable desc = down'
    ]


async def test_an_image_is_pulled_with_the_logins_of_its_pod(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable, engine.passwords = {"r.example/a:1"}, {"r.example/a:1": "right"}
    wanted = changed(SPEC, image="r.example/a:1")
    assert await runtime.tries(wanted) == "ErrImagePull"
    logins = tuple(
        RegistryLogin(place, "u", word) for place, word in (("r.example/a", "wrong"), ("r.example", "right"))
    )
    assert await runtime.tries(replace(wanted, pull=PullAccess(logins))) == "", "at once, as the logins are new"
    assert [each.auth.password for each in engine.asked("PullImage")] == ["", "wrong", "right"]


async def test_a_missing_secret_is_told_before_the_pull(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable = {"new:1"}
    assert await runtime.tries(replace(changed(SPEC, image="new:1"), pull=PullAccess(missing=("one", "two")))) == ""
    assert runtime.reasons == ["FailedToRetrieveImagePullSecret", "Pulling", "Pulled"]
    assert runtime.told[0].message == (
        "Unable to retrieve some image pull secrets (one, two); attempting to pull the image may not succeed."
    )


async def test_a_failed_pull_is_left_alone_for_longer_and_longer(engine: ScriptedEngine, runtime: Runtime) -> None:
    wanted = changed(SPEC, image="late:1")
    assert await runtime.tries(wanted) == "ErrImagePull"
    for pause_s in (10, 20, 40):
        runtime.clock.advance(pause_s - 1)
        assert await runtime.tries(wanted) == "ImagePullBackOff"
        assert [(each.reason, each.message) for each in runtime.told] == [
            ("BackOff", 'Back-off pulling image "late:1"')
        ]
        runtime.clock.advance(1)
        assert await runtime.tries(wanted) == "ErrImagePull"
    assert len(engine.asked("PullImage")) == 4
    engine.pullable = {"late:1"}
    runtime.clock.advance(80)
    assert await runtime.tries(wanted) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0204, "20ms"), (1.5, "1.5s"), (59.9999, "59.999s"), (62, "1m2s"), (3661.25, "61m1.25s")],
)
def test_durations_are_those_of_go(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text
