"""The shape of the source tree: sizes, names, docstrings, and where clock and environment are read."""

from __future__ import annotations

import ast
import configparser
import pkgutil
import re
import statistics
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from plugbay.version import VERSION

TESTS: Final = Path(__file__).parents[1]
REPOSITORY: Final = TESTS.parent
SOURCE: Final = REPOSITORY / "src/plugbay"
GENERATED: Final = SOURCE / "wire/generated"
MODULES: Final = sorted(path for path in SOURCE.rglob("*.py") if GENERATED not in path.parents)
PACKAGES: Final = sorted({path.parent for path in MODULES})
HOUSE: Final = [path for path in PACKAGES if path.parent == SOURCE]

LONGEST: Final = 400
FRAGMENT: Final = 40
MOST_FRAGMENTS: Final = 0.12
MOST_ENTRIES: Final = 14
"""Files and folders at the top of a package."""
RIDDLE: Final = re.compile(r"(Of|Who|Whom|Whose|What)\b")
SAYS_NOTHING: Final = frozenset({"utils", "util", "helpers", "common", "misc"})
# Everything below is handed its clock and its environment; wrappers are programs of their own, and a kubelet that a
# test opens is put together there, as a node is in its package.
READS_THE_WORLD: Final = (
    "node/",
    "cli/",
    "ops/clock.py",
    "runtimes/supervised/handover.py",
    "runtimes/supervised/output.py",
    "runtimes/supervised/wrapper.py",
    "testing/local/opening.py",
)
PURE: Final = re.compile(r"\b[Pp]ure\.")
"""How the first paragraph of a module's docstring says that it is."""
WORLD: Final = frozenset({"datetime.now", "datetime.utcnow", "date.today", "time.time", "os.environ", "os.getenv"})


@cache
def trees() -> dict[Path, ast.Module]:
    """Not made when the tests are collected: not every process that collects them runs one."""
    return {path: ast.parse(path.read_bytes()) for path in MODULES}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_modules_are_short_enough_to_read() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_modules_have_docstrings() -> None:
    assert [name_of(path) for path, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    """Docstrings of constants and of an enum's members too: every statement that is nothing but a text."""
    statements = [node.value for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    texts = [node.value for node in statements if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert texts
    assert [text for text in texts if RIDDLE.match(text)] == []


def test_names_say_what_is_inside() -> None:
    words = {path: {part.strip("_") for part in path.relative_to(SOURCE).with_suffix("").parts} for path in MODULES}
    assert [name_of(path) for path, parts in words.items() if SAYS_NOTHING & parts] == []


def test_no_package_is_a_namespace() -> None:
    """Without its ``__init__.py`` import-linter does not see a package."""
    assert [name_of(path) for path in PACKAGES if not (path / "__init__.py").is_file()] == []


@pytest.mark.parametrize("path", HOUSE, ids=name_of)
def test_package_says_what_may_live_there(path: Path) -> None:
    docstring = " ".join((ast.get_docstring(trees()[path / "__init__.py"]) or "").split())
    assert "May live here: " in docstring
    assert "May not: " in docstring


def test_clock_and_environment_are_handed_in() -> None:
    read = {
        name_of(path): {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & WORLD
        for path, tree in trees().items()
        if not name_of(path).startswith(READS_THE_WORLD)
    }
    assert {name: words for name, words in read.items() if words} == {}


def test_what_is_marked_pure_is_held_to_it() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(REPOSITORY / ".importlinter", encoding="utf-8")
    pure = [contracts[name] for name in contracts.sections() if name.startswith("importlinter:contract:pure")]
    held = {SOURCE.parent.joinpath(*name.split(".")) for each in pure for name in each["source_modules"].split()}
    assert [name_of(path) for path in MODULES if is_marked_pure(path) and held.isdisjoint(beneath(path))] == []


def is_marked_pure(path: Path) -> bool:
    first, _, _ = (ast.get_docstring(trees()[path]) or "").partition("\n\n")
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


def _public_classes() -> dict[str, list[str]]:
    """The modules that define a class of each public name."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for statement in trees()[path].body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places.setdefault(statement.name, []).append(name_of(path))
    return places


def test_a_public_class_name_means_one_thing() -> None:
    double = {name: places for name, places in _public_classes().items() if len(places) > 1}
    assert not double


@pytest.mark.parametrize("package", ["node", "pods", "sdk", "manager", "cli", "runtimes"])
def test_a_big_package_shows_its_rooms(package: str) -> None:
    entries = [path.name for path in (SOURCE / package).iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_modules_are_neither_fragments_nor_tomes() -> None:
    lengths = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES if path.stem != "__init__")
    assert 60 <= statistics.median(lengths) <= 250
    assert sum(length < FRAGMENT for length in lengths) <= MOST_FRAGMENTS * len(lengths)


def test_names_of_modules_in_the_pages_exist() -> None:
    words = re.compile(r"`((?:plugbay\.)?(?:" + "|".join(path.name for path in HOUSE) + r")(?:\.[a-z_]+)+)`")
    for page in (REPOSITORY / "docs/architecture.md", REPOSITORY / "docs/glossary.md"):
        for name in words.findall(page.read_text(encoding="utf-8")):
            place = SOURCE.joinpath(*name.removeprefix("plugbay.").split("."))
            assert place.is_dir() or place.with_suffix(".py").is_file(), f"{page.name}: {name}"


def _imports_in_text() -> dict[str, list[str]]:
    """The names that code held as text imports from plugbay: what tests run in a process, and templates."""
    imported: dict[str, list[str]] = {}
    imports = re.compile(r"^\s*from (plugbay[.\w]*) import \(?([\w ,]+)", re.MULTILINE)
    templates = sorted((SOURCE / "cli/plugins/templates").iterdir())
    texts = [(path, path.read_text(encoding="utf-8")) for path in templates if path.is_file()]
    for path in sorted(TESTS.rglob("*.py")):
        constants = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant))
        texts += [(path, node.value) for node in constants if isinstance(node.value, str)]
    for path, text in texts:
        for module, names in imports.findall(text):
            for name in names.split(","):
                imported.setdefault(f"{module}.{name.split()[0]}", []).append(path.name)
    return imported


def test_names_that_code_in_texts_imports_exist() -> None:
    imported = _imports_in_text()
    assert imported
    missing = {name: places for name, places in imported.items() if not _exists(name)}
    assert not missing


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert VERSION == project["version"]
