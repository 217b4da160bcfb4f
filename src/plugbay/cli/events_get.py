"""What ``plugbay events`` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, events_path
from plugbay.cli.listing import Listing
from plugbay.cli.output import Form, show_note
from plugbay.cli.parsing import chosen_namespace
from plugbay.cli.roots import chosen_root
from plugbay.cli.rows import View, event_view, oldest_first, wide_event_view


def get_events(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    namespace = chosen_namespace(args)
    form = Form(args.output)
    kind, name = args.about or ("", "")
    query = {"involvedObject": name} if name else {}
    is_wanted = _filter(kind, args.types)
    listing = Listing(lambda: _view(args), form)
    events = [each for each in v1.objects(client.get(events_path(namespace), query), "items") if is_wanted(each)]
    if args.watch:
        listing.show_each(oldest_first(events))
    elif events or not form.is_table:
        listing.show_list(oldest_first(events))
    else:
        show_note(f"No events found{f' in {namespace} namespace' if namespace is not None else ''}.")
    if args.watch:
        with client.watch(events_path(namespace), query) as changes:
            for change in changes:
                # An event that is forgotten to make room did not happen again.
                if change.type != "DELETED" and is_wanted(change.object):
                    listing.show_change(change)
    return 0


def _view(args: argparse.Namespace) -> View:
    view = wide_event_view() if args.output == Form.WIDE.value else event_view()
    return view.with_namespaces() if args.all_namespaces else view


def _filter(kind: str, types: Collection[str]) -> Callable[[v1.Json], bool]:
    """All kinds when ``kind`` is empty, and all types when there are none."""
    return lambda event: (
        kind in ("", v1.text(event, "involvedObject", "kind")) and (not types or v1.text(event, "type") in types)
    )
