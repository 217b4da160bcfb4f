"""The gopher tutorial on one machine, without a cluster: `make demo`.

Starts a node on a private root and the gopher plugin, each as its own process, and plays what the tutorial shows:
devices appear and vanish, pods run and wait, the node is killed and comes back. Then, where crun or runc is there, a
real container gets a real device node of this machine; where not, it says so. Every step says what
was observed; the first one that does not hold ends the demo with exit code 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

RESOURCE = "example.com/gopher"
EXAMPLES = Path(__file__).parents[1] / "examples"
PODS = EXAMPLES / "gopher"
NODES = ("/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/loop-control")
"""Whoever may open them finds out nothing and changes nothing by it."""
PATIENCE_S = 15.0
LOOK_AGAIN_S = 0.03
LONGEST_DIRECTORY = 36
Seen = TypeVar("Seen")


class DemoFailed(Exception):
    """Something that should have been observed was not."""


class Demo:
    """One run: a root, a node, a plugin, and what is looked at."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self.node_options: tuple[str, ...] = ()
        self.gophers = directory / "gophers"
        self.log = directory / "log"
        self.node: subprocess.Popen[bytes] | None = None
        self.plugin: subprocess.Popen[bytes] | None = None
        self._steps = 0
        self._signal = 0

    def interrupt(self, number: int, _: object) -> None:
        """A signal handler. The demo ends after the command under way: half-way a process could get lost."""
        self._signal = number

    def play(self) -> None:
        self.start_node()
        self.start_plugin()
        self.gophers.mkdir()
        self.step("node and plugin run; no gopher yet", self.counts, "capacity 0, allocatable 0")

        self.touch("g1")
        self.step("the plugin saw g1, the node counts it", self.counts, "capacity 1, allocatable 1")

        self.plugbay("pod", "run", "-f", str(PODS / "pod.yaml"))
        self.step("gopher-pod runs", lambda: self.phase("gopher-pod"), "Running")
        self.step("its container was given g1", lambda: self.env("gopher-pod"), "Gopher=g1")

        self.plugbay("pod", "run", "-f", str(PODS / "pod2.yaml"))
        self.step("gopher-pod2 waits", lambda: self.phase("gopher-pod2"), "Pending")
        self.step("and says why", lambda: self.why_pending("gopher-pod2"), f"1 Insufficient {RESOURCE}")

        self.touch("g2")
        self.step("the node counts g2 as well", self.counts, "capacity 2, allocatable 2")
        self.step("gopher-pod2 runs", lambda: self.phase("gopher-pod2"), "Running")
        self.step("its container was given g2", lambda: self.env("gopher-pod2"), "Gopher=g2")

        self.say("$ rm g2")
        (self.gophers / "g2").unlink()
        self.step("g2 is gone, the node counts one", self.counts, "capacity 1, allocatable 1")
        self.step("gopher-pod2 goes on", lambda: self.phase("gopher-pod2"), "Running")

        before = self.instances()
        self.kill_node()
        self.start_node()
        self.step("both pods were adopted, not restarted", self.instances, before)
        self.step("the plugin has registered again", self.counts, "capacity 1, allocatable 1")
        self.step("gopher-pod holds what it held", lambda: self.env("gopher-pod"), "Gopher=g1")
        self.step("gopher-pod2 too", lambda: self.env("gopher-pod2"), "Gopher=g2")
        self.step("the node knows both holders", self.holders, {"g1": "gopher-pod", "g2": "gopher-pod2"})

        self.plugbay("pod", "delete", "gopher-pod", "gopher-pod2", "--grace-period", "1")
        self.step("no pod is left", lambda: [pod["metadata"]["name"] for pod in self.items("pod")], [])
        nobody: dict[str, str] = {}
        self.step("no gopher is held", self.holders, nobody)
        self.touch("g2")
        self.step("every gopher can be had again", self.counts, "capacity 2, allocatable 2")

        self.play_real_container()

    def play_real_container(self) -> None:
        """A pod whose container is one of crun or runc, and the kernel's word on which device it may open."""
        device = next(filter(may_open, NODES), None)
        if problem := why_no_container(device):
            self.say(f"A real container is left out: {problem}.")
            return
        self.stop()
        self.root = self.directory / "real"
        self.node_options = ("--runtime", "oci")
        self.start_node()
        self.say(f"$ NODE={device} plugbay serve examples/oci/nodes.py &")
        self.plugin = self.spawn("serve", str(EXAMPLES / "oci/nodes.py"), environ={"NODE": str(device)})
        self.step(
            f"the node has {device} to give", lambda: self.counts("example.com/node"), "capacity 1, allocatable 1"
        )
        self.plugbay("pod", "run", "-f", str(EXAMPLES / "oci/pod.yaml"))
        self.step("a real container has run", lambda: self.phase("burrow"), "Succeeded")
        opened = ["opens /dev/plugged"]
        if os.geteuid() == 0:
            log = [*opened, "cat: /dev/other: Operation not permitted"]
            self.step("the kernel let it open what it was given, and no more", lambda: self.log_of("burrow"), log)
        else:
            self.step("it opened what it was given", lambda: self.log_of("burrow")[:1], opened)
            self.say("That the kernel refuses it all other nodes is left out: it does so where root runs the node.")

    # --- the processes ----------------------------------------------------------------------------------------------

    def start_node(self) -> None:
        self.say(f"$ {' '.join(('plugbay node up', *self.node_options))} &")
        self.node = self.spawn("node", "up", *self.node_options)
        self.wait_for("the node answers", lambda: self.run("node", "get").returncode, 0)

    def kill_node(self) -> None:
        assert self.node is not None
        self.say(f"$ kill -9 {self.node.pid}   # the node")
        self.node.kill()
        self.node.wait()

    def start_plugin(self) -> None:
        arguments = ["directory", "--resource", RESOURCE, "--path", str(self.gophers), "--env", "Gopher"]
        self.say(f"$ plugbay serve {shlex.join(arguments)} &")
        self.plugin = self.spawn("serve", *arguments)

    def spawn(self, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "plugbay", *self.rooted(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environ or {})},
                start_new_session=True,  # Ctrl-C ends the demo, and the demo ends them in order
            )

    def stop(self) -> None:
        """End everything that was started, pods first. Harmless twice."""
        self._signal = 0
        if self.node is not None:
            if self.node.poll() is not None:
                self.node = self.spawn("node", "up", *self.node_options)  # nobody else ends pods
            with contextlib.suppress(DemoFailed):
                self.wait_for("no pod is left", self.is_cleared, True)
        for process in (self.plugin, self.node):
            if process is not None:
                process.send_signal(signal.SIGTERM)
        for process in (self.plugin, self.node):
            if process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=PATIENCE_S)
                process.kill()
                process.wait()  # or it might write where everything is about to be removed
        self.plugin = self.node = None

    def is_cleared(self) -> bool:
        """Delete the pods, once the node answers; also true when it cannot run at all."""
        assert self.node is not None
        return self.node.poll() is not None or self.run("pod", "delete", "--all", "--now").returncode == 0

    # --- what is observed, through the command line -----------------------------------------------------------------

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "plugbay", *self.rooted(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if self._signal:
            sys.exit(128 + self._signal)
        return done

    def rooted(self, arguments: tuple[str, ...]) -> list[str]:
        return ["--root", str(self.root), *arguments]

    def plugbay(self, *arguments: str) -> None:
        self.say(f"$ plugbay {shlex.join(arguments)}")
        done = self.run(*arguments)
        for line in (done.stdout + done.stderr).splitlines():
            self.say(f"  {line}")
        if done.returncode:
            raise DemoFailed(f"plugbay {shlex.join(arguments)} ended with exit code {done.returncode}")

    def items(self, *what: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.run(*what, "get", "-o", "json").stdout)["items"]
        return listed

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("pod", "get", name, "-o", "json").stdout)
        return found

    def counts(self, resource: str = RESOURCE) -> str:
        status = self.items("node")[0]["status"]
        return ", ".join(f"{word} {status[word][resource]}" for word in ("capacity", "allocatable"))

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def log_of(self, name: str) -> list[str]:
        return self.run("pod", "logs", name).stdout.splitlines()

    def env(self, name: str) -> str:
        lines = self.run("pod", "exec", name, "--", "env").stdout.splitlines()
        return next((line for line in lines if line.startswith("Gopher=")), "no Gopher in the environment")

    def why_pending(self, name: str) -> str:
        conditions = self.pod(name)["status"].get("conditions", [])
        message = next((item.get("message", "") for item in conditions if item["type"] == "PodScheduled"), "")
        wanted = f"1 Insufficient {RESOURCE}"
        return wanted if wanted in message else message

    def instances(self) -> dict[str, str]:
        """Container ID of each pod: it stays the same only if the container was never restarted."""
        return {
            pod["metadata"]["name"]: pod["status"]["containerStatuses"][0].get("containerID", "")
            for pod in self.items("pod")
            if pod["status"]["phase"] == "Running"
        }

    def holders(self) -> dict[str, str]:
        """Gopher to the pod that holds it, as `plugbay node describe` shows it."""
        words = [line.split() for line in self.run("node", "describe").stdout.splitlines()]
        held: dict[str, str] = {}
        for gopher in ("g1", "g2"):
            row = next((row for row in words if row and row[0] == gopher), [])
            pod = next((word for word in row if "gopher-pod" in word), "")
            if pod:
                held[gopher] = next(part for part in pod.split("/") if part.startswith("gopher-pod"))
        return held

    # --- steps ------------------------------------------------------------------------------------------------------

    def touch(self, name: str) -> None:
        self.say(f"$ touch {name}")
        (self.gophers / name).touch()

    def step(self, claim: str, look: Callable[[], Seen], wanted: Seen) -> None:
        """Look until what is wanted is seen, and say so."""
        self._steps += 1
        seen = self.wait_for(claim, look, wanted)
        self.say(f"  [{self._steps:2}] {claim}: {readable(seen)}")

    def wait_for(self, claim: str, look: Callable[[], Seen], wanted: Seen) -> Seen:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            seen: Seen | str
            try:
                seen = look()
            except (LookupError, ValueError) as error:  # not there yet
                seen = f"{type(error).__name__}: {error}"
            if seen == wanted:
                return wanted
            if time.monotonic() > deadline:
                raise DemoFailed(f"{claim}: wanted {wanted}, saw {seen}")
            time.sleep(LOOK_AGAIN_S)

    def say(self, text: str) -> None:
        print(text, flush=True)


