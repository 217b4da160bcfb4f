"""The parent of one container's process, as a program of its own: ``python -I -S wrapper.py DIRECTORY BOOT_ID``.

It lives as long as the container, once per container, and outlives the node; so it imports next to nothing, and
nothing of plugbay. Every step leaves what a later node can make sense of:

1. The container's process is forked, opens its session, and waits.
2. ``process.json`` says who both are, durably; so does the name of an empty file beside it, in case that is damaged.
3. The node is told. When it is gone the command never runs: a new node may have looked before step 2, and taken the
   container for one that was never made.
4. The process is let go, and becomes the command. When that fails, ``exit.json`` says at which step and why.
5. Who connects to the socket that was passed on as descriptor 3 gets commands run beside the container (`guests`).
6. At its end what is left of its session is killed, those commands too, and ``exit.json`` says how it ended, durably.

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
    from typing import NoReturn

    from plugbay.node.runtimes.process.guests import Guests
else:
    import _signal  # `signal` would import enum, for a third of this program's start time

NULL, REPORT, ERRORS, LISTENER = 0, 1, 2, 3
START_FAILED = 128
"""Exit code of a container whose command could not be run, as with containerd."""


def main(directory: str, boot_id: str) -> None:
    close_inherited()
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.chdir("/")
    working_dir, argv, env = read_launch(here)
    gate, open_gate = os.pipe()
    failure, tell_failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(open_gate)
        become_command(here, working_dir, argv, env, gate=gate, tell_failure=tell_failure)
    os.close(tell_failure)
    for ignored in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
        # Meant for the container, if for anyone: whoever waits for it needs to know how it ended.
        _signal.signal(ignored, _signal.SIG_IGN)
    # If anything fails here, this process ends, the gate closes, and the other one ends as well.
    own, its = start_ticks(os.getpid()), start_ticks(pid)
    marker = f"ran_{boot_id}_{os.getpid()}_{own}_{pid}_{its}"
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here))  # synced with the file that follows
    members = f'"boot_id":"{boot_id}","wrapper":{identify(os.getpid(), own)},"process":{identify(pid, its)}'
    write_durably(here, "process.json", f'{{{members},"started_at":{time.time():.6f}}}')
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
    code = wait_for_end(pid, here, working_dir, env)
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
    here: int, working_dir: str, argv: list[str], env: dict[str, str], *, gate: int, tell_failure: int
) -> NoReturn:
    """Wait at the gate, then run the command in place of this program; every descriptor but 0, 1 and 2 closes then."""
    step = "setsid"
    try:
        os.setsid()
        if not os.read(gate, 1):
            os._exit(START_FAILED)
        step = "log"
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640, dir_fd=here)
        step = "chdir"
        os.chdir(working_dir)
        step = "exec"
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them, and execve would keep that
            _signal.signal(number, _signal.SIG_DFL)
        os.dup2(log, REPORT)
        os.dup2(log, ERRORS)
        execute(argv, env)
    except OSError as error:
        os.write(tell_failure, b"%s %d" % (step.encode(), error.errno or 0))
    finally:
        os._exit(START_FAILED)


def execute(argv: list[str], env: dict[str, str]) -> None:
    """Run the first match on the container's PATH. A match one may not execute counts only if there is no other."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)
    failure: OSError = FileNotFoundError(errno.ENOENT, argv[0])
    for directory in env.get("PATH", "").split(":"):
        try:
            os.execve(f"{directory or '.'}/{argv[0]}", argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failure = error
    raise failure


def wait_for_end(pid: int, here: int, working_dir: str, env: dict[str, str]) -> int:
    """The exit code, or the number of the signal, negative. Commands beside the container are run meanwhile."""
    end = os.pidfd_open(pid)
    watched = select.poll()
    watched.register(end, select.POLLIN)
    watched.register(LISTENER, select.POLLIN)
    guests = None
    try:
        while end not in (ready := [descriptor for descriptor, _ in watched.poll()]):
            guests = guests or load_guests(watched, here, working_dir, env)
            for descriptor in ready:
                guests.react(descriptor)
    except Exception:
        pass  # the container runs on, whatever happens to its guests, but lets no more of them in
    os.close(LISTENER)
    if guests is not None:
        guests.close()
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    kill_session(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def load_guests(watched: select.poll, here: int, working_dir: str, env: dict[str, str]) -> Guests:
    """Most containers never need it."""
    if not TYPE_CHECKING:
        sys.path.append(os.path.dirname(__file__))
        from guests import Guests
    return Guests(watched, LISTENER, here=here, working_dir=working_dir, env=env)


def kill_session(leader: int) -> None:
    """Kill what the leader left. It is still a zombie, so nobody else can have its number."""
    kill_group(leader)
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            state, _parent, group, session, *_ = read_stat(entry)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if session == str(leader) and state != "Z":
            kill_group(int(group))


def sessions_of_children(parent: int) -> set[int]:
    """Those that are not their parent's own, which it leads."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                _state, its_parent, _group, session, *_ = read_stat(entry)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if its_parent == str(parent):
                found.add(int(session))
    return found - {parent}


def kill_group(group: int) -> None:
    try:
        os.killpg(group, _signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all gone, or all of another user by now


def identify(pid: int, ticks: int) -> str:
    return f'{{"pid":{pid},"start_ticks":{ticks}}}'


def start_ticks(pid: int) -> int:
    return int(read_stat(str(pid))[19])


def read_stat(pid: str) -> list[str]:
    """The fields behind the command, which may hold blanks and parentheses."""
    stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(stat, 4096).decode(errors="replace").rpartition(")")[2].split()
    finally:
        os.close(stat)


def write_exit(here: int, code: int, more: str = "") -> None:
    write_durably(here, "exit.json", f'{{"finished_at":{time.time():.6f},"exit_code":{code}{more}}}')


def write_durably(here: int, name: str, text: str) -> None:
    temporary = f"{name}.tmp"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=here)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
    os.fsync(here)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
