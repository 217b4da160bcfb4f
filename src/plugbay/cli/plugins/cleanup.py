"""``plugbay cleanup``: remove what plugins have left on a node."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plugbay.cli.arguments.options import add_kubelet_root, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.errors import PathUnusable, UsageError

if TYPE_CHECKING:
    from plugbay.sdk.inspection.leftovers.leftover import Leftover


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Remove what plugbay's plugins have left on this node: sockets at which no process listens, CDI specs whose "
        "devices no pod has, and journals in which every device is released. What a plugin that runs or a pod may need "
        "stays, and each line says why. Nothing of the kubelet's, and nothing of other plugins, is touched. "
        "Exit code 1 means that something could not be removed, 2 that a directory of an option is not there.",
        examples=(
            "plugbay cleanup --dry-run",
            "plugbay cleanup --root /var/lib/kubelet",
        ),
        run=run,
    )
    add_kubelet_root(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="remove nothing; show what would be removed, and what not"
    )
    parser.add_argument(
        "--cdi-directory", metavar="DIR", type=path_of, help="where plugins wrote CDI specs (default: /var/run/cdi)"
    )
    parser.add_argument(
        "--state-directory",
        metavar="DIR",
        type=path_of,
        help="where plugins kept which devices are in use (default: .plugbay in the kubelet's directory for plugins)",
    )


def run(args: argparse.Namespace) -> int:
    import os

    from plugbay.cli.arguments.roots import chosen_kubelet_root
    from plugbay.cli.printing.output import show
    from plugbay.kubelet.paths import STOCK_ROOT, KubeletPaths
    from plugbay.node.roots import private_root
    from plugbay.plugins.nvidia.cdi.writing import SPECS
    from plugbay.sdk.author.release_settings import DIRECTORY_NAME
    from plugbay.sdk.cdi.directory import CDI_DIRECTORY
    from plugbay.sdk.inspection.leftovers.survey import leftovers

    _check_given(
        {"--root": args.root, "--cdi-directory": args.cdi_directory, "--state-directory": args.state_directory}
    )
    paths = KubeletPaths(chosen_kubelet_root(args).path)
    found = leftovers(
        paths,
        cdi_directory=args.cdi_directory or CDI_DIRECTORY,
        state_directory=args.state_directory or paths.device_plugins / DIRECTORY_NAME,
        of_domains=[SPECS],
        others=[KubeletPaths(STOCK_ROOT), KubeletPaths(private_root(os.environ, os.geteuid()))],
    )
    code, is_clean = 0, True
    for each in list(found):  # all of it first: an error there removes nothing
        is_clean = False
        line, failed = _planned(each) if args.dry_run else _removed(each)
        show(f"{line}\n")
        code = max(code, int(failed))
    if is_clean:
        show(f"no plugin of plugbay has left anything at {paths.root}\n")
    return code


def _check_given(directories: Mapping[str, Path | str | None]) -> None:
    """Check that the directories of options are there: of one that is mistyped nothing would be said to be left.

    Raises:
        UsageError: one is not.
    """
    for option, given in directories.items():
        if given is not None and not Path(given).is_dir():
            raise UsageError(f"{option} {given}: there is no such directory")


def _planned(each: Leftover) -> tuple[str, bool]:
    if each.needed:
        return _kept(each, each.needed), False
    return f"would remove {each.path}: {each.what}", False


def _removed(each: Leftover) -> tuple[str, bool]:
    """Remove it, if nothing needs it; returns a line on that, and whether it failed."""
    if each.needed:
        return _kept(each, each.needed), False
    try:
        needed = each.remove()
    except (OSError, PathUnusable) as error:
        problem = error.problem if isinstance(error, PathUnusable) else error.strerror
        return _kept(each, f"it cannot be removed: {problem}"), True
    if needed:
        return _kept(each, needed), False
    return f"removed {each.path}: {each.what}", False


def _kept(each: Leftover, why: str) -> str:
    return f"kept {each.path}: {each.what}: {why}"
