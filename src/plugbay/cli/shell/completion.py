"""``plugbay completion``: scripts with which shells complete commands.

shtab writes static scripts: completing runs Python only where a pod's or a node's name is wanted, and no command
pays for it at its start.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import shtab

from plugbay.cli.arguments.names import node_name, pod_name
from plugbay.cli.arguments.options import directory_of, file_of, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.ready_made import READY_MADE
from plugbay.cli.main import make_parser
from plugbay.cli.printing.output import show

if TYPE_CHECKING:
    from shtab import CompleteType

_SHELLS: Final = ("bash", "zsh", "fish")
_NAMES: Final = "plugbay {kind} get -o name 2>/dev/null | cut -d/ -f2"
_BASH_NAMES: Final = '_plugbay_{kind}_names() {{ compgen -W "$({names})" -- "$1"; }}'
_ZSH_NAMES: Final = '_plugbay_{kind}_names() {{ compadd -- ${{(f)"$({names})"}} }}'


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Print what lets a shell complete commands, options, their values, and the names of pods and nodes "
        "of the node at $PLUGBAY_ROOT or where `plugbay node up` runs by default. "
        "bash: source <(plugbay completion bash), in ~/.bashrc. "
        'zsh: eval "$(plugbay completion zsh)", in ~/.zshrc after compinit. '
        "fish: plugbay completion fish > ~/.config/fish/completions/plugbay.fish.",
        examples=("plugbay completion bash",),
        run=run,
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    parser = make_parser()
    by_type: dict[object, CompleteType] = {
        pod_name: _names("pod"),
        node_name: _names("node"),
        file_of: shtab.FILE,
        path_of: shtab.FILE,
        directory_of: shtab.DIRECTORY,
    }
    targets = _targets()
    for each in _all(parser):
        each.description = None  # the few words of the list of commands say it shorter
        for action in each._actions:
            _complete(action, targets if action.dest == "targets" else by_type.get(action.type))
    show(shtab.complete(parser, args.shell) + "\n")
    return 0


def _names(kind: str) -> CompleteType:
    """The names that the node shows when they are wanted; shtab's own way has zsh ask for them when it starts."""
    names = _NAMES.format(kind=kind)
    function = f"_plugbay_{kind}_names"
    preamble = {
        "bash": _BASH_NAMES.format(kind=kind, names=names),
        "zsh": _ZSH_NAMES.format(kind=kind, names=names),
    }
    return {"bash": function, "zsh": function, "fish": f"({names})", "preamble": preamble}


def _targets() -> CompleteType:
    ready_made = " ".join(READY_MADE)
    return {
        "bash": "_plugbay_targets",
        "zsh": "_plugbay_targets",
        "fish": f"{ready_made} (__fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'_plugbay_targets() {{ compgen -W "{ready_made}" -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f"_plugbay_targets() {{ compadd -- {ready_made}; _files }}",
        },
    }


def _all(parser: CommandParser) -> Iterator[CommandParser]:
    """``parser`` and all below it, which lose their other names: no shell offers these."""
    commands = parser.commands  # which fills it
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in [name for name in action.choices if name not in commands]:
                del action.choices[name]
    for below in commands.values():
        yield from _all(below)


def _complete(action: argparse.Action, way: CompleteType | None) -> None:
    if action.help is not None:
        action.help = action.help.partition(";")[0]
    if way is not None:
        action.complete = way  # type: ignore[attr-defined]  # where shtab looks for it
    elif action.choices is not None and not isinstance(action, argparse._SubParsersAction):
        action.choices = [each.removesuffix("TEMPLATE") for each in action.choices]
