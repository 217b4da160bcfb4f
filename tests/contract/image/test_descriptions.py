"""What is written about an image: its lock, its SBOM, and the failures of a build."""

from __future__ import annotations

import json
import tomllib
from email.message import Message
from pathlib import Path

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from tests.contract.image import packages
from tests.contract.image.packages import COPYRIGHT
from tools.image import __main__ as program
from tools.image import debian, fetching, layers, licences, lock, oci, sbom, settings, writing
from tools.image.build import Built
from tools.image.inputs import Architecture, Kind, Pin
from tools.image.problems import ImageFailed, run
from tools.image.sbom import Component, Subject
from tools.image.store import Store
from tools.image.tree import File

ZLIB = Pin(Kind.DEB, "zlib1g", "1:1.2.13", "a" * 64)
YAML = Pin(Kind.WHEEL, "PyYAML", "6.0.3", "b" * 64)
OTHERS = [Pin(Kind.DEB, name, "1", "d" * 64) for name in lock.NEEDED if name != ZLIB.name]
LOCK = lock.Lock(variant="plugins", epoch=1, revision="", packages={Architecture.AMD64: [ZLIB, YAML, *OTHERS]})
HALF = lock.Lock(variant="plugins", epoch=1, revision="", packages={Architecture.AMD64: [ZLIB, YAML]})
SUBJECT = Subject("plugbay-plugins", "1.0", "amd64", "Apache-2.0", "1980-01-01T00:00:00Z")


def components() -> list[Component]:
    made = {pin: sbom.purl(pin, distribution="debian-12", architecture="amd64") for pin in (ZLIB, YAML)}
    return [
        Component(ZLIB, made[ZLIB], None, "Debian GNU/Linux", "https://zlib.net/"),
        Component(YAML, made[YAML], "MIT"),
    ]


def test_the_sbom_is_a_valid_spdx_document(tmp_path: Path) -> None:
    written = tmp_path / "image.spdx.json"
    written.write_bytes(sbom.document(SUBJECT, components()))
    assert validate_full_spdx_document(parse_file(str(written))) == []
    image, *named = json.loads(written.read_bytes())["packages"]
    assert image["primaryPackagePurpose"] == "CONTAINER"
    assert [each["externalRefs"][0]["referenceLocator"] for each in named] == [
        "pkg:deb/debian/zlib1g@1%3A1.2.13?arch=amd64&distro=debian-12",
        "pkg:pypi/pyyaml@6.0.3",
    ]
    assert [each["licenseDeclared"] for each in named] == ["NOASSERTION", "MIT"]


def test_another_content_is_another_document() -> None:
    one, other = (json.loads(sbom.document(SUBJECT, each)) for each in (components(), components()[:1]))
    assert one["documentNamespace"] != other["documentNamespace"]
    assert sbom.document(SUBJECT, components()) == sbom.document(SUBJECT, components()[::-1])


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("zlib", COPYRIGHT.decode(), "(MIT OR GPL-2.0-or-later)"),
        ("zlib", "Format: x\nLicense: Zlib\nLicense: Apache-2.0\n", "Apache-2.0 AND Zlib"),
        ("zlib", "Format: x\nLicense: Zlib\nLicense: home-made\n", None),
        ("zlib", "It is free.\nLicense: Zlib\n", None),
        ("glibc", "It is free.", "LGPL-2.1-or-later"),
    ],
    ids=["choice", "all", "unknown", "prose", "by name"],
)
def test_licences_of_debian_packages(source: str, text: str, expected: str | None) -> None:
    assert licences.of_debian(source, text) == expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("License-Expression", "MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("License", "3-Clause BSD License", "BSD-3-Clause"),
        ("Classifier", "License :: OSI Approved :: MIT License", "MIT"),
        ("License", "Do as you like.", None),
    ],
)
def test_licences_of_wheels(field: str, value: str, expected: str | None) -> None:
    metadata = Message()
    metadata[field] = value
    assert licences.of_wheel(metadata) == expected


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(lock.encode(LOCK))
    assert lock.read(tmp_path / "lock", "plugins", [Architecture.AMD64]) == LOCK


@pytest.mark.parametrize(
    ("text", "variant", "architectures", "sentence"),
    [
        (None, "plugins", [Architecture.AMD64], r"cannot read the lock .*: No such file"),
        ("{", "plugins", [Architecture.AMD64], r"is not a lock of an image: Input data was truncated"),
        ('{"format": 2}', "plugins", [], r"is not a lock of an image: .*format"),
        (lock.encode(LOCK).decode(), "nvidia", [], r"is of the variant plugins, and nvidia is to be made"),
        (lock.encode(LOCK).decode(), "plugins", list(Architecture), r"has no packages for arm64"),
        (lock.encode(HALF).decode(), "plugins", [Architecture.AMD64], r"is not .*: it has no libc6 for amd64"),
    ],
    ids=["absent", "half", "newer", "variant", "processor", "packages"],
)
def test_what_is_no_lock_of_this_image_is_told(
    tmp_path: Path, text: str | None, variant: str, architectures: list[Architecture], sentence: str
) -> None:
    if text is not None:
        (tmp_path / "lock").write_text(text)
    with pytest.raises(ImageFailed, match=sentence):
        lock.read(tmp_path / "lock", variant, architectures)


