"""``python -m plugbay`` is the ``plugbay`` command, but that Python has imported the package by now."""

from plugbay_command import run

if __name__ == "__main__":
    raise SystemExit(run())
