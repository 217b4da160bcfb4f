"""Makes the terminal on its standard streams its own and becomes a command: ``terminal_launcher.py WORD…``.

A program of its own, as code between fork and exec may not run in a process with threads. Whoever starts it has given
it a session of its own; what goes wrong is printed on the terminal, with the exit code that a shell would give.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` would import enum

CANNOT_RUN, NOT_FOUND = 126, 127


def main(argv: list[str]) -> None:
    # The first terminal that a session leader opens becomes that of the session.
    os.close(os.open(os.ttyname(0), os.O_RDWR))
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them, and exec would keep that
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        print(f"exec: {argv[0]}: {os.strerror(error.errno or 0).lower()}", file=sys.stderr)  # noqa: T201 - its terminal
        sys.exit(NOT_FOUND if missing else CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
