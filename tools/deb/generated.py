"""What the package says of the command line, made from the commands themselves: completion and the manual page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from plugbay.cli.commands import COMMANDS, Command
from plugbay.cli.main import make_parser

_SCRIPTS: Final = {
    "bash": "usr/share/bash-completion/completions/plugbay",
    "zsh": "usr/share/zsh/vendor-completions/_plugbay",
    "fish": "usr/share/fish/vendor_completions.d/plugbay.fish",
}
_FILES: Final = (
    ("/etc/plugbay/plugins.yaml", "What plugbay.service serves to this machine's kubelet."),
    ("/etc/plugbay/NAME.yaml", "What plugbay@NAME.service serves."),
    ("/etc/default/plugbay", "Options for the services."),
    ("/var/lib/plugbay", "All that a node run by root keeps."),
)


def completions() -> dict[str, str]:
    """The script of each shell, by the place where Debian's shell looks for it."""
    command = (sys.executable, "-m", "plugbay", "completion")
    return {
        place: subprocess.run([*command, shell], check=True, capture_output=True, text=True).stdout
        for shell, place in _SCRIPTS.items()
    }


def manual(version: str) -> str:
    """The page plugbay(1), in the language of man."""
    return "\n".join(_lines(version)) + "\n"


def _lines(version: str) -> Iterator[str]:
    parser = make_parser()
    yield f'.TH PLUGBAY 1 "" "plugbay {_text(version)}" "User Commands"'
    yield from (".SH NAME", r"plugbay \- Kubernetes device plugins in Python, and a node to try them")
    yield from (".SH SYNOPSIS", r".B plugbay", r"[\-\-root DIR] COMMAND [ARGUMENT ...]")
    yield from (".SH DESCRIPTION", _text(parser.description or ""), ".SH COMMANDS")
    yield r"Each command explains itself: plugbay help COMMAND, or \-\-help after it."
    for words, entry in COMMANDS.items():
        if isinstance(entry, Command):
            yield from (".TP", rf"\fBplugbay {_text(words)}\fR", _text(_sentence(entry.help)))
    yield ".SH FILES"
    for path, what in _FILES:
        yield from (".TP", rf"\fI{_text(path)}\fR", _text(what))
    yield from (".SH EXIT STATUS", _text((parser.epilog or "").partition("\n")[0].removeprefix("Exit codes: ")))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _text(words: str) -> str:
    """Text that man shows as it is."""
    escaped = words.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
