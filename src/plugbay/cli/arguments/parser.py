"""The parser class of all commands: it speaks like kubectl when it is misused."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""The type that `add_commands` returns."""

_BAD_CHOICE: Final = re.compile(
    r"argument (?P<what>\S+): invalid choice: '(?P<given>.*?)' \(choose from (?P<known>.*)\)"
)
_LEFTOVERS: Final = tuple(
    (re.compile(pattern, re.DOTALL), ours)
    for pattern, ours in (
        (r"(argument \S+: )invalid int value: (.*)", r"\1wants a whole number, found \2"),
        (r"argument (\S+): ignored explicit argument (.*)", r"\1 takes no value, found \2"),
        (r"argument (\S+): expected (?:one|at least one) argument", r"\1 wants a value"),
        (r"the following arguments are required: ([^,]*)", r"\1 is missing"),
        (r"the following arguments are required: (.*)", r"\1 are missing"),
    )
)
"""Messages of argparse that are not sentences, and ours for them."""
_NEGATIVE: Final = re.compile(r"-\.?[0-9]")
"""A value that looks like an option: a number, or a time such as -1s. argparse knows the numbers only."""
_QUOTES: Final = "'\" "
_LIKE: Final = 0.6
_LIKE_OPTION: Final = 0.8
"""Options need a higher likeness: they have their dashes in common already."""


