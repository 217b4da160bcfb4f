"""Arguments that several commands share, and the values they take."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.model.dns import is_label
from plugbay.model.durations import parse_duration

_LEAST_BYTES: Final = 4096
_URL: Final = re.compile("https?://")


def add_root(parser: argparse._ActionsContainer, *, default: str | None = argparse.SUPPRESS) -> None:
    """``--root``; may be given before the command as well as after it."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=directory_of,
        default=default,
        help="the node's root directory (default: $PLUGBAY_ROOT, else /var/lib/plugbay for root, "
        "else $XDG_STATE_HOME/plugbay or ~/.local/state/plugbay)",
    )


def add_kubelet_root(parser: argparse._ActionsContainer) -> None:
    """``--root`` and ``--node`` of a command that is meant for any kubelet, for `chosen_kubelet_root`."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=directory_of,
        default=argparse.SUPPRESS,
        help="the kubelet's root directory (default: $PLUGBAY_ROOT, else /var/lib/kubelet if a kubelet has its "
        "directory there, else that of `plugbay node up`; with both on this machine, an option has to say which)",
    )
    parser.add_argument(
        "--node", action="store_true", help="the kubelet is the node of `plugbay node up`, not a stock kubelet"
    )


def directory_of(text: str) -> str:
    """A directory; for ``type=`` of an argument."""
    return _given(text, "a directory")


def path_of(text: str) -> Path:
    """A path; for ``type=`` of an argument."""
    return Path(_given(text, "a path"))


def file_of(text: str) -> str:
    """A file, or - for standard input; for ``type=`` of an argument."""
    if _URL.match(text):
        raise argparse.ArgumentTypeError(
            f"wants a file, and {text} is an address: fetch it with curl, and give the file, or - for standard input"
        )
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
        help="only objects with such labels: app=web, tier!=test, 'zone in (a,b)', 'zone notin (a,b)', gpu, '!gpu', or "
        "several, joined by commas",
    )


def _selector(text: str) -> str:
    # Imported here: only a command with a selector pays for it.
    from plugbay.model.selectors import parse_selector

    parse_selector(_given(text, "a selector"))
    return text


def namespace_of(text: str) -> str:
    """A namespace; for ``type=`` of an argument."""
    if not is_label(_given(text, "a name")):
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


def bytes_of(text: str) -> int:
    """A number of bytes such as ``10Mi``; for ``type=`` of an argument."""
    from plugbay.model.quantity import Quantity  # imported here: few commands take a size

    count = Quantity.parse(text).to_int_ceil() if re.fullmatch(r"[0-9]{1,15}(?:[kMGT]|[KMGT]i)?", text) else 0
    if count < _LEAST_BYTES:
        raise argparse.ArgumentTypeError(f"wants a size such as 10Mi, 4Ki or more, found {text!r}")
    return count


def _given(text: str, what: str) -> str:
    if not text:  # of a variable that is not set, most likely; it would mean the working directory, or every object
        raise argparse.ArgumentTypeError(f"wants {what}, found ''")
    return text


def add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", metavar="NS", type=namespace_of, default="default", help="namespace (default: %(default)s)"
    )


def add_all_namespaces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces instead of one")


_FORMS: Final = ("wide", "yaml", "json", "name")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=_FORMS, default="", help="another form of output")


def add_page_output(parser: argparse.ArgumentParser) -> None:
    """``-o`` of a page for users: the same for programs."""
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="", help="the same as YAML or JSON")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """``--timeout`` of a wait."""
    parser.add_argument(
        "--timeout",
        type=duration_s,
        default="30s",
        metavar="TIME",
        help="how long, such as 90s or 1h30m; 0 looks once, a negative time is without end (default: %(default)s)",
    )


class _FormsAndTemplates(tuple[str, ...]):
    """Choices of which the last one, such as ``jsonpath=``, takes any text after its equals sign."""

    __slots__ = ()

    def __contains__(self, form: object) -> bool:
        return super().__contains__(form) or (isinstance(form, str) and form.partition("=")[0] == "jsonpath")


def add_output_or_template(parser: argparse.ArgumentParser) -> None:
    """``-o`` with ``jsonpath=`` too, for `plugbay.cli.kubectl.jsonpath_template`."""
    parser.add_argument(
        "-o",
        "--output",
        choices=_FormsAndTemplates((*_FORMS, "jsonpath=TEMPLATE")),
        default="",
        help="another form of output; a TEMPLATE is text with values in it, such as '{.items[*].metadata.name}' "
        "or '{range .items[*]}{.metadata.name}{\"\\n\"}{end}', and with one NAME '{.status.phase}'",
    )


def add_log_options(parser: argparse._ActionsContainer) -> None:
    """``--log-level`` and ``--log-format``, for `plugbay.cli.printing.logs.configure_logs`."""
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


def add_metrics_address(parser: argparse._ActionsContainer) -> None:
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
    """A length of time as Go writes it: ``30s``, ``1h30m``, ``0``, ``-1s``; for ``type=`` of an argument."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
