"""Run benches and print each figure as one JSON object a line; exit code 1 when a target is missed."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import pkgutil
import sys
from typing import cast

import bench
from bench.figures import Bench, Pace


def benches() -> dict[str, Bench]:
    """The benches of this package by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name != "__main__")
    modules = {name: importlib.import_module(f"bench.{name}") for name in names}
    return {name: cast("Bench", module) for name, module in modules.items() if hasattr(module, "measure")}


async def run(chosen: dict[str, Bench], pace: Pace) -> bool:
    """Print every figure as soon as it is known; whether all are within their targets."""
    all_ok = True
    for module in chosen.values():
        async for figure in module.measure(pace):
            print(figure.line(pace), flush=True)
            all_ok = all_ok and figure.ok
    return all_ok


def main() -> int:
    known = benches()
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benches to run (default: all): {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="short windows; the figures are labelled")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - known.keys():
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    chosen = {name: known[name] for name in arguments.names or known}
    return 0 if asyncio.run(run(chosen, Pace.QUICK if arguments.quick else Pace.FULL)) else 1


if __name__ == "__main__":
    sys.exit(main())
