"""Every fenced block of the documentation is run, or says why not; the rule is in CONTRIBUTING.md."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from plugbay.manifest import Strictness, load_pods
from plugbay.plugins.generic.config.reading import read_config
from plugbay.testing.fakenvml import find_compiler
from tests.pytest_runs import LOADING

REPOSITORY: Final = Path(__file__).parents[1]
PAGES: Final = [
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(REPOSITORY.glob(pattern))
]

PICTURES: Final = frozenset({"", "text"})
FENCE: Final = re.compile(r"(?P<indent> *)(?P<ticks>```+)(?P<language>\S*)\s*")
EXCUSE: Final = re.compile(r"<!-- (?P<kind>tested by|not run): (?P<words>.*\S) -->")
TESTS: Final = re.compile(r"^def test_", re.MULTILINE)
CALLED: Final = re.compile(r"^test_\w+\(", re.MULTILINE)
POD: Final = re.compile(r"^kind: Pod$", re.MULTILINE)
DEVICES: Final = re.compile(r"\A(domain: .*\ndevices:|- devicematch: .*)$", re.MULTILINE)
"""The beginning of a config of the generic plugin, or of smarter-device-manager."""
TARGET: Final = re.compile(r"^(?P<name>[a-z][a-z0-9-]*):(?!=)", re.MULTILINE)
MAKE: Final = re.compile(r"make( (?P<target>[a-z][a-z0-9-]*))?( [A-Z]+=\S+)*")
LINK: Final = re.compile(r"\]\((?P<to>[^)\s#]+)(#[^)\s]*)?\)")
PLACE: Final = re.compile(r"\]\((?P<to>[^)\s#:]*)#(?P<anchor>[^)\s]+)\)")
HEADING: Final = re.compile(r"^##+ (?P<title>.*)$", re.MULTILINE)
FENCED: Final = re.compile(r"^ *(```+).*?^ *\1$", re.MULTILINE | re.DOTALL)
LONG: Final = 200
"""Lines of a page that needs a list of its contents."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; ``before`` is the line above its fence, ``line`` the 1-based line of its first line of text."""

    page: str
    line: int
    language: str
    text: str
    before: str


