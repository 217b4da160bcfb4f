"""The formats of texts and numbers that schemas can name, as an API server checks them. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apiserver/validation/formats.go``; kube-openapi
``pkg/validation/strfmt``; govalidator 11 ``patterns.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Final

from plugbay.documents import Json
from plugbay.model import dns
from plugbay.node.api.stored.custom.patterns import compiled
from plugbay.printers import v1

_HOSTNAME: Final = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_MOST_HOSTNAME: Final = 255
_MOST_LABEL: Final = 63
_QUAD: Final = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}\.\d{1,9}", re.ASCII)
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_GO_DURATION: Final = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_AMOUNT: Final = re.compile(r"(?<!\d)\d++\s*+([A-Za-zµ]++)", re.ASCII)  # in time that grows with the text
_SHORT_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_LONG_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+(%25[^\[\]]+)?\]|[^\x00-\x20\"<>\\^`{|}/?#@\[\]:]*)(:[0-9]*)?")
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x80-\U0010ffff]+"
_ADDRESS: Final = rf"(?:{_ATOM}(?:\.{_ATOM})*|\"(?:[^\"\\]|\\.)+\")@(?:{_ATOM}(?:\.{_ATOM})*|\[[0-9A-Fa-f.:]+\])"
_EMAIL: Final = re.compile(rf"{_ADDRESS}|[^<>@]*<{_ADDRESS}>")
_CARD: Final = re.compile(
    r"4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}"
    r"|(2131|1800|35\d{3})\d{11}",
    re.ASCII,
)
_PART: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_MAX_FLOAT32: Final = 3.4028235677973366e38


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_hostname(text: str) -> bool:
    if len(text.encode()) > _MOST_HOSTNAME or not compiled(_HOSTNAME).search(text):
        return False
    return all(len(label.encode()) <= _MOST_LABEL for label in text.split("."))


def _is_ipv4(text: str) -> bool:
    """An address in four parts, which may begin with zeros, or one of IPv6 with such an end."""
    if _QUAD.fullmatch(text):
        return all(int(part) <= 255 for part in text.split("."))
    return "." in text and _is_ipv6(text)


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).scope_id is None
    except (AddressValueError, UnicodeError):
        return False


def _is_cidr(text: str) -> bool:
    address, slash, size = text.partition("/")
    if not slash or not re.fullmatch("[0-9]{1,4}", size):
        return False
    return (_is_ipv6(address) and int(size) <= 128) or (_is_quad(address) and int(size) <= 32)


def _is_quad(text: str) -> bool:
    return _QUAD.fullmatch(text) is not None and _is_ipv4(text)


def _is_mac(text: str) -> bool:
    """An EUI-48, an EUI-64 or a 20-octet address of InfiniBand."""
    octets = r"[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(\1[0-9A-Fa-f]{2}){%d}"
    words = r"[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4}){%d}"
    return any(
        re.fullmatch(octets % (size - 2), text) or re.fullmatch(words % (size // 2 - 1), text) for size in (6, 8, 20)
    )


def _is_request_uri(text: str) -> bool:
    """An absolute URI, or an absolute path."""
    if not text or any(character < " " or character == "\x7f" for character in text):
        return False
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    before, _, _ = rest.partition("?")
    if not before.startswith("/"):
        return scheme is not None or text == "*"
    if scheme and before.startswith("//") and not before.startswith("///"):
        authority, slash, path = before[2:].partition("/")
        host = authority.rpartition("@")[2]
        return _HOST.fullmatch(host) is not None and not _BAD_ESCAPE.search(f"{authority}{slash}{path}")
    return not _BAD_ESCAPE.search(before)


def _is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text.strip()) is not None


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_moment(text: str) -> bool:
    """``date-time``, such as 2006-01-02T15:04:05Z."""
    day, letter, rest = text.lower().partition("t")
    found = _TIME.fullmatch(rest.partition("t")[0])
    return bool(letter) and _is_date(day) and found is not None and found[1] <= "23" and max(found[2], found[3]) <= "59"


def _is_duration(text: str) -> bool:
    """A duration as Go writes it, or as Scala does: ``1h30m``, ``3 days``."""
    if _GO_DURATION.fullmatch(text):
        return True
    units = [unit.lower() for unit in _AMOUNT.findall(text)]
    return any(unit in _SHORT_UNITS or unit.startswith(_LONG_UNITS) for unit in units)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(place * value for place, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


def _is_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    values = [int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in values) % 10 == 0


_RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches("[0-9A-Fa-f]{24}"),
    "byte": _matches("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_cidr,
    "creditcard": _is_card,
    "date": _is_date,
    "datetime": _is_moment,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": dns.is_subdomain,
    "k8sshortname": dns.is_label,
    "mac": _is_mac,
    "password": lambda text: True,
    "quantity": lambda text: True,
    "rgbcolor": _matches(rf"rgb\({_PART},{_PART},{_PART}\)"),
    "ssn": _matches(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": _is_request_uri,
    "uuid": _matches("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
    "uuid3": _matches("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
    "uuid4": _matches("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
    "uuid5": _matches("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
}
"""By their names without hyphens, as schemas may write them with or without."""
_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_formatted(text: str, schema: Json) -> bool:
    """Whether a text has the format of its schema; one that no API server knows does not count."""
    rule = _RULES.get(_plain(schema))
    return rule is None or rule(text)


def number_problem(value: float, schema: Json) -> str:
    """The rule of its format that a number breaks; empty if it breaks none."""
    kind, form = v1.text(schema, "type"), v1.text(schema, "format")
    if kind == "integer":
        bits = 31 if form == "int32" else 63
        is_good = -(2**bits) <= value < 2**bits
    else:
        is_good = form != "float" or abs(value) <= _MAX_FLOAT32
    if is_good:
        return ""
    named = f"with format {form}" if form in _NUMBERS.get(kind, ()) else "(default format)"
    return f"Checked value must be of type {kind} {named}"


def unknown_formats(schema: object) -> Iterator[str]:
    """The formats in a schema that are not checked, as they are not known."""
    if isinstance(schema, list):
        for each in schema:
            yield from unknown_formats(each)
    if not isinstance(schema, dict):
        return
    kind, form = schema.get("type"), v1.text(schema, "format")
    if form and not (form in _NUMBERS.get(str(kind), ()) or (kind in (None, "string") and _plain(schema) in _RULES)):
        yield form
    for name, each in schema.items():
        if name == "properties" and isinstance(each, dict):
            yield from unknown_formats(list(each.values()))
        elif name not in ("default", "enum", "example"):
            yield from unknown_formats(each)


def _plain(schema: Mapping[str, Any]) -> str:
    return v1.text(schema, "format").replace("-", "")
