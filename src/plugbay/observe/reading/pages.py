"""Read what our node tells of its devices, and the ``/status`` of our plugins."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Final

from plugbay.documents import Json
from plugbay.errors import PlugbayError
from plugbay.observe.view import ReadingProblem, Witness
from plugbay.ops.deadline_socket import DeadlineSocket
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.listening import Address, TcpAddress, UnixAddress

_PATH: Final = "/status"
_NODE_PATH: Final = "/plugbay/v1/devices"
"""Not its ``/status``, which may be a second old: a change that was just told of would be missed."""
_MAX_BYTES: Final = 64 << 20
_LOOPBACK: Final = "127.0.0.1"


def read_node_devices(control_socket: Path, *, timeout_s: float) -> tuple[Json | None, tuple[ReadingProblem, ...]]:
    """The devices of the node that answers at ``control_socket``; None without a problem if there is no such socket."""
    if not os.path.exists(control_socket):
        return None, ()
    page = _page(UnixAddress(control_socket), _NODE_PATH, timeout_s)
    if isinstance(page, str):
        return None, (ReadingProblem(Witness.NODE, f"the node at {control_socket} does not tell its devices: {page}"),)
    return page, ()


def read_plugin_status(address: Address, *, timeout_s: float) -> tuple[Json | None, tuple[ReadingProblem, ...]]:
    page = _page(address, _PATH, timeout_s)
    if isinstance(page, str):
        return None, (ReadingProblem(Witness.PLUGIN, f"the plugin at {address} does not tell its status: {page}"),)
    return page, ()


def _page(address: Address, path: str, timeout_s: float) -> Json | str:
    """The page, or why it cannot be had."""
    try:
        match address:
            case UnixAddress(socket_path):
                status, body = _over_unix(socket_path, path, timeout_s)
            case TcpAddress():
                status, body = _over_tcp(address, path, timeout_s)
    except PlugbayError as error:
        return str(getattr(error, "problem", error))
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        page = None
    if status != 200 or not isinstance(page, dict):
        return f"its answer, of HTTP status {status}, is not one of plugbay"
    return page


def _over_unix(socket_path: Path, path: str, timeout_s: float) -> tuple[int, bytes]:
    client = UnixHttpClient(socket_path, timeout_s=timeout_s, is_deadline=True)
    body = bytearray()
    with client.stream("GET", path) as response:
        for chunk in response.chunks:
            body += chunk
            if len(body) > _MAX_BYTES:
                break
    return response.status, bytes(body)


def _over_tcp(address: TcpAddress, path: str, timeout_s: float) -> tuple[int, bytes]:
    # Imported here: with the e-mail package behind it, it costs a command 15 ms.
    from http.client import HTTPConnection, HTTPException

    end = time.monotonic() + timeout_s
    connection = HTTPConnection(address.host or _LOOPBACK, address.port)
    try:
        connection.sock = _connected(address, end)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(_MAX_BYTES)
    except socket.gaierror as error:
        raise OSError(error.errno, f"{address.host} is not the name of a host") from error
    except HTTPException as error:
        raise OSError(None, "it does not speak HTTP") from error
    finally:
        connection.close()


def _connected(address: TcpAddress, end: float) -> socket.socket:
    """A connection to the first address of the host that takes one."""
    found = socket.getaddrinfo(address.host or _LOOPBACK, address.port, type=socket.SOCK_STREAM)
    failure = OSError(None, f"{address.host} has no address")
    for family, _, _, _, place in found:
        connection = DeadlineSocket(family, end=end)
        try:
            connection.connect(place)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure
