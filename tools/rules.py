"""Write the table of rules into docs/conformance.md.

Usage: python tools/rules.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from plugbay.testing.conformance.catalogue import all_rules

PAGE: Final = Path(__file__).parents[1] / "docs/conformance.md"
BEGIN: Final = "<!-- rules -->\n"
END: Final = "<!-- end of rules -->\n"
PAGES: Final = "../src/plugbay/testing/conformance/pages"


def table() -> str:
    """The table, with a link to each rule's page."""
    rows = [f"| [{each.name}]({PAGES}/{each.name}.md) | {each.severity.value} | {each.title} |" for each in all_rules()]
    return "\n".join(["| Rule | Severity | Title |", "|---|---|---|", *rows, ""])


def page(text: str) -> str:
    """The page with its table as it has to be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> int:
    """Write the page anew, or tell whether it is current; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the table of rules into the docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is out of date")
    args = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    if not args.check:
        PAGE.write_text(page(text), encoding="utf-8")
    elif text != page(text):
        print(f"{PAGE}: the table of rules is out of date; run tools/rules.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
