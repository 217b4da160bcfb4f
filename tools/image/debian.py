"""Choosing Debian packages, and which of their files an image takes."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from tools.image import elf
from tools.image.apt import Stanza, parse
from tools.image.problems import ImageFailed, run
from tools.image.tree import Directory, File, Link, Tree, merged

PYTHON: Final = "python3-minimal"
BASE: Final = "base-files"
"""Says to scanners which Debian this is, and has the texts of licences that others refer to."""
OF_WHEELS: Final = ("libstdc++6",)
"""Libraries that wheels may expect of a system (manylinux, PEP 600) and Python has no need of."""
_LIBRARIES: Final = {"libs", "python"}
"""Sections whose packages are followed: what Python needs from others (dpkg, debconf, MIME types) is for installing."""
_LOADED_BY_LIBC: Final = "libgcc_s.so.1"
"""When a thread ends early; no program names it."""

_TAKEN: Final = re.compile(
    r"usr/bin/python3(\.\d+)?|usr/lib(64)?/.+|usr/share/doc/[^/]+(/copyright)?|usr/share/common-licenses/.+"
    r"|etc/debian_version|etc/os-release|etc/ld\.so\.conf\.d/.+"
)
_LEFT: Final = re.compile(
    # of libraries: character sets, debugging, what links
    r"usr/lib/[^/]+/(gconv|audit)/.*|.*\.a|usr/lib/[^/]+/lib(memusage|pcprofile|c_malloc_debug|thread_db)\.so.*"
    r"|usr/lib/binfmt\.d/.*"
    # of Python: what installs, tests, draws, edits or teaches
    r"|usr/lib/python3\.\d+/("
    r"(test|idlelib|tkinter|turtledemo|ensurepip|venv|distutils|lib2to3|pydoc_data|curses|__phello__|config-[^/]*)/.*"
    r"|(turtle|this|antigravity|nntplib|sitecustomize)\.py|EXTERNALLY-MANAGED|.*\.rst"
    r"|lib-dynload/(_test|_xxtest|xxlimited|_ctypes_test|_curses|_dbm|_tkinter|readline|nis|ossaudiodev)[._].*"
    r"|lib-dynload/(_test|_xxtest|_curses|xxlimited).*)"
)

_PASSWD: Final = (
    b"root:x:0:0:root:/root:/usr/sbin/nologin\n"
    b"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    b"nonroot:x:65532:65532:nonroot:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP: Final = b"root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n"


def choose(candidates: Callable[[Iterable[str]], Mapping[str, Stanza]]) -> dict[str, Stanza]:
    """Python's packages and all libraries that they may need; the files tell later which they do."""
    found = dict(candidates([PYTHON, BASE]))
    version = python_version(found[PYTHON])
    wanted = {f"python{version}-minimal", f"libpython{version}-stdlib", *OF_WHEELS}
    asked: set[str] = set(found)
    while wanted := wanted - asked:
        asked |= wanted
        new = candidates(wanted)
        libraries = {name: stanza for name, stanza in new.items() if stanza["Section"].split("/")[-1] in _LIBRARIES}
        found |= libraries
        wanted = {name for stanza in libraries.values() for name in depends(stanza)}
    return found


def python_version(stanza: Stanza) -> str:
    """``3.11``, by what the package of the default Python depends on."""
    for name in depends(stanza):
        if match := re.fullmatch(r"python(3\.\d+)-minimal", name):
            return match[1]
    raise ImageFailed(f"{PYTHON} {stanza['Version']} depends on no package of a Python")


def depends(stanza: Stanza) -> list[str]:
    """Names of packages, of alternatives the first."""
    text = ",".join(stanza[field] for field in ("Pre-Depends", "Depends") if field in stanza)
    return [re.split(r"[ :|(]", each.strip(), maxsplit=1)[0] for each in text.split(",") if each.strip()]


def unpack(package: Path) -> tuple[Stanza, Tree]:
    """What a package says about itself, and of its files those that images take."""
    doing = f"unpacking {package.name}"
    stanza = parse(run(["dpkg-deb", "--field", package], doing).decode())[0]
    tree = Tree()
    with tarfile.open(fileobj=io.BytesIO(run(["dpkg-deb", "--fsys-tarfile", package], doing))) as tar:
        for member in tar:
            path = merged(member.name.removeprefix("./").rstrip("/"))
            if not _TAKEN.fullmatch(path) or _LEFT.fullmatch(path):
                continue
            if member.issym():
                tree.add(path, Link(member.linkname))
            elif content := tar.extractfile(member):  # of a hard link, too
                tree.add(path, File(content.read(), bool(member.mode & 0o111)))
    return stanza, tree


def needed(packages: Mapping[str, Tree], extra: Iterable[Tree] = ()) -> set[str]:
    """Of packages those whose libraries are needed, beginning with Python's; ``extra`` needs some, too."""
    owners = {path.rpartition("/")[2]: name for name, tree in packages.items() for path in tree}
    kept = {name for name in packages if "python" in name or name == BASE}
    sought = {soname for tree in [*(packages[name] for name in kept), *extra] for soname in elf.needs(tree)}
    sought.add(_LOADED_BY_LIBC)
    while sought:
        new = {owners[soname] for soname in sought if soname in owners} - kept
        kept |= new
        sought = {soname for name in new for soname in elf.needs(packages[name])}
    return kept | {name for each in kept for name in _documented_in(packages[each])}


def _documented_in(tree: Tree) -> Iterable[str]:
    """Packages that have the copyright of this one."""
    for path in tree:
        if path.startswith("usr/share/doc/") and isinstance(entry := tree[path], Link):
            yield entry.target.strip("/")


def skeleton() -> Tree:
    """What belongs to no package: directories, links and accounts."""
    tree = Tree()
    for name in ("bin", "lib", "lib64", "sbin"):
        tree.add(name, Link(f"usr/{name}"))
        tree.add(f"usr/{name}", Directory())
    for name in ("dev", "proc", "run", "sys", "usr/local/bin"):
        tree.add(name, Directory())
    tree.add("root", Directory(0o700))
    tree.add("tmp", Directory(0o1777))
    tree.add("var/run", Link("/run"))
    tree.add("etc/os-release", Link("../usr/lib/os-release"))
    tree.add("etc/passwd", File(_PASSWD))
    tree.add("etc/group", File(_GROUP))
    # For hooks that add a driver's libraries and run ldconfig.
    tree.add("etc/ld.so.conf", File(b"include /etc/ld.so.conf.d/*.conf\n"))
    return tree
