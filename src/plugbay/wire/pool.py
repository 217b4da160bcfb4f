"""Message classes from the shipped FileDescriptorSet, in a descriptor pool of our own.

A private pool lets us live beside any other package that embeds the same protos: the default pool refuses two files
that define ``v1beta1.Device``. The set is made by ``make proto``; building the classes takes under a millisecond and
sets no floor on the user's protobuf version, as generated code would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory

from plugbay.wire.repeated import elements

_DESCRIPTOR_SET: Final = Path(__file__).parent / "generated" / "descriptors.binpb"


def _load() -> descriptor_pool.DescriptorPool:
    """Load the set without `descriptor_pb2` and `importlib.resources`, which cost each plugin process 1.5 MB."""
    pool = descriptor_pool.DescriptorPool()
    files = elements(_DESCRIPTOR_SET.read_bytes())
    assert files is not None
    for file in files:
        pool.AddSerializedFile(file)
    return pool


_POOL: Final = _load()


def messages(proto_file: str) -> dict[str, Any]:
    """The classes of the top-level messages of ``proto_file``, by name, and the numbers of its enum values."""
    file = _POOL.FindFileByName(proto_file)
    classes: dict[str, Any] = {
        name: message_factory.GetMessageClass(message) for name, message in file.message_types_by_name.items()
    }
    for enum in file.enum_types_by_name.values():
        classes.update({value.name: value.number for value in enum.values})
    return classes
