"""A driver that tests steer while programs use it."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from plugbay.testing.fakenvml.compile import compile_library
from plugbay.testing.fakenvml.files import lay_out_module
from plugbay.testing.fakenvml.machines import FakeMachine, FakeMig
from plugbay.values import dataclass

XID: Final = 8
"""NVML's type of an event that brings an XID."""
_ANSWER_S: Final = 10.0
_LINE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FakeFault:
    """A way in which calls of the library misbehave; all that is given applies.

    Attributes:
        function: the name without ``_v2`` or ``_v3``, such as ``nvmlDeviceGetName``; ``*`` for all but
            ``nvmlInit``, which starts the library.
        gpu: UUID of the GPU whose calls are meant; None for all calls.
        delay_ms: added to each call.
        hang: calls do not return before the fault is gone.
        result: NVML's return code instead of an answer.
        signal: kills the process that calls.
    """

    function: str = "*"
    gpu: str | None = None
    delay_ms: int | None = None
    hang: bool = False
    result: int | None = None
    signal: signal.Signals | None = None

    def description(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("function", "gpu", "delay_ms", "hang", "result", "signal")}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(eq=False, slots=True)
class _Client:
    """A process that has loaded the library and started it."""

    writer: asyncio.StreamWriter
    answers: dict[int, asyncio.Future[None]] = field(default_factory=dict)