def blocks(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order.

    Raises:
        ValueError: the last one is not closed.
    """
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        fence = FENCE.fullmatch(lines[number])
        if fence is None:
            number += 1
            continue
        end = next((n for n in range(number + 1, len(lines)) if lines[n].strip() == fence["ticks"]), None)
        if end is None:
            raise ValueError(f"{page}:{number + 1}: this block is never closed")
        inside = [line.removeprefix(fence["indent"]) for line in lines[number + 1 : end]]
        before = lines[number - 1].strip() if number else ""
        yield Block(page, number + 2, fence["language"], "".join(f"{line}\n" for line in inside), before)
        number = end + 1


def check(block: Block, scratch: Path) -> None:
    """Run a block, its working directory being ``scratch``, or accept its excuse.

    Raises:
        AssertionError: it is neither run nor excused, or its excuse does not hold.
        Exception: whatever running it raises.
    """
    where = f"{block.page}:{block.line}"
    if excuse := EXCUSE.fullmatch(block.before):
        if excuse["kind"] == "tested by":
            check_names_a_test(where, excuse["words"])
    elif block.language == "python":
        run_python(block, scratch)
    elif block.language == "yaml" and POD.search(block.text):
        load_pods(block.text, source=where, mode=Strictness.STRICT)
    elif block.language == "yaml" and DEVICES.search(block.text):
        read_config(block.text, source=where)
    elif block.language == "sh" and calls_only_make(block.text):
        check_targets(where, block.text)
    else:
        assert block.language in PICTURES, (
            f"{where}: nobody runs this {block.language} block; put above it either "
            "<!-- tested by: tests/... --> or <!-- not run: the reason -->"
        )


def run_python(block: Block, scratch: Path) -> None:
    """Run a block as a module that is not ``__main__``, with the line numbers of its page; its tests run, if any."""
    program = scratch / f"{Path(block.page).stem}.py"
    program.write_text("\n" * (block.line - 1) + block.text)
    if TESTS.search(block.text) and not CALLED.search(block.text):
        run_tests(program)
    else:
        runpy.run_path(str(program), run_name=f"block_of_{program.stem}")


def run_tests(program: Path) -> None:
    """Run the tests of a program as its reader would, in a pytest of their own.

    Raises:
        AssertionError: one does not pass, or there is none.
    """
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
    command = [sys.executable, "-m", "pytest", *quiet, *LOADING, str(program)]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_names_a_test(where: str, words: str) -> None:
    path, _, test = words.partition("::")
    assert path.startswith("tests/"), f"{where}: {path} is no test"
    assert (REPOSITORY / path).is_file(), f"{where}: {path} does not exist"
    if test:
        assert re.search(rf"def {re.escape(test)}\(", (REPOSITORY / path).read_text()), f"{where}: no {test} in {path}"


def calls_only_make(text: str) -> bool:
    return all(MAKE.fullmatch(command) for command in commands(text))


def check_targets(where: str, text: str) -> None:
    targets = {match["name"] for match in TARGET.finditer((REPOSITORY / "Makefile").read_text())}
    for command in commands(text):
        match = MAKE.fullmatch(command)
        wanted = match and match["target"]
        assert wanted is None or wanted in targets, f"{where}: the Makefile has no target {wanted}"


def commands(text: str) -> list[str]:
    """The lines of a shell block without comments."""
    return [command for line in text.splitlines() if (command := line.partition("#")[0].strip())]


ALL: Final = [
    block
    for path in PAGES
    for block in blocks(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("block", ALL, ids=lambda block: f"{block.page}:{block.line}")
def test_block_runs_or_says_why_not(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "plugbay.testing.fakenvml" in block.text and find_compiler() is None:
        pytest.skip("no C compiler is installed to make the fake NVML library with")
    monkeypatch.chdir(tmp_path)
    check(block, tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_links_lead_to_files(path: Path) -> None:
    links = {match["to"] for match in LINK.finditer(path.read_text(encoding="utf-8"))}
    dead = {to for to in links if "://" not in to and not to.startswith("mailto:") and not (path.parent / to).exists()}
    assert not dead


def anchor(title: str) -> str:
    """As code hosts make it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def headings(path: Path) -> list[str]:
    """The anchors of a page's headings, in order."""
    return [anchor(match["title"]) for match in HEADING.finditer(FENCED.sub("", path.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_links_into_pages_lead_to_headings(path: Path) -> None:
    places = [(match["to"], match["anchor"]) for match in PLACE.finditer(path.read_text(encoding="utf-8"))]
    assert [(to, name) for to, name in places if name not in headings(path.parent / to if to else path)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_long_page_begins_with_its_contents(path: Path) -> None:
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    if len(path.read_text(encoding="utf-8").splitlines()) < LONG:
        return
    wanted = [f"- [{title}](#{anchor(title)})" for title in re.findall(r"^## (.*)$", text, re.MULTILINE)]
    assert re.findall(r"^- \[.*\]\(#.*\)$", text.partition("\n## ")[0], re.MULTILINE) == wanted


def test_readme_is_covered() -> None:
    assert {block.language for block in ALL if block.page == "README.md"} >= {"python", "sh"}


# --- front doors ---------------------------------------------------------------------------------------------------

DOORS: Final = (
    "plugbay",
    "plugbay.allocation.policies",
    "plugbay.errors",
    "plugbay.manager",
    "plugbay.node",
    "plugbay.testing",
    "plugbay.testing.fakenvml",
    "plugbay.testing.fakesysfs",
    "plugbay.testing.strategies",
)
TEMPLATES: Final = sorted((REPOSITORY / "src/plugbay/cli/plugins/templates").glob("*.py.txt"))
EXAMPLES: Final = sorted((REPOSITORY / "examples").rglob("*.py"))
FROM: Final = re.compile(
    r"^\s*from (?P<module>plugbay[\w.]*) import (?:\((?P<many>[^)]*)\)|(?P<names>.*))$", re.MULTILINE
)
IMPORT: Final = re.compile(r"^\s*import (?P<module>plugbay[\w.]*)", re.MULTILINE)


def private_imports(text: str) -> list[str]:
    """What a program imports that no front door offers."""
    found = [match["module"] for match in IMPORT.finditer(text) if match["module"] not in DOORS]
    for match in FROM.finditer(text):
        names = re.findall(r"\w+(?= as |[,\s]|$)", (match["many"] or match["names"]).partition("#")[0])
        offered = importlib.import_module(match["module"]).__all__ if match["module"] in DOORS else ()
        found += [
            f"{match['module']}.{name}"
            for name in names
            if name not in offered and f"{match['module']}.{name}" not in DOORS
        ]
    return found


@pytest.mark.parametrize("path", [*EXAMPLES, *TEMPLATES], ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_examples_enter_by_the_front_doors(path: Path) -> None:
    assert private_imports(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "block", [each for each in ALL if each.language == "python"], ids=lambda block: f"{block.page}:{block.line}"
)
def test_blocks_enter_by_the_front_doors(block: Block) -> None:
    assert private_imports(block.text) == []


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("from plugbay import Device, plugin", []),
        ("from plugbay.allocation import policies", []),
        ("    from plugbay.testing import (\n    fake_kubelet,\n    ManualClock,\n)", []),
        ("from plugbay.manager.config import ManagerConfig", ["plugbay.manager.config.ManagerConfig"]),
        ("from plugbay.testing import fake_node", ["plugbay.testing.fake_node"]),
        ("import plugbay.wire", ["plugbay.wire"]),
    ],
)
def test_private_imports_are_found(text: str, private: list[str]) -> None:
    assert private_imports(text) == private


@pytest.mark.parametrize("door", DOORS)
def test_pages_name_the_front_doors(door: str) -> None:
    for page in ("CONTRIBUTING.md", "docs/python.md"):
        assert f"`{door}`" in (REPOSITORY / page).read_text(encoding="utf-8")


# --- promises ------------------------------------------------------------------------------------------------------

SECURITY: Final = REPOSITORY / "docs/security.md"
REFERENCE: Final = re.compile(r"`(?P<words>tests/[^`]*)`")
PROMISE: Final = re.compile(r"^- (?!\[).*?(?=^- |^\n|^#|\Z)", re.MULTILINE | re.DOTALL)


def test_each_promise_of_the_security_page_names_tests_that_exist() -> None:
    text = SECURITY.read_text(encoding="utf-8")
    promises = PROMISE.findall(text)
    assert promises
    for promise in promises:
        assert REFERENCE.search(promise), f"no test is named: {promise}"
    for match in REFERENCE.finditer(text):
        assert "::" in match["words"], f"name the test, not only its file: {match['words']}"
        check_names_a_test("docs/security.md", match["words"])


# --- the check itself ----------------------------------------------------------------------------------------------


def check_page(text: str, scratch: Path) -> None:
    for block in blocks("page.md", text):
        check(block, scratch)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("```python\nx = 1\n```\n", id="python-runs"),
        pytest.param("```python\nfrom pathlib import Path\n\nPath('here').touch()\n```\n", id="writes-in-scratch"),
        pytest.param("```\n[a] --> [b]\n```\n", id="picture"),
        pytest.param("```sh\nmake test    # the tests\nmake bench NAME=plugin\n```\n", id="make-targets"),
        pytest.param("<!-- not run: needs a cluster -->\n```sh\nkubectl get nodes\n```\n", id="excused"),
        pytest.param("<!-- tested by: tests/test_docs.py -->\n```sh\npytest\n```\n", id="tested"),
        pytest.param("1. Item\n\n   ```python\n   x = 1\n   if x:\n       x = 2\n   ```\n", id="in-a-list"),
        pytest.param("````text\n```sh\nrm x\n```\n````\n", id="a-fence-in-a-longer-fence"),
    ],
)
def test_good_page_passes(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(list(blocks("page.md", page))) == 1
    check_page(page, tmp_path)


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        pytest.param("```python\n1 / 0\n```\n", "division by zero", id="python-raises"),
        pytest.param("```sh\nkubectl get nodes\n```\n", "page.md:2: nobody runs", id="shell-without-excuse"),
        pytest.param("```json\n{}\n```\n", "page.md:2: nobody runs", id="language-nobody-runs"),
        pytest.param("```yaml\nkind: List\n```\n", "page.md:2: nobody runs", id="yaml-without-pod"),
        pytest.param("```yaml\napiVersion: v1\nkind: Pod\n```\n", "metadata", id="pod-without-metadata"),
        pytest.param("```sh\nmake tea\n```\n", "no target tea", id="missing-target"),
        pytest.param("<!-- not run: -->\n```sh\nls\n```\n", "nobody runs", id="excuse-without-reason"),
        pytest.param("<!-- not run: far -->\n\n```sh\nls\n```\n", "nobody runs", id="excuse-not-directly-above"),
        pytest.param("<!-- tested by: tests/gone.py -->\n```sh\nls\n```\n", "does not exist", id="no-such-test-file"),
        pytest.param(
            "<!-- tested by: tests/conftest.py::test_x -->\n```sh\nls\n```\n", "no test_x", id="no-such-test-function"
        ),
        pytest.param("<!-- tested by: README.md -->\n```sh\nls\n```\n", "is no test", id="tested-by-no-test"),
        pytest.param("```sh\nls\n", "page.md:1: this block is never closed", id="open-fence"),
    ],
)
def test_bad_page_fails(page: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=re.escape(problem)):
        check_page(page, tmp_path)


def test_traceback_names_the_line_of_the_page(tmp_path: Path) -> None:
    (block,) = blocks("page.md", "# Page\n\n```python\nx = 1\nraise KeyError(x)\n```\n")
    with pytest.raises(KeyError) as raised:
        check(block, tmp_path)
    assert (raised.traceback[-1].lineno + 1, block.line) == (5, 4)