@contextlib.contextmanager
def demo() -> Iterator[Demo]:
    directory = Path(tempfile.mkdtemp(prefix="plugbay-demo-", dir=room_for_sockets()))
    running = Demo(directory)
    try:
        yield running
    except DemoFailed:
        running.stop()
        if running.log.exists():
            print("--- what node and plugin said", *running.log.read_text().splitlines()[-40:], sep="\n")
        raise
    finally:
        running.stop()
        shutil.rmtree(directory, ignore_errors=True)


def why_no_container(device: str | None) -> str:
    """Why no real container can be had here; empty if one can."""
    from plugbay.errors import EngineUnusable
    from plugbay.runtimes.oci.engines import choose_engine

    if device is None:
        return f"there is no {' or '.join(NODES)} that this user may open"
    if os.geteuid() != 0 and not can_unshare():
        return "this kernel gives user namespaces to root only"
    try:
        choose_engine(None, search_path=os.environ.get("PATH", os.defpath), state_dir=Path(tempfile.gettempdir()))
    except EngineUnusable as error:
        return str(error)
    return ""


def may_open(device: str) -> bool:
    return Path(device).is_char_device() and os.access(device, os.R_OK | os.W_OK)


def can_unshare() -> bool:
    """Whether this user may be root in a namespace: containers without root rights need one."""
    try:
        return subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def readable(seen: object) -> str:
    match seen:
        case dict():
            return ", ".join(f"{name}: {value}" for name, value in seen.items()) or "none"
        case list():
            return "; ".join(map(str, seen)) or "none"
        case _:
            return str(seen)


def room_for_sockets() -> Path:
    """Where temporary files go, unless sockets some levels below would pass the 107 bytes that a path of theirs has."""
    usual = Path(tempfile.gettempdir())
    return usual if len(bytes(usual)) <= LONGEST_DIRECTORY else Path("/tmp")


def main() -> int:
    os.environ.setdefault("PYTHONWARNINGS", "default")
    started = time.monotonic()
    try:
        with demo() as running:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, running.interrupt)
            running.play()
    except DemoFailed as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    print(f"All of it held, in {time.monotonic() - started:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
