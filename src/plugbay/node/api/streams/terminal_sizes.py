"""The sizes of a client's terminal, as remote commands have them: JSON with Width and Height. Pure.

Source: Kubernetes 1.36 ``client-go/tools/remotecommand/resize.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from plugbay.runtimes.exec_input import TerminalSize

_MOST_CHARACTERS: Final = 2**16
_MAX_BYTES: Final = 256
_END: Final = b"}"


class _Size(msgspec.Struct):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


_SIZE: Final = msgspec.json.Decoder(_Size)


def terminal_size(text: bytes) -> TerminalSize:
    """
    Raises:
        ValueError: it is not the size of a terminal.
    """
    try:
        size = _SIZE.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        size = _Size(-1)
    if not (0 <= size.width < _MOST_CHARACTERS and 0 <= size.height < _MOST_CHARACTERS):
        raise ValueError('the size of a terminal must be {"Width": W, "Height": H}')
    return TerminalSize(size.width, size.height)


class SizeReader:
    """Reads sizes that follow each other, from pieces of any length."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, piece: bytes) -> Iterator[TerminalSize]:
        """The sizes that are complete with ``piece``.

        Raises:
            ValueError: something else comes.
        """
        *whole, self._pending = (self._pending + piece).split(_END)
        for each in whole:
            yield terminal_size(each + _END)
        if len(self._pending) > _MAX_BYTES:
            raise ValueError(f"the size of a terminal takes at most {_MAX_BYTES} bytes")
