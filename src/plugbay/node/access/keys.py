"""The keys of a node's API, which it keeps: a certificate and a token."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, UsageError
from plugbay.kernel.files import make_private, read_bytes, write_durably
from plugbay.ops.clock import Clock
from plugbay.values import dataclass

_TOKEN_BYTES: Final = 32
_RENEWED: Final = timedelta(days=365)
"""The time before its end at which a certificate is made anew."""
_PATIENCE_S: Final = 30.0
_END_OF_BLOCK: Final = "-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys of an API.

    Attributes:
        authority: the certificate, in PEM, that clients have to trust.
        token: the bearer token that clients have to send.
        tls: the server's side of connections.
    """

    authority: str
    token: str
    tls: ssl.SSLContext


async def open_keys(directory: Path, names: Sequence[str], *, clock: Clock) -> ApiKeys:
    """The keys in a directory; what is missing, ends soon, or is for other names is made anew.

    Args:
        names: the names and addresses at which clients ask for the API.

    Raises:
        UsageError: the package cryptography is not installed.
        PathUnusable: the directory cannot be used, or what is in it is not what was written there.
    """
    try:
        await asyncio.to_thread(make_private, directory)
        certificate = directory / "certificate.pem"
        written_for = directory / "names"
        wanted = "\n".join(names).encode()
        if not await asyncio.to_thread(_is_good, certificate, written_for, wanted, clock.now()):
            await asyncio.to_thread(write_durably, certificate, await _new_certificates(names))
            await asyncio.to_thread(write_durably, written_for, wanted)
        token = await asyncio.to_thread(_token, directory / "token")
        _, authority, _ = (await asyncio.to_thread(read_bytes, certificate)).decode().split(_END_OF_BLOCK)
        return ApiKeys(authority + _END_OF_BLOCK, token, await asyncio.to_thread(_server_context, certificate))
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot keep the keys of the API: {error.strerror or error}") from error


def _is_good(certificate: Path, written_for: Path, names: bytes, now: datetime) -> bool:
    try:
        if read_bytes(written_for) != names:
            return False
        end = ssl.cert_time_to_seconds(_end_of(certificate))
        _server_context(certificate)
    except (OSError, ValueError):
        return False
    return now.timestamp() + _RENEWED.total_seconds() < end


def _end_of(certificate: Path) -> str:
    """The end of the authority, which is the server's too, as OpenSSL writes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificate)
    [authority] = context.get_ca_certs()
    return str(authority["notAfter"])


def _server_context(certificate: Path) -> ssl.SSLContext:
    """Speak TLS with the first certificate in a file, and its key.

    Raises:
        OSError: the file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate)
    return context


def _token(path: Path) -> str:
    try:
        if kept := read_bytes(path).decode("ascii").strip():
            return kept
    except FileNotFoundError:
        pass
    except UnicodeDecodeError:
        raise PathUnusable(str(path), "is not a token; remove it, and a new one is made") from None
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    write_durably(path, token.encode() + b"\n")
    return token


async def _new_certificates(names: Sequence[str]) -> bytes:
    """Three PEM blocks, as `plugbay.node.access.certificate` prints them."""
    program = [sys.executable, "-m", "plugbay.node.access.certificate", *names]
    process = await asyncio.create_subprocess_exec(
        *program, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            made, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        if "No module named 'cryptography" in last:
            raise UsageError("the API needs the package cryptography; install it with: pip install cryptography")
        raise UsageError(f"cannot make a certificate for the API: {last}")
    return made
