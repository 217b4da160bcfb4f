"""``python -m plugbay`` is the ``plugbay`` command."""

from plugbay.cli.main import run

if __name__ == "__main__":
    raise SystemExit(run())
