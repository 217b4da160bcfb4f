"""Commands run beside the container: the part of its wrapper that is loaded when the first one comes.

A client connects to the wrapper's socket and sends one message of any byte with four descriptors: that of the request,
which is ``pipes`` or ``terminal`` and the words of the command, each ended by NUL, and those of the standard streams.
A client that wants to be attached to the container itself says ``attach`` instead (`attachments`).
It gets, a line each: ``started PID TICKS`` before anything runs, ``failed STEP ERRNO``, and ``exit CODE`` as soon
as the command has ended. When it hangs up, also because it was killed, all that is left of the command's session is
killed too; the wrapper hangs up when nothing is left.

The wrapper is the parent, so that none of this depends on the client being alive. In case the wrapper and the client
are both killed, an empty file ``guest-PID-TICKS`` beside the container's records names each command as long as a
process of it may run: it is there before the command runs, and the next node kills the process that it names.
"""

from __future__ import annotations

import _socket  # `socket` would import enum and selectors
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn

    from plugbay.runtimes.supervised.attachments import Attachments
    from plugbay.runtimes.supervised.container_input import ContainerInput
    from plugbay.runtimes.supervised.output import Output
else:
    import _signal  # `signal` would import enum

if TYPE_CHECKING or __package__:
    from plugbay.kernel.descendants import kill_session, sessions_below, start_ticks
    from plugbay.runtimes.supervised.execution import START_FAILED, execute
    from plugbay.runtimes.supervised.served_exec import ServedExec
else:  # loaded by the wrapper's program, which knows no packages
    from descendants import kill_session, sessions_below, start_ticks
    from execution import START_FAILED, execute
    from served_exec import ServedExec

_AT_ONCE = 100
"""The most clients at a time. Further ones wait in the socket's backlog, so that descriptors never run out."""
_REQUEST_DESCRIPTORS = 4
_INT_BYTES = 4
_IGNORED_BY_WRAPPER = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGTERM,
    _signal.SIGPIPE,
    _signal.SIGXFSZ,
)


