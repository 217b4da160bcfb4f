"""Debian packages of any architecture, by an apt with a state of its own and the machine's sources and keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tools.image.inputs import Architecture
from tools.image.problems import ImageFailed, run

Stanza = Mapping[str, str]
"""What a package says about itself."""

# What has no signature is refused, whatever the machine allows. When one list cannot be had, nothing is made: it may be
# that of security updates. The machine's hooks would clean its caches.
_CONFIG: Final = """
APT::Architecture "{architecture}";
#clear APT::Architectures;
APT::Architectures "{architecture}";
APT::Get::AllowUnauthenticated "false";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::State "{state}";
Dir::State::status "{state}/status";
Dir::Cache "{cache}";
Dir::Cache::archives "archives/";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
"""
_FIELD: Final = re.compile(r"^([\w-]+): *(.*(?:\n[ \t].*)*)", re.MULTILINE)


class Apt:
    """Packages for one architecture, as if nothing were installed."""

    def __init__(self, directory: Path, architecture: Architecture) -> None:
        self._config = directory / "apt.conf"
        state, cache = directory / "state", directory / "cache"
        (state / "lists/partial").mkdir(parents=True)
        (cache / "archives/partial").mkdir(parents=True)
        (state / "status").touch()
        self._config.write_text(_CONFIG.format(architecture=architecture, state=state, cache=cache))
        self._architecture = architecture
        self._is_updated = False

    def candidates(self, names: Iterable[str]) -> dict[str, Stanza]:
        """The versions that apt would install.

        Raises:
            ImageFailed: there is no such package.
        """
        wanted = sorted(names)
        found = {stanza["Package"]: stanza for stanza in self.known(wanted)}
        if missing := set(wanted) - found.keys():
            raise ImageFailed(f"apt knows no package {', '.join(sorted(missing))} for {self._architecture}")
        return found

    def known(self, names: Iterable[str]) -> list[Stanza]:
        """As candidates, without packages that apt does not know."""
        self._update()
        argv = ["apt-cache", "-c", str(self._config), "show", "--no-all-versions", *names]
        return parse(run(argv, "asking apt for packages", fine=(0, 100)).decode())

    def download(self, versions: Mapping[str, str], into: Path) -> None:
        """Fetch packages in exactly these versions; apt checks their digests.

        Raises:
            ImageFailed: one cannot be fetched.
        """
        wanted = [f"{name}={version}" for name, version in sorted(versions.items())]
        if wanted:
            self._update()
            argv = ["apt-get", "-c", str(self._config), "-q", "download", *wanted]
            run(argv, f"fetching Debian packages of {self._architecture}", cwd=into)

    def _update(self) -> None:
        """Fetch lists of packages, whose signatures apt checks."""
        if not self._is_updated:
            argv = ["apt-get", "-c", str(self._config), "-q", "update"]
            run(argv, f"fetching the lists of Debian packages for {self._architecture}")
            self._is_updated = True


def parse(text: str) -> list[Stanza]:
    """The stanzas of a control file."""
    return [dict(_FIELD.findall(part)) for part in re.split(r"\n{2,}", text) if part.strip()]