def test_what_differs_from_a_lock_is_told_in_one_sentence() -> None:
    there = {("wheel", "PyYAML"): Pin(Kind.WHEEL, "PyYAML", "6.0.4", "c" * 64)}
    assert lock.differences([ZLIB, YAML], there) == (
        "the lock wants deb zlib1g 1:1.2.13, which is not there; wheel PyYAML 6.0.3, and there is 6.0.4"
    )
    there = {("deb", "zlib1g"): Pin(Kind.DEB, "zlib1g", "1:1.2.13", "c" * 64)}
    assert lock.differences([ZLIB], there) == (
        f"the lock wants deb zlib1g 1:1.2.13 with sha256 {'a' * 12}, and there is one with {'c' * 12}"
    )


def test_a_store_finds_packages_again_and_keeps_two_of_one_name(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / "a.whl").write_bytes(bytes([number]))
        Store(tmp_path / "store").add(tmp_path / "a.whl")
    kept = sorted(path.read_bytes() for path in (tmp_path / "store").rglob("*.whl"))
    assert kept == [b"\0", b"\1"]
    assert Store(tmp_path / "store").missing([ZLIB]) == [ZLIB]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--arch", "s390x"], "image: argument --arch: invalid choice: 's390x' (choose from "),
        (["--variant", "gpu"], "image: argument --variant: invalid choice: 'gpu' (choose from "),
        (["--rootfs", "x"], "image: --rootfs is the file system of one processor; name it with --arch"),
        (
            ["--arch", "amd64", "--rootfs", "/absent/x"],
            "image: --rootfs /absent/x is in a directory that does not exist",
        ),
        (["--arch", "amd64", "--rootfs", "/usr"], "image: --rootfs /usr is not an empty directory"),
        (["--name", "Plugbay"], "image: --name 'Plugbay' is not an image's name, as in registry.example.com/plugbay:1"),
        (["--out", "/proc/absent"], "image: cannot write /proc/absent: No such file or directory"),
        (["--lock", "/absent"], "image: cannot read the lock /absent: No such file or directory"),
    ],
    ids=["processor", "variant", "two file systems", "no parent", "not empty", "name", "no place", "no lock"],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--out", str(tmp_path / "out"), *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(sentence)
    assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("said", ["yesterday", "9" * 20])
def test_a_date_that_is_none_is_told(
    said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", said)
    assert program.main(["--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"image: SOURCE_DATE_EPOCH is '{said}', and not seconds of the Unix clock\n"


def test_an_image_that_cannot_be_written_leaves_the_earlier_one(tmp_path: Path) -> None:
    plain = layers.archive(debian.skeleton())
    how = oci.Settings("1980-01-01T00:00:00Z", {}, ["plugbay"], [], {})
    tree = debian.skeleton()
    tree.add(sbom.PATH, File(b"{}"))
    image = oci.Image(Architecture.AMD64, how, [oci.Layer(oci.digest(plain), plain, "tests")])
    built, out = [Built(image, tree, [ZLIB])], tmp_path / "out"
    for number in range(2):
        (tmp_path / f"work{number}").mkdir()
        out.mkdir(exist_ok=True)
        writing.write_image(built, LOCK, f"localhost/test:{number}", out, tmp_path / f"work{number}")
    earlier = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (tmp_path / "blocked/plugbay-plugins.lock.json").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        writing.write_image(built, LOCK, "localhost/test:2", out, tmp_path / "blocked")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == earlier
    assert b"localhost/test:1" in earlier[out / "plugbay-plugins/index.json"]


def test_a_program_that_is_absent_or_fails_is_named() -> None:
    with pytest.raises(ImageFailed, match=r"^testing takes the program absent-program, which is not installed$"):
        run(["absent-program"], "testing")
    with pytest.raises(ImageFailed, match=r"^testing failed: it is so$"):
        run(["sh", "-c", "echo W: maybe >&2; echo E: it is so >&2; echo later >&2; exit 3"], "testing")


def test_the_dockerfile_starts_plugbay_as_the_image_does(tmp_path: Path) -> None:
    text = (program.SOURCE / "packaging/image/Dockerfile").read_text()
    ours = fetching.wheel_part(packages.wheel(tmp_path), "3.11")
    how = settings.of(ours, "plugins", 0, "")
    assert f"ENTRYPOINT {json.dumps(how.entrypoint)}" in text
    assert f"CMD {json.dumps(how.command)}" in text
    assert all(f"{name}={value}" in text for name, value in how.environ.items() if name != "PATH")
    assert f"ARG EXTRAS={','.join(fetching.EXTRAS['plugins'])}\n" in text


def test_variants_are_made_of_extras_that_there_are() -> None:
    extras = tomllib.loads((program.SOURCE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for each in fetching.EXTRAS.values() for extra in each} <= extras.keys()
