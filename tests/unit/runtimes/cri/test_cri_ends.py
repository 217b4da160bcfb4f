"""Why a container ended, as a scripted engine and its log tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugbay.model.termination import MessagePolicy, TerminationMessage
from tests.container_specs import changed
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine
from tests.unit.runtimes.cri.scripted_runtime import SPEC, Runtime, mounts, runtime

__all__ = ["runtime"]


async def run_to_end(
    engine: ScriptedEngine, runtime: Runtime, *, writes: bytes, logs: str, code: int, message: str = "", **said: Any
) -> str:
    """What the container says of its end."""
    started = await runtime.start(changed(SPEC, message=TerminationMessage(**said)))
    mounts(engine)[said.get("path", "/dev/termination-log")].write_bytes(writes)
    log = Path(engine.containers[started.id].log_path)
    log.write_text("".join(f"2026-01-01T00:00:00Z stderr F {line}\n" for line in logs.splitlines()))
    engine.end(started.id, code, "Completed" if code == 0 else "Error", message)
    return (await runtime.wait(started.id)).message


FALL_BACK = MessagePolicy.FALLBACK_TO_LOGS


@pytest.mark.parametrize(
    ("said", "writes", "code", "message"),
    [
        pytest.param({}, b"done", 0, "done", id="file"),
        pytest.param({"path": "/tmp/end"}, b"failed", 3, "failed", id="own-path"),
        pytest.param({}, b"", 3, "", id="nothing"),
        pytest.param({"policy": FALL_BACK}, b"own", 3, "own", id="file-before-log"),
        pytest.param({"policy": FALL_BACK}, b"", 3, "one\ntwo\n", id="log"),
        pytest.param({"policy": FALL_BACK}, b"", 0, "", id="no-log-of-success"),
        pytest.param({}, b"x" * 5000, 0, "x" * 4096, id="too-long"),
        pytest.param({}, b"\xff", 0, "\ufffd", id="no-text"),
    ],
)
async def test_a_container_says_why_it_ended(
    engine: ScriptedEngine, runtime: Runtime, said: dict[str, Any], writes: bytes, code: int, message: str
) -> None:
    assert await run_to_end(engine, runtime, writes=writes, logs="one\ntwo", code=code, **said) == message


async def test_its_words_come_after_the_engines(engine: ScriptedEngine, runtime: Runtime) -> None:
    assert await run_to_end(engine, runtime, writes=b"mine", logs="", code=1, message="engine's") == "engine's: mine"


async def test_the_end_of_a_long_log_is_enough(engine: ScriptedEngine, runtime: Runtime) -> None:
    logs = "\n".join(f"line {number:03}" for number in range(500))
    message = await run_to_end(engine, runtime, writes=b"", logs=logs, code=1, policy=FALL_BACK)
    assert message == "".join(f"line {number:03}\n" for number in range(420, 500))


async def test_links_and_pipes_in_place_of_the_message_are_not_followed(
    engine: ScriptedEngine, runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    started = await runtime.start(SPEC)
    file = mounts(engine)["/dev/termination-log"]
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    engine.end(started.id, 0, "Completed")
    assert "secret" not in (await runtime.wait(started.id)).message
    await runtime.remove(started.id)
    assert list(file.parent.iterdir()) == []
    assert (tmp_path / "secret").exists()
