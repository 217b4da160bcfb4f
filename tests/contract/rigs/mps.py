"""Stand-ins for the driver's programs of MPS: a daemon with a control socket, and an nvidia-smi that records calls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from plugbay.plugins.nvidia.mps.programs import MpsPrograms

CONTROL = """#!{python} -IS
import os, socket, sys
pipe, log = os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
path = pipe + "/control"
if sys.argv[1:] == ["-f"]:
    if os.path.exists("{refusal}"):
        print("refuses to start", flush=True)
        sys.exit(7)
    values = []
    server = socket.socket(socket.AF_UNIX)
    if os.path.exists(path):
        os.unlink(path)
    server.bind(path)
    server.listen()
    with open(log + "/control.log", "a", buffering=1) as said:
        start = "starts as %d" % os.getpid()
        said.write(start + "\\n")
        print(start, "in the foreground", sep="\\n", flush=True)
        while True:
            client, _ = server.accept()
            with client, client.makefile("rw") as stream:
                line = stream.readline().strip()
                said.write("told " + line + "\\n")
                if line.startswith("get"):
                    line = "100.0"
                elif line == "pid":
                    line = str(os.getpid())
                stream.write(line + "\\n")
            if line == "quit":
                os.unlink(path)
                sys.exit(0)
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(path)
except OSError:
    print("Cannot find MPS control daemon process")
    sys.exit(1)
with client.makefile("rw") as stream:
    stream.write(sys.stdin.readline())
    stream.flush()
    sys.stdout.write(stream.readline())
"""
SMI = '#!/bin/sh\necho "$@" >> "{calls}"\n'


class StandIns:
    """The programs, in a directory of their own.

    Attributes:
        refusal: while this file exists, no daemon starts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.refusal = directory / "refuses"
        self._calls = directory / "smi-calls"
        directory.mkdir()
        self._write("nvidia-cuda-mps-control", CONTROL.format(python=sys.executable, refusal=self.refusal))
        self._write("nvidia-smi", SMI.format(calls=self._calls))

    @property
    def programs(self) -> MpsPrograms:
        return MpsPrograms(
            dict(os.environ),
            str(self.directory / "nvidia-cuda-mps-control"),
            str(self.directory / "nvidia-smi"),
            answer_s=10.0,
        )

    def smi_calls(self) -> list[str]:
        """The arguments of each call of nvidia-smi."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o755)
