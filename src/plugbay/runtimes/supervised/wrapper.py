"""The parent of one container's process, as a program of its own.

``python -I -S wrapper.py DIRECTORY BOOT_ID LOG_BYTES LOG_FILES [INPUT]``

It lives as long as the container, once per container, and outlives the node; so it imports next to nothing, and
nothing of plugbay. Every step leaves what a later node can make sense of:

1. The container's process is forked, opens its session, and waits.
2. ``process.json`` names both processes, durably; so does the name of an empty file beside it, in case that is damaged.
3. The node is told. When it is gone the command never runs: a new node may have looked before step 2, and taken the
   container for one that was never made.
4. The process is let go, and becomes the command. When that fails, ``exit.json`` says at which step and why.
5. What it writes goes to files of bounded size (`output`). A client that connects to the socket passed on as
   descriptor 3 gets commands run beside the container (`exec_server`), or is attached to it (`attachments`). INPUT says
   what the container reads, if anything (`container_input`).
6. At its end everything that descends from it is killed, those commands too (`descendants`), and ``exit.json`` says
   how it ended, durably. The disk keeps room for that file from the start.

Whatever goes wrong up to step 4 is told to the node on stdout and stderr, which are one pipe.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import NoReturn

    from plugbay.runtimes.supervised.container_input import ContainerInput
    from plugbay.runtimes.supervised.exec_server import ExecServer
else:
    import _signal  # `signal` would import enum, for a third of this program's start time

if TYPE_CHECKING or __package__:
    from plugbay.kernel.descendants import (
        keep_orphans,
        kill_descendants,
        kill_group,
        reap_orphans,
        start_ticks,
    )
    from plugbay.runtimes.supervised.execution import START_FAILED, execute
    from plugbay.runtimes.supervised.output import Output
else:  # as a program, which knows no packages
    sys.path.insert(0, os.path.dirname(__file__))
    sys.path.append(os.path.join(os.path.dirname(__file__), "../../kernel"))
    from descendants import keep_orphans, kill_descendants, kill_group, reap_orphans, start_ticks
    from execution import START_FAILED, execute
    from output import Output

NULL, REPORT, ERRORS, LISTENER = 0, 1, 2, 3
RESERVED = "exit.reserved"
"""Made with the instance, as large as what is written at its end, when the disk may be full."""
_TRIES = 60
_READ_BYTES = 4096
_LOOK_MS = 1000


def main(directory: str, boot_id: str, log_bytes: str, log_files: str, wanted_input: str = "") -> None:
    close_inherited()
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.chdir("/")
    working_dir, argv, env = read_launch(here)
    output = Output(here, max_bytes=int(log_bytes), max_files=int(log_files))
    given = None
    if wanted_input:
        if not TYPE_CHECKING:
            from container_input import ContainerInput
        given = ContainerInput(wanted_input.split(","), output)
    streams = given.theirs if given is not None else (NULL, *output.given)
    keep_orphans()
    gate, open_gate = os.pipe()
    failure, tell_failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(open_gate)
        become_command(streams, working_dir, argv, env, gate=gate, tell_failure=tell_failure)
    os.close(tell_failure)
    for descriptor in {*streams, *output.given} - {NULL}:
        os.close(descriptor)
    for ignored in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
        # They are meant for the container, if at all: the node needs to know how the container ended.
        _signal.signal(ignored, _signal.SIG_IGN)
    # If anything fails here, this process ends, the gate closes, and the other one ends as well.
    end, deaths = os.pidfd_open(pid), tell_of_deaths()
    own, its = start_ticks(os.getpid()), start_ticks(pid)
    marker = f"ran_{boot_id}_{os.getpid()}_{own}_{pid}_{its}"
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here))  # synced with the file that follows
    members = f'"boot_id":"{boot_id}","wrapper":{identify(os.getpid(), own)},"process":{identify(pid, its)}'
    write_durably(here, "process.json", f'{{{members},"started_at":{time.time():.6f}}}', temporary="process.json.tmp")
    try:
        os.write(REPORT, b"recorded\n")
    except OSError:
        for name in ("process.json", marker):  # the node is gone, and what never ran was never made
            os.unlink(name, dir_fd=here)
        raise
    os.write(open_gate, b"1")
    reason = os.read(failure, 100).decode()
    if reason:
        os.waitpid(pid, 0)
        step, _, number = reason.partition(" ")
        write_exit(here, START_FAILED, f',"failed_step":"{step}","errno":{number}')
        return
    os.dup2(NULL, REPORT)
    os.dup2(NULL, ERRORS)

    def entertain(watched: select.epoll) -> ExecServer:
        """Load the part for commands beside the container; most containers never need it."""
        if not TYPE_CHECKING:
            from exec_server import ExecServer
        return ExecServer(watched, LISTENER, here=here, working_dir=working_dir, env=env, output=output, given=given)

    code = wait_for_end(pid, end, deaths, output, given, entertain)
    if code < 0:
        write_exit(here, 128 - code, f',"signal":{-code}')
    else:
        write_exit(here, code)


def close_inherited() -> None:
    """Close what a library in the node opened without close-on-exec: it would stay open as long as the container."""
    os.set_inheritable(LISTENER, False)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > LISTENER:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the one the listing itself was read from


def read_launch(here: int) -> tuple[str, list[str], dict[str, str]]:
    """Working directory, number of arguments, arguments, variables: all ended by NUL, which none of them can hold."""
    with open(
        os.open("launch", os.O_RDONLY, dir_fd=here), encoding="utf-8", errors="surrogateescape", newline=""
    ) as file:
        working_dir, size, *rest = file.read().split("\0")[:-1]
    argv, variables = rest[: int(size)], rest[int(size) :]
    return working_dir, argv, dict(variable.split("=", 1) for variable in variables)


def become_command(
    streams: tuple[int, int, int],
    working_dir: str,
    argv: list[str],
    env: dict[str, str],
    *,
    gate: int,
    tell_failure: int,
) -> NoReturn:
    """Wait at the gate, then run the command in place of this program; every descriptor but 0, 1 and 2 closes then."""
    step = "setsid"
    try:
        os.setsid()
        if not os.read(gate, 1):
            os._exit(START_FAILED)
        if os.isatty(streams[0]):
            step = "terminal"
            # The first terminal that a session leader opens becomes that of the session.
            os.close(os.open(os.ttyname(streams[0]), os.O_RDWR))
        step = "chdir"
        os.chdir(working_dir)
        step = "exec"
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them, and execve would keep that
            _signal.signal(number, _signal.SIG_DFL)
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
        execute(argv, env)
    except OSError as error:
        os.write(tell_failure, b"%s %d" % (step.encode(), error.errno or 0))
    finally:
        os._exit(START_FAILED)


def wait_for_end(
    pid: int,
    end: int,
    deaths: int,
    output: Output,
    given: ContainerInput | None,
    entertain: Callable[[select.epoll], ExecServer],
) -> int:
    """The exit code, or the number of the signal, negative. Commands beside the container are run meanwhile.

    Args:
        end, deaths: descriptors that can be read when the container's process has ended, and when any child has.
    """
    watched, beside = select.poll(), select.epoll()
    beside.register(LISTENER, select.POLLIN)
    open_sources = set(output.sources)
    for descriptor in (end, deaths, beside.fileno(), *open_sources):
        watched.register(descriptor, select.POLLIN)
    if given is not None and given.coming >= 0:
        watched.register(given.coming, select.POLLIN)
    guests: ExecServer | None = None
    has_failed = is_held = False
    while end not in (ready := [descriptor for descriptor, _ in watched.poll(_LOOK_MS if is_held else None)]):
        for source in [each for each in output.sources if each in open_sources and each in ready]:
            if not output.pump(source):
                open_sources.remove(source)
                watched.unregister(source)
        if given is not None and (coming := given.coming) in ready:
            if (terminal := given.take_terminal()) >= 0:
                open_sources.add(terminal)
                watched.register(terminal, 0 if is_held else select.POLLIN)
            watched.unregister(coming)
        if deaths in ready:
            os.read(deaths, _READ_BYTES)
            reap_orphans({pid, *(guests.pids() if guests else ())})
        if beside.fileno() in ready:
            try:
                guests = guests or entertain(beside)
                for descriptor, _ in beside.poll(0):
                    guests.react(descriptor)
            except Exception:
                # The container runs on, whatever happens to its guests, but lets no more of them in.
                watched.unregister(beside.fileno())
                os.dup2(NULL, LISTENER, inheritable=False)  # so that no client waits for an answer
                output.copy, has_failed = None, True
        if (guests is not None and not has_failed and guests.holds_output()) != is_held:
            is_held = not is_held
            for source in open_sources:
                watched.modify(source, 0 if is_held else select.POLLIN)
    os.close(LISTENER)
    if guests is not None:
        insist(guests.close)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    kill_group(pid)
    insist(kill_descendants)
    if given is not None:
        given.take_terminal()
    output.finish()
    if guests is not None:
        guests.end_attachments()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tell_of_deaths() -> int:
    """A pipe that can be read when a child has ended; orphans among the container's descendants become children."""
    deaths, death = os.pipe()
    for descriptor in (deaths, death):
        os.set_blocking(descriptor, False)
    _signal.set_wakeup_fd(death, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    return deaths


def insist(work: Callable[[], None]) -> None:
    """Do what has to be done at the end, although the system may have no room for it at the moment."""
    for _ in range(_TRIES):
        try:
            return work()
        except FileNotFoundError:
            return  # the container's directory is gone, and with it all that could be told
        except OSError:
            time.sleep(1)
    work()


def identify(pid: int, ticks: int) -> str:
    return f'{{"pid":{pid},"start_ticks":{ticks}}}'


def write_exit(here: int, code: int, more: str = "") -> None:
    text = f'{{"finished_at":{time.time():.6f},"exit_code":{code}{more}}}'
    insist(lambda: write_durably(here, "exit.json", text, temporary=RESERVED))


def write_durably(here: int, name: str, text: str, *, temporary: str) -> None:
    """Replace a file. Where ``temporary`` is there and large enough, a full disk takes it."""
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
    try:
        os.write(file, text.encode())
        os.ftruncate(file, len(text))
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
    os.fsync(here)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, MemoryError) as error:
        os.write(ERRORS, b"failed %d %s" % (getattr(error, "errno", None) or errno.ENOMEM, str(error).encode()))
        sys.exit(1)
