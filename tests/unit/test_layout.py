"""The shape of the source tree: sizes, names, docstrings, and where clock and environment are read."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
REPOSITORY: Final = TESTS.parent
SOURCE: Final = REPOSITORY / "src/plugbay"
GENERATED: Final = SOURCE / "wire/generated"
MODULES: Final = sorted(path for path in SOURCE.rglob("*.py") if GENERATED not in path.parents)
PACKAGES: Final = sorted({path.parent for path in MODULES})
HOUSE: Final = [path for path in PACKAGES if path.parent == SOURCE]

LONGEST: Final = 400
SAYS_NOTHING: Final = frozenset({"utils", "util", "helpers", "common", "misc"})
# Everything below is handed its clock and its environment.
READS_THE_WORLD: Final = ("node/", "cli/", "ops/clock.py")
PURE: Final = re.compile(r"\b[Pp]ure\.")
"""How the first paragraph of a module's docstring says that it is."""
WORLD: Final = frozenset({"datetime.now", "datetime.utcnow", "date.today", "time.time", "os.environ", "os.getenv"})


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_is_short_enough_to_read(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_bytes()))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_name_says_what_is_inside(path: Path) -> None:
    assert not SAYS_NOTHING & {part.strip("_") for part in path.relative_to(SOURCE).with_suffix("").parts}


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_package_is_no_namespace(path: Path) -> None:
    assert (path / "__init__.py").is_file(), "without it import-linter does not see the package"


@pytest.mark.parametrize("path", HOUSE, ids=name_of)
def test_package_says_what_may_live_there(path: Path) -> None:
    docstring = " ".join((ast.get_docstring(ast.parse((path / "__init__.py").read_bytes())) or "").split())
    assert "May live here: " in docstring
    assert "May not: " in docstring


@pytest.mark.parametrize(
    "path", [path for path in MODULES if not name_of(path).startswith(READS_THE_WORLD)], ids=name_of
)
def test_clock_and_environment_are_handed_in(path: Path) -> None:
    read = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Attribute)}
    assert not read & WORLD


def test_what_is_marked_pure_is_held_to_it() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(REPOSITORY / ".importlinter", encoding="utf-8")
    pure = [contracts[name] for name in contracts.sections() if name.startswith("importlinter:contract:pure")]
    held = {SOURCE.parent.joinpath(*name.split(".")) for each in pure for name in each["source_modules"].split()}
    assert [name_of(path) for path in MODULES if is_marked_pure(path) and held.isdisjoint(beneath(path))] == []


def is_marked_pure(path: Path) -> bool:
    first, _, _ = (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n\n")
    return PURE.search(first) is not None


def beneath(path: Path) -> list[Path]:
    """The module and its packages, as import contracts know them."""
    return [path.with_suffix(""), *path.parents]


def test_unit_tests_mirror_the_source() -> None:
    tested = {path.name for path in (TESTS / "unit").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert tested <= {path.name for path in HOUSE}


def test_all_python_is_type_checked() -> None:
    """mypy refuses a directory without Python, so its list has to be exactly those that hold some."""
    config = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    places = [REPOSITORY / name for name in ("src", "tests", "examples", "bench", "tools")]
    assert {place.name for place in places if any(place.rglob("*.py"))} == set(config["tool"]["mypy"]["files"])
