"""Results of plugins as values, whatever version of the specification they are written in. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from plugbay.cni.addresses import Address, Interface4Or6, cidr, plain_address
from plugbay.cni.versions import IMPLIED, SUPPORTED, is_at_least
from plugbay.documents import JsonObject, JsonValue
from plugbay.documents.go_json import kind, member
from plugbay.errors import InvalidNetworkResult
from plugbay.values import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Interface:
    """A link that a plugin made or found.

    Attributes:
        sandbox: path of the network namespace it is in; empty on the host.
        mtu: 0 if the plugin does not tell it; ``socket_path`` and ``pci_id`` are empty then.
    """

    name: str
    mac: str = ""
    mtu: int = 0
    sandbox: str = ""
    socket_path: str = ""
    pci_id: str = ""


@dataclass(frozen=True, slots=True)
class Ip:
    """An address with its prefix length; ``interface`` is an index into the result's interfaces."""

    address: Interface4Or6
    gateway: Address | None = None
    interface: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """A route that a plugin has added.

    Attributes:
        dst: may have host bits set.
        mtu: 0 if the plugin does not tell it, and likewise ``advmss`` and ``priority``.
        table: None if the plugin does not tell it, and likewise ``scope``: 0 has a meaning for both.
    """

    dst: Interface4Or6
    gateway: Address | None = None
    mtu: int = 0
    advmss: int = 0
    priority: int = 0
    table: int | None = None
    scope: int | None = None


@dataclass(frozen=True, slots=True)
class Dns:
    nameservers: tuple[str, ...] = ()
    domain: str = ""
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a container's attachment to a network.

    Attributes:
        version: of the specification it is written in.
    """

    version: str = IMPLIED
    interfaces: tuple[Interface, ...] = ()
    ips: tuple[Ip, ...] = ()
    routes: tuple[Route, ...] = ()
    dns: Dns = Dns()


_HAS_LISTS: Final = "0.3.0"
"""Since this version a result lists interfaces and addresses; before, it has one address of each family."""


def parse(value: JsonValue, *, version: str) -> Result:
    """Read a result in the version that it names, or in ``version`` if it names none.

    Member names are matched as Go matches them. The official loopback plugin labels the newer shape with old versions;
    such a result is read by its shape.

    Raises:
        InvalidNetworkResult: a member is not what it has to be.
    """
    document = _object(value, "the result")
    label = _text(document, "cniVersion") or version or IMPLIED
    if label not in SUPPORTED:
        raise InvalidNetworkResult(f'unsupported CNI result version "{label}"; known are {", ".join(SUPPORTED)}')
    dns = _dns(document)
    if not is_at_least(label, _HAS_LISTS) and (member(document, "ip4") or member(document, "ip6")):
        ips, routes = _old_addresses(document)
        return Result(label, ips=ips, routes=routes, dns=dns)
    return Result(
        label,
        # One that is null keeps its place, since addresses name interfaces by their places.
        tuple(_interface(each or {}) for each in _entries(document, "interfaces")),
        tuple(map(_ip, _objects(document, "ips"))),
        tuple(map(_route, _objects(document, "routes"))),
        dns,
    )


def container_addresses(result: Result, ifname: str) -> tuple[Address, ...]:
    """The addresses that ``ifname`` has inside its container: the first IPv4 one, then the others in their order.

    An address that names no interface is taken too: addresses before 0.3.0, and from IPAM plugins, name none.
    """
    inside = [index for index, each in enumerate(result.interfaces) if each.sandbox and each.name == ifname]
    found = [each.address.ip for each in result.ips if each.interface is None or each.interface in inside]
    first = next((each for each in found if each.version == 4), None)
    return tuple(found) if first is None else (first, *(each for each in found if each is not first))


def _old_addresses(document: JsonObject) -> tuple[tuple[Ip, ...], tuple[Route, ...]]:
    ips: list[Ip] = []
    routes: list[Route] = []
    for name in ("ip4", "ip6"):
        if given := member(document, name):
            entry = _object(given, name)
            ips.append(Ip(_required(entry, "ip", cidr), _optional(entry, "gateway", plain_address)))
            routes += map(_route, _objects(entry, "routes"))
    return tuple(ips), tuple(routes)


def _interface(entry: JsonObject) -> Interface:
    return Interface(
        _text(entry, "name"),
        _text(entry, "mac"),
        _number(entry, "mtu") or 0,
        _text(entry, "sandbox"),
        _text(entry, "socketPath"),
        _text(entry, "pciID"),
    )


def _ip(entry: JsonObject) -> Ip:
    return Ip(
        _required(entry, "address", cidr), _optional(entry, "gateway", plain_address), _number(entry, "interface")
    )


def _route(entry: JsonObject) -> Route:
    return Route(
        _required(entry, "dst", cidr),
        _optional(entry, "gw", plain_address),
        _number(entry, "mtu") or 0,
        _number(entry, "advmss") or 0,
        _number(entry, "priority") or 0,
        _number(entry, "table"),
        _number(entry, "scope"),
    )


def _dns(document: JsonObject) -> Dns:
    entry = _object(member(document, "dns") or {}, "dns")
    return Dns(_texts(entry, "nameservers"), _text(entry, "domain"), _texts(entry, "search"), _texts(entry, "options"))


def _object(value: JsonValue, what: str) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidNetworkResult(f"{what} is {kind(value)}, not an object")
    return value


def _objects(entry: JsonObject, name: str) -> list[JsonObject]:
    return [each for each in _entries(entry, name) if each is not None]


def _entries(entry: JsonObject, name: str) -> list[JsonObject | None]:
    value = member(entry, name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidNetworkResult(f"{name} is {kind(value)}, not a list")
    return [None if each is None else _object(each, f"an entry of {name}") for each in value]


def _text(entry: JsonObject, name: str) -> str:
    value = member(entry, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidNetworkResult(f"{name} is {kind(value)}, not a text")
    return value


def _texts(entry: JsonObject, name: str) -> tuple[str, ...]:
    value = member(entry, name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidNetworkResult(f"{name} is not a list of texts")
    return tuple(str(each) for each in value)


def _number(entry: JsonObject, name: str) -> int | None:
    value = member(entry, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidNetworkResult(f"{name} is {kind(value)}, not an integer")
    return value


def _optional(entry: JsonObject, name: str, read: Callable[[str], _T]) -> _T | None:
    text = _text(entry, name)
    try:
        return read(text) if text else None
    except ValueError as error:
        raise InvalidNetworkResult(f"{name}: {error}") from None


def _required(entry: JsonObject, name: str, read: Callable[[str], _T]) -> _T:
    value = _optional(entry, name, read)
    if value is None:
        raise InvalidNetworkResult(f"{name} is missing")
    return value