class ExecServer:
    """All commands beside one container; ``watched`` tells which descriptor to react to, ``here`` holds the records.

    A wrapper that an older plugbay started loads this too. It hands over no ``output`` and no ``given``, and lets no
    client attach.
    """

    def __init__(
        self,
        watched: select.epoll,
        listener: int,
        *,
        here: int,
        working_dir: str,
        env: dict[str, str],
        output: Output | None = None,
        given: ContainerInput | None = None,
    ) -> None:
        self._watched = watched
        self._output = output
        self._input = given
        self._attachments: Attachments | None = None
        self._here = here
        self._listener_number = listener
        self._listener = _socket.socket(fileno=os.dup(listener))
        self._listener.setblocking(False)
        self._working_dir = working_dir
        self._env = env
        self._by_descriptor: dict[int, ServedExec] = {}
        self._count = 0

    def react(self, descriptor: int) -> None:
        if descriptor == self._listener_number:
            self._accept()
            return
        if self._attachments is not None and self._attachments.knows(descriptor):
            self._attachments.react(descriptor)
            return
        guest = self._by_descriptor.get(descriptor)
        if guest is None:
            return  # it ended in this very round
        if guest.is_attached and self._attachments is not None:
            if not self._attachments.listen(guest):
                self._forget(guest)
        elif descriptor == guest.pidfd:
            self._note_end(guest)
        elif guest.pid:
            self._leave(guest)
        else:
            self._receive(guest)

    def pids(self) -> set[int]:
        """Commands that were started and are not reaped yet."""
        return {guest.pid for guest in self._by_descriptor.values() if guest.pid}

    def close(self) -> None:
        """Kill all commands and let in no more."""
        self._listener.close()
        for guest in set(self._by_descriptor.values()):
            if guest.pid:
                kill_guest(guest)
            if not guest.is_attached:
                guest.connection.close()

    def holds_output(self) -> bool:
        """Whether the container has to wait for a client that is attached; ask again after a second or so."""
        if self._attachments is None or not self._attachments.holds_output():
            return False
        for guest in self._attachments.without_patience():
            self._forget(guest)
        return self._attachments.holds_output()

    def end_attachments(self) -> None:
        """Let the clients that are attached have the rest, once no more comes."""
        if self._attachments is not None:
            self._attachments.close()

    def _accept(self) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # what `socket` builds on
        except OSError:
            return
        connection = _socket.socket(fileno=descriptor)
        connection.setblocking(False)
        self._watch(descriptor, ServedExec(connection))
        self._count += 1
        if self._count == _AT_ONCE:
            self._watched.unregister(self._listener_number)

    def _receive(self, guest: ServedExec) -> None:
        try:
            _, controls, _, _ = guest.connection.recvmsg(
                1, _socket.CMSG_SPACE(_REQUEST_DESCRIPTORS * _INT_BYTES), _socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            controls = []
        descriptors = [
            int.from_bytes(content[at : at + _INT_BYTES], sys.byteorder)
            for _, _, content in controls
            for at in range(0, len(content), _INT_BYTES)
        ]
        try:
            if len(descriptors) == _REQUEST_DESCRIPTORS:
                self._start(guest, descriptors[0], descriptors[1:])
        except OSError as error:
            guest.tell(f"failed fork {error.errno or 0}")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if not guest.pid and not guest.is_attached:
            self._forget(guest)

    def _attach(self, guest: ServedExec, streams: list[int], *, gives_input: bool) -> None:
        if self._output is None:
            guest.tell("failed attach 0")
            return
        if self._attachments is None:
            if not TYPE_CHECKING:
                from attachments import Attachments
            self._attachments = Attachments(self._watched, self._output, self._input)
        self._attachments.add(guest, streams, gives_input=gives_input)
        guest.is_attached = True

    def _start(self, guest: ServedExec, request: int, streams: list[int]) -> None:
        content = os.pread(request, os.fstat(request).st_size, 0)
        console, *argv = content.decode("utf-8", "surrogateescape").split("\0")[:-1]
        if console == "attach":
            self._attach(guest, streams, gives_input=argv == ["stdin"])
            return
        gate, open_gate = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                os.close(open_gate)
                become_guest(guest, argv, streams, gate, self._working_dir, environment(self._env, console))
            # While the gate is shut nothing runs; if this process is killed, it never will.
            ticks = start_ticks(pid)
            try:
                guest.pidfd = os.pidfd_open(pid)
                guest.record = self._record(pid, ticks)
            except OSError:
                if guest.pidfd >= 0:
                    os.close(guest.pidfd)
                os.kill(pid, _signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
            self._watch(guest.pidfd, guest)
            guest.pid = pid
            if guest.tell(f"started {pid} {ticks}"):
                os.write(open_gate, b"1")
        finally:
            os.close(gate)
            os.close(open_gate)

    def _record(self, pid: int, ticks: int) -> str:
        """Write the record of a command; it is not synced, as it is of use only while the machine runs."""
        name = f"guest-{pid}-{ticks}"
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=self._here))
        return name

    def _note_end(self, guest: ServedExec) -> None:
        ended = os.waitid(os.P_PID, guest.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return
        guest.has_ended = True
        self._watched.unregister(guest.pidfd)
        guest.tell(f"exit {ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status}")
        if guest.is_left:
            self._forget(guest)

    def _leave(self, guest: ServedExec) -> None:
        """Take note that the client has hung up; it says nothing else."""
        guest.is_left = True
        self._watched.unregister(guest.connection.fileno())
        if guest.has_ended:
            self._forget(guest)
        else:
            kill_guest(guest)  # and the rest of its session when its end is noted

    def _forget(self, guest: ServedExec) -> None:
        if guest.pid:
            kill_session(guest.pid)  # what was forked while the leader was being killed
            self._unlink(guest.record)
            os.waitpid(guest.pid, 0)
            del self._by_descriptor[guest.pidfd]
            os.close(guest.pidfd)
        else:
            self._watched.unregister(guest.connection.fileno())
        del self._by_descriptor[guest.connection.fileno()]
        guest.connection.close()
        if self._count == _AT_ONCE:
            self._watched.register(self._listener_number, select.POLLIN)
        self._count -= 1

    def _unlink(self, record: str) -> None:
        try:
            os.unlink(record, dir_fd=self._here)
        except OSError:
            pass  # the directory is being taken away; else the record names no process from now on

    def _watch(self, descriptor: int, guest: ServedExec) -> None:
        self._by_descriptor[descriptor] = guest
        self._watched.register(descriptor, select.POLLIN)


def kill_guest(guest: ServedExec) -> None:
    """Kill its session; it is our child, so that no other process has its number.

    With it go the sessions of its descendants: an engine's command in the container leads one of its own.
    """
    os.kill(guest.pid, _signal.SIGSTOP)  # so that it has no more of them
    for session in sessions_below(guest.pid) - {os.getsid(0)}:
        kill_session(session)
    os.kill(guest.pid, _signal.SIGKILL)  # it may not have opened its session yet
    kill_session(guest.pid)


def environment(env: dict[str, str], console: str) -> dict[str, str]:
    return {"TERM": "xterm", **env} if console == "terminal" else env


def become_guest(
    guest: ServedExec, argv: list[str], streams: list[int], gate: int, working_dir: str, env: dict[str, str]
) -> NoReturn:
    """Run the command in place of this program; every descriptor but 0, 1 and 2 closes then."""
    step = "setsid"
    try:
        os.setsid()
        if not os.read(gate, 1):
            os._exit(START_FAILED)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        if os.isatty(0):
            step = "terminal"
            # The first terminal that a session leader opens becomes that of the session.
            os.close(os.open(os.ttyname(0), os.O_RDWR))
        step = "chdir"
        os.chdir(working_dir)
        step = "exec"
        for ignored in _IGNORED_BY_WRAPPER:  # exec would keep that
            _signal.signal(ignored, _signal.SIG_DFL)
        execute(argv, env)
    except OSError as error:
        guest.tell(f"failed {step} {error.errno or 0}")
    finally:
        os._exit(START_FAILED)
