"""The node as a plain HTML table, for browsers without JavaScript and for printing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from plugbay.observe.view import DeviceView, ObservedNode, RejectedPod, ResourceView

_COUNTS: Final = ("Resource", "Capacity", "Allocatable", "Allocated", "Free", "Plugin")
_REJECTED: Final = ("Pod", "Reason", "Message", "Since")
_DEVICES: Final = ("Resource", "Device", "Health", "Reason", "NUMA", "Held by", "Since", "Paths")


def table_page(view: ObservedNode, *, notes: Sequence[str] = (), search: str = "") -> str:
    """The page; with a search, the devices that have the text somewhere in their row.

    Args:
        notes: sentences about what the view lacks.
    """
    found = [(resource, device) for resource in view.resources for device in resource.devices]
    rows = [_device(resource, device) for resource, device in found]
    wanted = [row for row in rows if search.lower() in " ".join(row).lower()]
    listed = "".join(f"<li>{_text(each)}</li>" for each in notes)
    title = _text(f"Devices of {view.name or 'this node'}")
    parts = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="stylesheet" href="page.css"><link rel="icon" href="icon.svg"></head>',
        f'<body class="plain"><main><h1>{title}</h1>',
        f"<p>Read at {_moment(view.taken)} from {_text(view.root)}. ",
        'Load the page again for a newer state, or see <a href="./">the live page</a>, which needs JavaScript.</p>',
        f'<ul class="notes">{listed}</ul>' if notes else "",
        _table("Resources", _COUNTS, map(_counts, view.resources)),
        _table("Refused pods", _REJECTED, map(_rejected, view.rejected)) if view.rejected else "",
        '<form method="get" action="table" role="search"><label>Search <input type="search" name="search" '
        f'value="{escape(search)}"></label> <button>Search</button></form>',
        _table(f"Devices: {len(wanted)} of {len(rows)}", _DEVICES, wanted),
        "</main></body></html>\n",
    )
    return "".join(parts)


def _counts(resource: ResourceView) -> tuple[str, ...]:
    numbers = (resource.capacity, resource.allocatable, resource.allocated, resource.free)
    plugin = "" if resource.plugin is None else resource.plugin.state
    return (resource.name, *("unknown" if number is None else str(number) for number in numbers), plugin)


def _rejected(pod: RejectedPod) -> tuple[str, ...]:
    return (f"{pod.namespace}/{pod.pod}", pod.reason, pod.message, _moment(pod.at) if pod.at else "")


def _device(resource: ResourceView, device: DeviceView) -> tuple[str, ...]:
    return (
        resource.name,
        device.id,
        device.health.word.value,
        " ".join(filter(None, (device.health.reason, device.health.message))),
        ", ".join(map(str, device.numa_nodes or ())),
        ", ".join(map(str, device.holders)),
        ", ".join(_moment(holder.since) for holder in device.holders if holder.since is not None),
        ", ".join(device.host_paths),
    )


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(row: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(row):
        yield f'<th scope="row">{_text(text)}</th>' if not number else f"<td>{_text(text)}</td>"


def _text(text: str) -> str:
    """``text`` for HTML; control characters, which browsers drop or obey, such as a change of direction, are shown."""
    return escape("".join(each if each.isprintable() else ascii(each)[1:-1] for each in text))