class CommandParser(argparse.ArgumentParser):
    """Speaks like kubectl when it is misused, and can leave what follows ``--`` alone.

    Args:
        fill: declares the command when its arguments are wanted first: no command pays for another's.
        fill_group: declares a group's commands when they are wanted first; imports nothing.

    Attributes:
        examples: command lines for the end of the help.
        targets: parsers for command lines whose first argument is such a name; each is made when it is needed.
        explain_unknown: gives the sentence about an option that is not known; empty for the usual one.
    """

    def __init__(
        self,
        *args: Any,
        fill: Callable[[CommandParser], None] | None = None,
        fill_group: Callable[[CommandParser], None] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _NEGATIVE
        self._takes_command = False
        self._takes_all = False
        self._takes_more: str | None = None
        self._given: Sequence[str] = ()
        self.examples: Sequence[str] = ()
        self._fill = fill
        self._fill_group = fill_group
        self.explain_unknown: Callable[[str], str] = lambda _: ""
        self.targets: Mapping[str, Callable[[], CommandParser]] = {}

    def describe(
        self,
        description: str,
        *,
        run: Callable[[argparse.Namespace], int] | None = None,
        examples: Sequence[str] = (),
        usage: str | None = None,
        takes_command: bool = False,
        takes_all: bool = False,
        takes_more: str | None = None,
    ) -> None:
        """Declare a command, except for its arguments.

        Args:
            run: what the command does with the arguments, which have it as ``run``; None for a group of commands.
            takes_command: what follows ``--`` is the attribute ``command``, untouched; empty when there is no ``--``.
            takes_all: all words after its own options, which come first, are the attribute ``command``, untouched, but
                for ``--help`` alone.
            takes_more: the positional argument, a list, whose values may also follow options: argparse takes them only
                where the first one stands.
        """
        self.description, self.examples, self.usage = description, examples, usage
        self._takes_command, self._takes_all, self._takes_more = takes_command, takes_all, takes_more
        if run is not None:
            self.set_defaults(run=run)

    @property
    def commands(self) -> dict[str, CommandParser]:
        """The commands right below this one, by name; without the other names that they have."""
        return {name: parser for name, parser in self._below().items() if parser.name == name}

    @property
    def name(self) -> str:
        """The last word of the command's name."""
        return self.prog.rpartition(" ")[2]

    def command(self, name: str) -> CommandParser:
        """The command right below this one that ``name`` stands for; an unknown one is a usage error."""
        if name not in self._below():
            self.error(f'unknown command "{name}" for "{self.prog}"{_did_you_mean(name, list(self.commands))}')
        return self._below()[name]

    def _below(self) -> Mapping[str, CommandParser]:
        if self._choice_of_commands is not None:
            return self._choice_of_commands.choices
        self._fill_now()
        return {name: make() for name, make in self.targets.items()}

    def _fill_now(self) -> None:
        self._fill_group_now()
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def _fill_group_now(self) -> None:
        fill, self._fill_group = self._fill_group, None
        if fill is not None:
            fill(self)

    @property
    def _choice_of_commands(self) -> Subparsers | None:
        self._fill_group_now()
        found = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return next(found, None)

    def format_help(self) -> str:
        """The help of argparse, with the examples on lines of their own: argparse would fill them into a paragraph."""
        self._fill_now()
        text = super().format_help()
        if not self.examples:
            return text
        return "\n".join([text, "examples:", *(f"  {line}" for line in self.examples), ""])

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self._fill_now()
        given = self._given = list(args or ())
        if self._takes_all and given not in (["-h"], ["--help"]):
            own = self._own_words(given)
            parsed, _ = super().parse_known_args(given[:own], namespace)
            parsed.command = given[own:]
            return parsed, []
        at = self._first_argument(given) if self.targets else len(given)
        if at < len(given) and given[at] in self.targets:
            return self.targets[given[at]]().parse_known_args(given[:at] + given[at + 1 :], namespace)
        if not self._takes_command:
            parsed, unknown = super().parse_known_args(self._filled(given), namespace)
        else:
            end = given.index("--") if "--" in given else len(given)
            parsed, unknown = super().parse_known_args(self._filled(given[:end]), namespace)
            parsed.command = given[end + 1 :]
        # Here, where the options are known; argparse would leave it to the parser above.
        if options := [each for each in unknown if _is_option(each)]:
            self.error(self._unknown(options[0]))
        if self._takes_more is not None:
            getattr(parsed, self._takes_more).extend(unknown)
        elif unknown:
            self.error(f'unexpected argument "{unknown[0]}"{self._after_dashes(unknown[0])}')
        if (choice := self._choice_of_commands) is not None:
            if (name := getattr(parsed, choice.dest)) is None:
                self.print_help()
                self.exit()
            setattr(parsed, choice.dest, choice.choices[name].name)
        return parsed, []

    def _own_words(self, given: Sequence[str]) -> int:
        """The number of words at the beginning that are options of this command, with their values."""
        at = 0
        while at < len(given):
            name, has_value, _ = given[at].partition("=")
            action = self._option_string_actions.get(name)
            if action is None or action.nargs == 0:
                break
            at += 1 if has_value else 2
        return at

    def _filled(self, given: Sequence[str]) -> list[str]:
        """The words, with values for options that may stand alone: argparse would take the next word for one.

        Where there are no other arguments, the next word is one.
        """
        if all(action.option_strings for action in self._actions):
            return list(given)
        alone = {
            option: action.const
            for action in self._actions
            if action.nargs == argparse.OPTIONAL and action.const is not None
            for option in action.option_strings
        }
        return [f"{each}={alone[each]}" if each in alone else each for each in given] if alone else list(given)

    def _first_argument(self, given: Sequence[str]) -> int:
        """The index of the first word that is neither an option nor its value; behind the end if there is none."""
        return next((at for at in self.heads(given) if not _is_option(given[at])), len(given))

    def heads(self, given: Sequence[str]) -> Iterator[int]:
        """The indexes of the words before ``--`` that are not the value of an option."""
        at = 0
        while at < len(given) and given[at] != "--":
            yield at
            action = self._option_string_actions.get(given[at])
            # An option that we do not know is one of a target, most likely, and those have values.
            has_value = action.nargs is None if action is not None else "=" not in given[at]
            at += 2 if _is_option(given[at]) and has_value else 1

    def _after_dashes(self, word: str) -> str:
        """The hint that shows the line with ``--`` before ``word``, where the container's command begins."""
        if not self._takes_command or "--" in self._given:
            return "; what a container runs comes after --" if self._takes_command else ""
        # Imported here: only a mistake pays for it.
        from shlex import join

        at = list(self._given).index(word)
        return (
            f"; what a container runs comes after --: {self.prog} {join([*self._given[:at], '--', *self._given[at:]])}"
        )

    def _unknown(self, option: str) -> str:
        if explained := self.explain_unknown(option):
            return explained
        name = option.partition("=")[0]
        return f"unknown option {name}{_did_you_mean(name, list(self._option_string_actions), like=_LIKE_OPTION)}"

    def error(self, message: str) -> NoReturn:
        program = self.prog.split()[0]
        self.exit(2, f"{program}: error: {self._sentence(message)}\nSee '{self.prog} --help' for usage.\n")

    def _sentence(self, message: str) -> str:
        """The message of argparse in our words."""
        bad = _BAD_CHOICE.fullmatch(message)
        if bad is None:
            return _worded(message)
        if bad["what"] == COMMAND:
            hint = self._instead_of(bad["given"]) or _did_you_mean(bad["given"], list(self.commands))
            return f'unknown command "{bad["given"]}" for "{self.prog}"{hint or _choose(self.commands)}'
        known = [each.strip(_QUOTES) for each in bad["known"].split(",")]
        return f'{bad["what"]}: "{bad["given"]}" is not known{_did_you_mean(bad["given"], known) or _choose(known)}'

    def _instead_of(self, command: str) -> str:
        from plugbay.cli.arguments.hints import instead_of

        groups = {
            group.prog: {called: command.name for called, command in group._below().items()}
            for group in self.commands.values()
            if group._choice_of_commands is not None
        }
        hint = instead_of(command, self._given[list(self._given).index(command) + 1 :], groups)
        return f"; {hint}" if hint else ""


class _Formatter(argparse.HelpFormatter):
    """The formatter of argparse, which makes one for every argument and asks `shutil` for the width of the screen.

    With `shutil` come three packers: 0.6 MB and some ms of each command.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width of the screen, as `shutil.get_terminal_size` has it."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
        except (ValueError, OSError):  # closed, or not a terminal
            columns = 0
    return columns or 80


def _worded(message: str) -> str:
    for pattern, ours in _LEFTOVERS:
        if found := pattern.fullmatch(message):
            return found.expand(ours)
    return message


def _choose(known: Iterable[str]) -> str:
    return f"; choose from {', '.join(known)}"


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _did_you_mean(given: str, known: Sequence[str], *, like: float = _LIKE) -> str:
    # Imported here: only a mistyped command pays for it.
    from difflib import get_close_matches

    close = get_close_matches(given, known, n=1, cutoff=like)
    return f'; did you mean "{close[0]}"?' if close else ""


COMMAND: Final = "COMMAND"
"""The metavar of every choice of commands."""


def add_commands(parser: CommandParser, *, dest: str) -> Subparsers:
    """Let ``parser`` have commands below it; without one of them it shows its help."""
    return parser.add_subparsers(
        dest=dest, metavar=COMMAND, required=False, title="commands", parser_class=CommandParser
    )
