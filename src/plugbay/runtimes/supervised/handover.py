"""Runs an engine that makes a terminal, and hands the terminal over; a program of its own, in the engine's place.

``python -I -S handover.py DIRECTORY PID_FILE AT ENGINE WORDS...``

In the foreground an engine copies what is printed from its terminal to ours: crun leaves without reading the rest when
the command ends, and runc begins to print while ours is not set up yet. So the engine is run with ``--detach`` and
``--console-socket``, which are put before its words number ``AT``, and all read and write the one terminal.

The master of the terminal is sent over standard input, a socket. PID_FILE, which may be empty, is there from then on:
clients that wait for it find the terminal in place. This program becomes the parent of the command when the engine has
left, passes signals on to it, and ends as it does. An engine that fails is what it ends as otherwise.

Source: crun 1.8 to 1.19 ``src/libcrun/container.c``, ``wait_for_process``; runc 1.1 ``tty.go``.
"""

from __future__ import annotations

import _socket  # `socket` would import enum and selectors
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` would import enum

if TYPE_CHECKING or __package__:
    from plugbay.kernel.descendants import keep_orphans
else:  # as a program, which knows no packages
    sys.path.insert(0, os.path.dirname(__file__))
    sys.path.append(os.path.join(os.path.dirname(__file__), "../../kernel"))
    from descendants import keep_orphans

_PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)
_INT_BYTES = 4
_TO_CLIENT = 0
_SIGNALLED = 128


def main(directory: str, pid_file: str, at: str, *engine: str) -> int:
    keep_orphans()
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    own = f"terminal-{os.getpid()}"
    # A socket's path may have 107 bytes only, and the engine is another process.
    console = f"/proc/{os.getpid()}/fd/{here}/{own}"
    engine_pid_file = f"{directory}/{own}.pid"
    command = 0
    early: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        if not command:
            early.append(number)
            return
        try:
            os.kill(command, number)
        except ProcessLookupError:
            pass

    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        listener.bind(console)
        listener.listen(1)
        for passed_on in _PASSED_ON:
            _signal.signal(passed_on, pass_on)
        ended: dict[int, int] = {}
        code = exit_code(start(with_options(engine, int(at), console, engine_pid_file)), ended)
        if code:
            return code
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # what `socket` builds on
        hand_over(_socket.socket(fileno=descriptor))
        with open(engine_pid_file, encoding="ascii") as file:
            command = int(file.read())
        if pid_file:
            os.rename(engine_pid_file, pid_file)
    finally:
        listener.close()
        for name in (own, f"{own}.pid"):
            try:
                os.unlink(name, dir_fd=here)
            except OSError:
                pass
    for number in early:
        pass_on(number, None)
    return exit_code(command, ended)


def with_options(engine: tuple[str, ...], at: int, console: str, pid_file: str) -> list[str]:
    options = ("--detach", "--console-socket", console, "--pid-file", pid_file)
    return [*engine[:at], *options, *engine[at:]]


def start(argv: list[str]) -> int:
    """Start the engine, which ends when it has started the command."""
    null = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
    try:
        return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsigdef=_PASSED_ON)
    finally:
        os.close(null)


def hand_over(engine: _socket.socket) -> None:
    """Pass the terminal on that the engine sends; that the client has left is noticed by others."""
    _, controls, _, _ = engine.recvmsg(4096, _socket.CMSG_SPACE(_INT_BYTES), _socket.MSG_CMSG_CLOEXEC)
    content = controls[0][2]
    to_client = _socket.socket(fileno=os.dup(_TO_CLIENT))
    try:
        to_client.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, content)])
    except OSError:
        pass
    finally:
        to_client.close()
        engine.close()
        os.close(int.from_bytes(content, sys.byteorder))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, _TO_CLIENT)  # so that the client sees that nothing more comes
        os.close(null)


def exit_code(child: int, ended: dict[int, int]) -> int:
    """Wait for the end of ``child``. ``ended`` keeps how others ended: a command may be over before its engine is."""
    while child not in ended:
        pid, status = os.waitpid(-1, 0)
        ended[pid] = status
    code = os.waitstatus_to_exitcode(ended[child])
    return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except (OSError, ValueError, IndexError) as error:
        os.write(2, f"cannot hand over the terminal: {error}\n".encode())
        sys.exit(1)
