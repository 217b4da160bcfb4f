"""The options with which any plugin is served: those of ``plugbay serve`` and of `plugbay.run`."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.options import add_kubelet_root, add_log_options, add_metrics_address, duration_s, path_of

_ROUTES = ("kubelet", "watcher", "both")
"""The values of `plugbay.sdk.serving.routes.RegistrationRoute`, whose import would slow the help."""
_RELEASES = ("auto", "kubelet", "synthesised", "off")
"""The values of `plugbay.sdk.author.release_settings.ReleaseSource`."""

_SHORTEST_S = 0.1
"""The least interval: each look makes a kubelet list its pods and write its checkpoint."""


def add_serve_options(parser: argparse._ActionsContainer) -> None:
    add_kubelet_root(parser)
    add_log_options(parser)
    add_metrics_address(parser)
    parser.add_argument(
        "--route",
        choices=_ROUTES,
        default="kubelet",
        help="register at kubelet.sock, or be found in plugins_registry by the kubelet's plugin watcher, or both "
        "(default: %(default)s, which every kubelet takes)",
    )
    parser.add_argument(
        "--cdi-directory",
        metavar="DIR",
        type=path_of,
        help="where CDI specs of plugins that have a CDI kind go (default: /var/run/cdi, where engines look)",
    )
    _add_endings(parser)
    _add_dry_run(parser)
    _add_release_options(parser)


def _add_endings(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--exit-on-refusal",
        action="store_true",
        help="end with an error when the kubelet refuses a registration, instead of asking again",
    )
    parser.add_argument(
        "--exit-if-none",
        action="store_true",
        help="end well when no plugin finds a device at first, instead of waiting for some",
    )


def _add_dry_run(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="serve nothing; show which resources would be served, and check them"
    )
    parser.add_argument(
        "--against",
        metavar="OLD",
        type=path_of,
        help="with --dry-run: show what differs from another config file; exit code 0 means nothing, 1 something, "
        "2 that a file is wrong",
    )


def _add_release_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--release",
        choices=_RELEASES,
        default="auto",
        help="how a plugin learns that a container is done with its devices. kubelet: by the call Deallocate, which "
        "stock kubelets never make; synthesised: from the kubelet's checkpoint; auto: from the checkpoint, unless the "
        "kubelet promises or makes calls; off: not at all (default: %(default)s)",
    )
    parser.add_argument(
        "--release-interval",
        metavar="TIME",
        type=_interval_s,
        default=30.0,
        help="how often to look at the checkpoint while devices are in use (default: 30s, at least 100ms)",
    )
    parser.add_argument(
        "--release-ask",
        action="store_true",
        help="ask a kubelet for the list of its pods at each look, so that it notices ends of pods while no other pod "
        "comes, and the plugin learns pods' names. WARNING: a stock kubelet may give the device of an Allocate, of "
        "any plugin, to a second pod if it is asked during that Allocate and a pod has ended since the Allocate "
        "began. It is rare with plugins that answer in milliseconds, and likely with one that takes seconds. Without "
        "this option plugbay asks only managers that say that it does no harm, such as `plugbay node up`",
    )
    parser.add_argument(
        "--state-directory",
        metavar="DIR",
        type=path_of,
        help="where to keep which devices are in use (default: .plugbay in the kubelet's directory for plugins)",
    )


def _interval_s(text: str) -> float:
    if (interval_s := duration_s(text)) < _SHORTEST_S:
        raise argparse.ArgumentTypeError(f"wants a time of 100ms or more, found {text!r}")
    return interval_s
