"""Our own parser class: it speaks like kubectl when it is misused."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""What `add_commands` returns."""

_BAD_CHOICE: Final = re.compile(
    r"argument (?P<what>\S+): invalid choice: '(?P<given>.*?)' \(choose from (?P<known>.*)\)"
)
_BAD_INTEGER: Final = re.compile(r"(?P<start>argument \S+: )invalid int value: (?P<given>.*)", re.DOTALL)
_NEGATIVE: Final = re.compile(r"-\.?[0-9]")
"""What looks like an option and is a value: a number, or a time such as -1s. argparse knows the numbers only."""
_QUOTES: Final = "'\" "
_LIKE: Final = 0.6
_LIKE_OPTION: Final = 0.8
"""Two options have their dashes in common already."""


class CommandParser(argparse.ArgumentParser):
    """Speaks like kubectl when it is misused, and can leave what follows ``--`` alone.

    Args:
        takes_command: what follows ``--`` is the attribute ``command``, untouched; empty when there is no ``--``.
        takes_more: the positional argument, a list, whose values may also follow options: argparse takes them only
            where the first one stands.
        examples: command lines for the end of the help.
    """

    def __init__(
        self,
        *args: Any,
        takes_command: bool = False,
        takes_more: str | None = None,
        examples: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _NEGATIVE
        self._takes_command = takes_command
        self._takes_more = takes_more
        self.examples = examples

    @property
    def commands(self) -> dict[str, CommandParser]:
        """The commands right below this one, by name."""
        below = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(below[0].choices) if below else {}

    def format_help(self) -> str:
        """argparse's, with the examples on lines of their own: it would fill them into a paragraph."""
        text = super().format_help()
        if not self.examples:
            return text
        return "\n".join([text, "examples:", *(f"  {line}" for line in self.examples), ""])

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given = list(args or ())
        if not self._takes_command:
            parsed, unknown = super().parse_known_args(self._filled(given), namespace)
        else:
            end = given.index("--") if "--" in given else len(given)
            parsed, unknown = super().parse_known_args(self._filled(given[:end]), namespace)
            parsed.command = given[end + 1 :]
        # Here, where the options are known; argparse would leave it to the parser above.
        if options := [each for each in unknown if each.startswith("-") and each != "-"]:
            self.error(self._unknown(options[0]))
        if self._takes_more is not None:
            getattr(parsed, self._takes_more).extend(unknown)
        elif unknown:
            after = "; what a container runs comes after --" if self._takes_command else ""
            self.error(f'unexpected argument "{unknown[0]}"{after}')
        return parsed, []

    def _filled(self, given: Sequence[str]) -> list[str]:
        """With the values that options have when they are given alone: argparse would take the next word for it."""
        alone = {
            option: action.const
            for action in self._actions
            if action.nargs == argparse.OPTIONAL and action.const is not None
            for option in action.option_strings
        }
        return [f"{each}={alone[each]}" if each in alone else each for each in given] if alone else list(given)

    def _unknown(self, option: str) -> str:
        name = option.partition("=")[0]
        return f"unknown option {name}{_did_you_mean(name, list(self._option_string_actions), like=_LIKE_OPTION)}"

    def error(self, message: str) -> NoReturn:
        program = self.prog.split()[0]
        self.exit(2, f"{program}: error: {_sentence(message, self.prog)}\nSee '{self.prog} --help' for usage.\n")


def _sentence(message: str, prog: str) -> str:
    """argparse's message; for an unknown command, and for what is no number, a better one."""
    if no_integer := _BAD_INTEGER.fullmatch(message):
        return f"{no_integer['start']}wants a whole number, found {no_integer['given']}"
    bad = _BAD_CHOICE.fullmatch(message)
    if bad is None:
        return message
    known = [each.strip(_QUOTES) for each in bad["known"].split(",")]
    hint = _did_you_mean(bad["given"], known) or f"; choose from {', '.join(known)}"
    if bad["what"] == COMMAND:
        return f'unknown command "{bad["given"]}" for "{prog}"{hint}'
    return f'{bad["what"]}: "{bad["given"]}" is not known{hint}'


def _did_you_mean(given: str, known: Sequence[str], *, like: float = _LIKE) -> str:
    # Imported here: only who mistypes pays for it.
    from difflib import get_close_matches

    close = get_close_matches(given, known, n=1, cutoff=like)
    return f'; did you mean "{close[0]}"?' if close else ""


COMMAND: Final = "COMMAND"
"""The metavar of every choice of commands."""


def add_commands(parser: CommandParser, *, dest: str) -> Subparsers:
    """Let ``parser`` have commands below it, one of which must be given."""
    return parser.add_subparsers(
        dest=dest, metavar=COMMAND, required=True, title="commands", parser_class=CommandParser
    )
