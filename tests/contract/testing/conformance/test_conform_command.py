"""`plugbay conform` as users run it: its table, its files, its exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.contract.rigs.stock_release import until_files
from tests.contract.testing.conformance.test_small_flaws import PLUGIN

DEADLINE_S = 60


async def conform(*words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "plugbay",
        "conform",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def plugin(flaw: str) -> list[str]:
    return ["--", sys.executable, PLUGIN, flaw, "{root}"]


async def test_plugin_that_passes(tmp_path: Path) -> None:
    code, out, err = await conform("--only", "PB3xx", "--html", str(tmp_path / "r.html"), *plugin("none"))
    assert (code, err) == (0, "")
    assert "PB303   must       ok" in out
    assert "0 failed" in out
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


async def test_plugin_that_fails_with_all_reports(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"report.{kind}" for kind in ("json", "junit", "html")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    code, out, _ = await conform("--only", "PB303,PB304", *options, *plugin("duplicate IDs"))
    assert code == 1
    assert "PB303   must       FAILED" in out
    assert "'d1' is more than once in a list" in out
    assert json.loads(files["json"].read_text())["summary"]["failed"] == 1
    assert ElementTree.fromstring(files["junit"].read_text()).attrib["failures"] == "1"
    assert "more than once in a list" in files["html"].read_text()


async def test_lesser_finding_fails_only_if_it_shall() -> None:
    assert (await conform("--only", "PB206", *plugin("prefers unasked")))[0] == 0
    assert (await conform("--only", "PB206", "--fail-on", "info", *plugin("prefers unasked")))[0] == 1


async def test_baseline_is_written_and_heeded(tmp_path: Path) -> None:
    known = str(tmp_path / "known.json")
    code, _, _ = await conform("--only", "PB303", "--write-baseline", known, *plugin("duplicate IDs"))
    assert code == 1
    code, out, _ = await conform("--only", "PB303", "--baseline", known, *plugin("duplicate IDs"))
    assert code == 0
    assert "known" in out


async def test_report_can_take_the_place_of_the_table() -> None:
    code, out, err = await conform("--only", "PB101", "--json", "-", "--", sys.executable, "-c", "print('x')", "{root}")
    assert code == 1
    assert json.loads(out)["verdicts"][0]["rule"] == "PB101"
    assert "0 passed, 1 failed" in err


async def test_plugin_finds_the_kubelet_at_its_usual_place() -> None:
    words = ["--", sys.executable, PLUGIN, "none", "/var/lib/kubelet"]
    code, out, _ = await conform("--only", "PB101", *words)
    assert (code, "1 passed" in out) == (0, True), out


async def test_rules_can_be_listed_and_explained() -> None:
    code, out, _ = await conform("--list")
    assert code == 0
    assert "PB101   must" in out
    code, out, _ = await conform("--list", "--only", "PB3xx", "--skip", "PB303")
    assert code == 0
    assert "PB302" in out
    assert not {"PB101", "PB303"} & {*out.split()}
    code, out, _ = await conform("--explain", "pb105")
    assert code == 0
    assert out.startswith("# PB105")


async def test_misuse_is_told_in_a_sentence() -> None:
    assert (await conform())[::2] == (
        2, "plugbay: error: say what to judge after --, such as: plugbay conform -- ./my-plugin\n"
    )  # fmt: skip
    assert await conform("--", "") == (
        2, "", "plugbay: error: the program after -- has an empty name; say which one to run\n"
    )  # fmt: skip
    code, _, err = await conform("--only", "PB9", *plugin("none"))
    assert (code, err) == (2, "plugbay: error: PB9 is not a rule; `plugbay conform --list` shows all\n")
    code, _, err = await conform("--baseline", "/nothing/here", *plugin("none"))
    assert (code, err) == (1, "plugbay: error: /nothing/here: cannot be read: No such file or directory\n")
    code, _, err = await conform("--jobs", "many", *plugin("none"))
    assert code == 2
    assert "wants a number from 1 to 64, found many" in err


async def test_run_that_is_told_to_end_leaves_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    program = "import os, pathlib, signal, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); signal.pause()"
    words = (sys.executable, "-m", "plugbay", "conform", "--", sys.executable, "-c", program, str(marker), "{root}")
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
    async with asyncio.timeout(DEADLINE_S):
        await until_files([marker], lambda: marker.exists() and bool(marker.read_text()))
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 130
    assert not Path(f"/proc/{marker.read_text()}").exists()


async def test_image_that_is_not_one_is_told_in_a_sentence(tmp_path: Path) -> None:
    code, _, err = await conform("--image", str(tmp_path / "none.tar"))
    if os.geteuid() == 0:
        assert (code, "none.tar: is not an image that can be unpacked" in err) == (1, True), err
    else:
        assert (code, "--image takes root" in err) == (2, True), err
    code, _, err = await conform("--mount", "/etc", *plugin("none"))
    assert (code, err) == (
        2, "plugbay: error: --mount is for a plugin in a container: it goes with --image\n"
    )  # fmt: skip


async def test_report_that_cannot_be_written_is_told_of_before_the_run(tmp_path: Path) -> None:
    for path, told in (
        (tmp_path, "it is a directory"),
        (tmp_path / "none" / "report.json", f"{tmp_path}/none is not a directory"),
    ):
        started = tmp_path / "started"
        code, out, err = await conform("--json", str(path), "--", "sh", "-c", f"touch {started} # {{root}}")
        assert (code, out) == (1, "")
        assert err == f"plugbay: error: {path}: cannot be written: {told}\n"
        assert not started.exists()


@pytest.mark.parametrize("place", ["-", "report"])
async def test_two_reports_do_not_go_to_one_place(tmp_path: Path, place: str) -> None:
    path = place if place == "-" else str(tmp_path / place)
    other = path if place == "-" else f"{tmp_path}/./{place}"
    code, out, err = await conform("--json", path, "--html", other, "--", "true")
    assert (code, out) == (2, "")
    assert "two reports would be written to" in err
    assert list(tmp_path.iterdir()) == []


async def test_one_reason_for_many_rules_is_told_once() -> None:
    code, out, _ = await conform("--only", "PB1xx", "--", "sh", "-c", "echo no card >&2; exit 3 # {root}")
    assert code == 1
    assert out.count("the plugin registered no resource\n") == 1
    assert "PB101 The plugin registers with the kubelet\n" in out
    assert "could not be judged\n" in out
    assert "\n  no card\n" in out
