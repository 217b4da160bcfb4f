"""Draw the life of a served resource, `plugbay.sdk.serving.states`, into the page for plugin authors.

Usage: python tools/states.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.sdk.serving.states import TRANSITIONS, State

PAGE: Final = Path(__file__).parents[1] / "docs/plugin-author.md"
BEGIN: Final = "<!-- made by tools/states.py from src/plugbay/sdk/serving/states.py -->\n"
END: Final = "<!-- end of what tools/states.py makes -->\n"


def main() -> int:
    """Write the page anew, or tell whether it is current; returns the exit code."""
    parser = argparse.ArgumentParser(description="Draw the life of a served resource into the docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is out of date")
    args = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        print(f"{PAGE}: the marks around the diagram are missing", file=sys.stderr)
        return 1
    fresh = before + BEGIN + diagram() + END + after
    if args.check:
        if fresh != page:
            print(f"{PAGE}: the diagram is out of date; run tools/states.py", file=sys.stderr)
        return int(fresh != page)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


def diagram() -> str:
    """The table as a Mermaid diagram; events that change nothing are left out."""
    arrows = "".join(f"    {line}\n" for line in lines())
    return f"<!-- not run: a picture -->\n```mermaid\nstateDiagram-v2\n{arrows}```\n"


def lines() -> Iterator[str]:
    for state in State:
        yield f"{state.name.lower()}: {state.value}"
    yield f"[*] --> {next(iter(State)).name.lower()}"
    for state, events in TRANSITIONS.items():
        labels: dict[State, list[str]] = defaultdict(list)
        for event, after in events.items():
            if after is not state:
                labels[after].append(event.value)
        for after, words in labels.items():
            yield f"{state.name.lower()} --> {after.name.lower()}: {', '.join(words)}"
    yield f"{State.STOPPED.name.lower()} --> [*]"


if __name__ == "__main__":
    sys.exit(main())
