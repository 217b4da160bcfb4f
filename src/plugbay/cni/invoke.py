"""Call one plugin: find its binary, run it, and read its answer."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from plugbay.cni.answers import NO_VERSION, PluginVersions, parse_error, parse_versions
from plugbay.cni.chain import Attachment, CniCommand, variables
from plugbay.cni.execution import OutputTooLong, execute
from plugbay.errors import InvalidNetworkResult, NetworkPluginFailed, NetworkPluginMissing

DEFAULT_TIMEOUT_S: Final = 60.0
"""The deadline of one call. The specification names none; the slowest official plugin waits some seconds for a link."""

_logger = logging.getLogger(__name__)
_PROBE: Final = {"CNI_NETNS": "dummy", "CNI_IFNAME": "dummy", "CNI_PATH": "dummy"}
"""Plugins of 0.1.0 look at these before they look at the command."""


class Plugins:
    """The plugins that are installed.

    Args:
        directories: directories with binaries, searched in order.
        environ: what plugins inherit.
        timeout_s: for one call; a plugin that takes longer is killed with its process group.
    """

    def __init__(
        self, directories: Sequence[Path], *, environ: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.directories = tuple(directories)
        self.timeout_s = timeout_s
        self._environ = dict(environ)

    def find(self, plugin: str) -> Path:
        """The binary of a plugin: the first regular file of that name.

        Raises:
            NetworkPluginMissing: there is none, or the name is not a file name.
        """
        if "/" not in plugin and "\0" not in plugin:
            for directory in self.directories:
                if _is_file(directory / plugin):
                    return directory / plugin
        raise NetworkPluginMissing(plugin, [str(each) for each in self.directories])

    def installed(self) -> list[str]:
        """The names of all executable files in the directories, sorted."""
        names: set[str] = set()
        for directory in self.directories:
            with contextlib.suppress(OSError):
                names |= {each.name for each in directory.iterdir() if _is_file(each) and os.access(each, os.X_OK)}
        return sorted(names)

    async def call(
        self, plugin: str, command: CniCommand, given: bytes, *, attachment: Attachment | None = None
    ) -> bytes:
        """Run a plugin; returns its output.

        Raises:
            NetworkPluginMissing: it is not installed.
            NetworkPluginFailed: it failed, could not be started, or did not end in time.
        """
        own = variables(command, attachment, [str(each) for each in self.directories])
        return await self._run(plugin, command, given, own)

    async def versions(self, plugin: str) -> PluginVersions:
        """The versions that a plugin takes.

        Raises:
            NetworkPluginMissing: it is not installed.
            NetworkPluginFailed: it does not tell.
        """
        own = variables(CniCommand.VERSION, None, []) | _PROBE
        try:
            return parse_versions(await self._run(plugin, CniCommand.VERSION, b'{"cniVersion":"1.1.0"}', own))
        except InvalidNetworkResult as error:
            raise NetworkPluginFailed(plugin, CniCommand.VERSION.value, 0, str(error), "") from error
        except NetworkPluginFailed as error:
            if error.message != NO_VERSION:
                raise
            return PluginVersions("0.1.0", ("0.1.0",))

    async def _run(self, plugin: str, command: CniCommand, given: bytes, own: Mapping[str, str]) -> bytes:
        binary = self.find(plugin)
        problem = ""
        try:
            ended = await execute(binary, given=given, environ={**self._environ, **own}, timeout_s=self.timeout_s)
        except TimeoutError:
            problem = f"{binary} did not end within {self.timeout_s:g} s and was killed"
        except OutputTooLong:
            problem = f"{binary} printed without end and was killed"
        except OSError as error:
            problem = f"cannot run {binary}: {error.strerror}"
        if problem:
            raise NetworkPluginFailed(plugin, command.value, 0, problem, "")
        if ended.status != 0:
            error_result = parse_error(ended.stdout, ended.stderr, exit_status=ended.status_text)
            raise NetworkPluginFailed(
                plugin, command.value, error_result.code, error_result.message, error_result.details
            )
        if ended.stderr.strip():
            _logger.info("%s: %s", plugin, ended.stderr.decode(errors="replace").rstrip())
        return ended.stdout


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