class FakeDriver:
    """The machine that programs see, which a test changes meanwhile; made by `fake_driver`.

    Every change has reached all programs when its method returns. GPUs are named by their index or UUID.

    Attributes:
        library: the compiled library.
        environ: variables that make a program load the library and take the machine from here.
        description_path: a file that always has the machine as it is; ``PLUGBAY_FAKE_NVML`` alone names it for programs
            that should not follow the changes: they read it whenever they start the library.
    """

    def __init__(self, machine: FakeMachine, directory: Path, library: Path, root: Path | None = None) -> None:
        self.library = library
        self.description_path = directory / "machine.json"
        self._socket_path = directory / "control.sock"
        self.environ: Mapping[str, str] = {
            "LD_LIBRARY_PATH": str(library.parent),
            "PLUGBAY_FAKE_NVML": str(self.description_path),
            "PLUGBAY_FAKE_NVML_CONTROL": str(self._socket_path),
        }
        self._machine = machine
        self._root = root
        self._faults: list[FakeFault] = []
        self._clients: set[_Client] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._number = 0

    @property
    def machine(self) -> FakeMachine:
        return self._machine

    @property
    def clients(self) -> int:
        """The number of processes that have started the library and still run."""
        return len(self._clients)

    async def replace(self, machine: FakeMachine) -> None:
        """Show another machine."""
        self._machine = machine
        await self._show()

    async def xid(
        self, gpu: int | str, number: int, *, gpu_instance: int | None = None, compute_instance: int | None = None
    ) -> None:
        """Report an XID of a GPU, or of a MIG instance of it."""
        await self.event(gpu, XID, number, gpu_instance=gpu_instance, compute_instance=compute_instance)

    async def event(
        self,
        gpu: int | str,
        type: int,
        number: int = 0,
        *,
        gpu_instance: int | None = None,
        compute_instance: int | None = None,
    ) -> None:
        """Report an event of NVML's type: 8 for an XID, 2 and 1 for double-bit and single-bit ECC errors."""
        event: dict[str, Any] = {"gpu": self._uuid(gpu), "type": type, "number": number}
        if gpu_instance is not None:
            event["gpu_instance"] = gpu_instance
        if compute_instance is not None:
            event["compute_instance"] = compute_instance
        await self._tell({"event": event})

    async def lose(self, gpu: int | str) -> None:
        """Let a GPU fall off the bus: it is still counted, and all calls on it fail."""
        await self.replace(self._machine.with_gpu(gpu, lost=True))

    async def restore(self, gpu: int | str) -> None:
        """Bring a lost GPU back."""
        await self.replace(self._machine.with_gpu(gpu, lost=False))

    async def set_mig(self, gpu: int | str, mig: FakeMig | None) -> None:
        """Change the MIG mode, devices and profiles of a GPU; None for a GPU that is not capable of MIG."""
        await self.replace(self._machine.with_gpu(gpu, mig=mig))

    async def reload(self, driver_version: str | None = None) -> None:
        """Unload the driver and load it again, perhaps in another version: programs have to start the library anew."""
        version = driver_version or self._machine.driver_version
        await self._load_anew(replace(self._machine, driver_version=version, init_result=0))

    async def unload(self, init_result: int = 9) -> None:
        """Unload the driver: calls fail, and starting the library gives NVML's code ``init_result``."""
        await self._load_anew(replace(self._machine, init_result=init_result))

    async def _load_anew(self, machine: FakeMachine) -> None:
        machine = replace(machine, generation=machine.generation + 1)
        if self._root is not None:
            await asyncio.to_thread(lay_out_module, self._root, machine)
        await self.replace(machine)

    async def misbehave(self, *faults: FakeFault) -> None:
        """Let calls be slow, hang, fail or kill their process, instead of the faults before; none mends them all."""
        self._faults = list(faults)
        await self._show()

    def _uuid(self, gpu: int | str) -> str:
        return self._machine.gpus[self._machine.place(gpu)].uuid

    def _description(self) -> dict[str, Any]:
        return {**self._machine.description(), "faults": [fault.description() for fault in self._faults]}

    async def _show(self) -> None:
        description = self._description()
        await asyncio.to_thread(self.write, description)
        await self._tell({"machine": description})

    def write(self, description: Mapping[str, Any] | None = None) -> None:
        """Write the description file."""
        fresh = self.description_path.with_suffix(".new")
        fresh.write_text(json.dumps(description or self._description()), encoding="utf-8")
        fresh.replace(self.description_path)

    async def _tell(self, order: Mapping[str, Any]) -> None:
        await asyncio.gather(*(self._order(client, order) for client in list(self._clients)))

    async def _order(self, client: _Client, order: Mapping[str, Any]) -> None:
        self._number += 1
        number = self._number
        client.answers[number] = answer = asyncio.get_running_loop().create_future()
        try:
            client.writer.write(json.dumps({"number": number, **order}).encode() + b"\n")
            async with asyncio.timeout(_ANSWER_S):
                await client.writer.drain()
                await answer
        except ConnectionError:  # its process has just ended
            pass
        finally:
            client.answers.pop(number, None)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a program in a task of ours: one of asyncio's, cancelled when its loop ends, prints a trace (3.11)."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        self._clients.add(client)
        try:
            writer.write(json.dumps({"number": 0, "machine": self._description()}).encode() + b"\n")
            while line := await reader.readline():
                answer = client.answers.get(int(line))
                if answer is not None and not answer.done():
                    answer.set_result(None)
        except ConnectionError:  # it was killed
            pass
        finally:
            self._clients.discard(client)
            for answer in client.answers.values():
                if not answer.done():
                    answer.set_result(None)  # no process is left to wait for
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen at the control socket."""
        await asyncio.to_thread(self.write)
        server = await asyncio.start_unix_server(self._accept, self._socket_path, limit=_LINE_BYTES)
        try:
            yield
        finally:
            server.close()
            serving = tuple(self._serving)
            for task in serving:
                task.cancel()
            if serving:
                await asyncio.wait(serving)


@asynccontextmanager
async def fake_driver(
    machine: FakeMachine, *, library: Path | None = None, root: Path | None = None
) -> AsyncIterator[FakeDriver]:
    """A driver that shows ``machine``; programs with its ``environ`` load it.

    Args:
        library: by `compile_library`; None compiles it, which takes a second.
        root: below which `lay_out_machine` has written the machine's files, of which those of the kernel's module then
            follow when the driver is loaded anew.

    Raises:
        CompilerUnusable: the library has to be compiled and cannot be.
    """
    with tempfile.TemporaryDirectory(prefix="nvml") as name:
        directory = Path(name)
        if library is None:
            library = await asyncio.to_thread(compile_library, directory)
        driver = FakeDriver(machine, directory, library, root)
        async with driver.serving():
            yield driver
