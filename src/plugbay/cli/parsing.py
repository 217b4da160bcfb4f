"""Arguments: our own parser class, and what several commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""What `add_commands` returns."""

_BAD_CHOICE: Final = re.compile(
    r"argument (?P<what>\S+): invalid choice: '(?P<given>.*?)' \(choose from (?P<known>.*)\)"
)
_BAD_INTEGER: Final = re.compile(r"(?P<start>argument \S+: )invalid int value: (?P<given>.*)", re.DOTALL)
_NEGATIVE: Final = re.compile(r"-\.?[0-9]")
"""What looks like an option and is a value: a number, or a time such as -1s. argparse knows the numbers only."""
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S: Final = 292 * 365 * 86400.0
"""Go counts nanoseconds, in 64 bits."""
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_NAMESPACE: Final = re.compile("[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
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
            parsed, unknown = super().parse_known_args(given, namespace)
        else:
            end = given.index("--") if "--" in given else len(given)
            parsed, unknown = super().parse_known_args(given[:end], namespace)
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


def add_root(parser: argparse.ArgumentParser, *, default: str | None = argparse.SUPPRESS) -> None:
    """``--root``; may be given before the command as well as after it."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=_directory,
        default=default,
        help="the node's root directory (default: $PLUGBAY_ROOT, else /var/lib/plugbay for root, "
        "else $XDG_STATE_HOME/plugbay or ~/.local/state/plugbay)",
    )


def add_kubelet_root(parser: argparse.ArgumentParser) -> None:
    """``--root`` of a command that is meant for any kubelet."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=_directory,
        default=argparse.SUPPRESS,
        help="the kubelet's root directory (default: $PLUGBAY_ROOT, else /var/lib/kubelet if there is one, "
        "else that of `plugbay node up`)",
    )


def _directory(text: str) -> str:
    return _given(text, "a directory")


def path_of(text: str) -> Path:
    """A path; for ``type=`` of an argument."""
    return Path(_given(text, "a path"))


def file_of(text: str) -> str:
    """A file, or - for standard input; for ``type=`` of an argument."""
    return _given(text, "a file")


def name_of(text: str) -> str:
    """An object's name; for ``type=`` of an argument."""
    return _given(text, "a name")


def add_selector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l",
        "--selector",
        metavar="SELECTOR",
        type=_selector,
        help="those with such labels: app=web, tier!=test, 'zone in (a,b)', 'zone notin (a,b)', gpu, '!gpu', or "
        "several, joined by commas",
    )


def _selector(text: str) -> str:
    # Imported here: only who selects pays for it.
    from plugbay.model.selectors import parse_selector

    parse_selector(_given(text, "a selector"))
    return text


def namespace_of(text: str) -> str:
    """A namespace; for ``type=`` of an argument."""
    if not _NAMESPACE.fullmatch(_given(text, "a name")):
        raise argparse.ArgumentTypeError(
            f"wants a namespace, 1 to 63 lower-case letters, digits and - such as default, found {text!r}"
        )
    return text


def at_least(least: int) -> Callable[[str], int]:
    """A whole number from ``least`` on; for ``type=`` of an argument."""

    def number(text: str) -> int:
        if not re.fullmatch("-?[0-9]{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"wants a whole number, {least} or more, found {text!r}")
        return int(text)

    return number


def _given(text: str, what: str) -> str:
    if not text:  # of a variable that is not set, most likely; it would mean the working directory, or every object
        raise argparse.ArgumentTypeError(f"wants {what}, found ''")
    return text


def add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", metavar="NS", type=namespace_of, default="default", help="namespace (default: %(default)s)"
    )


def add_all_namespaces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")


_FORMS: Final = ("wide", "yaml", "json", "name")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=_FORMS, default="", help="another form of output")


class _FormsAndTemplates(tuple[str, ...]):
    """Choices, the last of which takes any text after its equals sign."""

    __slots__ = ()

    def __contains__(self, form: object) -> bool:
        return super().__contains__(form) or (isinstance(form, str) and form.partition("=")[0] == "jsonpath")


def add_output_or_template(parser: argparse.ArgumentParser) -> None:
    """``-o`` with ``jsonpath=`` too, for `plugbay.cli.jsonpath_template`."""
    parser.add_argument(
        "-o",
        "--output",
        choices=_FormsAndTemplates((*_FORMS, "jsonpath=TEMPLATE")),
        default="",
        help="another form of output; a TEMPLATE is text with values in it, such as '{.items[*].metadata.name}' "
        "or '{range .items[*]}{.metadata.name}{\"\\n\"}{end}', and with one NAME '{.status.phase}'",
    )


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """``--log-level`` and ``--log-format``, for `plugbay.cli.logs.configure_logs`."""
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="log what is at least this important, on standard error (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="log lines for people, or one JSON object a line (default: %(default)s)",
    )


def add_metrics_address(parser: argparse.ArgumentParser) -> None:
    """``--metrics``, for `plugbay.ops.listening.parse_address`."""
    parser.add_argument(
        "--metrics",
        metavar="ADDR",
        help="answer /metrics, /healthz, /readyz and /status at ADDR: :9400, 127.0.0.1:9400 or unix:/PATH "
        "(default: nowhere)",
    )


def chosen_namespace(args: argparse.Namespace) -> str | None:
    """The namespace the arguments ask for; None for all."""
    return None if args.all_namespaces else str(args.namespace)


def duration_s(text: str) -> float:
    """A length of time as Go writes it: ``30s``, ``1h30m``, ``0``, ``-1s``; for ``type=`` of an argument.

    Source: Go 1.26 ``time.ParseDuration``, without what is shorter than milliseconds.
    """
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text)
    if unsigned == "0":
        return 0.0
    if not _DURATION.fullmatch(unsigned):
        raise argparse.ArgumentTypeError(f"wants a time such as 30s or 1h30m, found {text!r}")
    seconds = sum(float(amount) * _UNITS_S[unit] for amount, unit in _DURATION_PART.findall(unsigned))
    if seconds > _LONGEST_S:
        raise argparse.ArgumentTypeError("wants a time of 292 years at most")
    return sign * seconds
