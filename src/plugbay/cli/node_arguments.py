"""The arguments of the ``plugbay node`` commands that look at a node."""

from __future__ import annotations

from plugbay.cli.command_parser import CommandParser, Subparsers
from plugbay.cli.names import node_name
from plugbay.cli.parsing import add_output_or_template, add_page_output, add_selector, add_timeout, duration_s


def add_down(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "down",
        help="stop the node in order, and wait until it has ended",
        description="Stop the node as SIGTERM does, and wait until its process has ended. Its pods go on, and the next "
        "`plugbay node up` takes them over. Where no node runs there is nothing to do, and the exit code is 0 too.",
        examples=("plugbay node down", "plugbay node drain n1 && plugbay node down"),
    )
    parser.add_argument(
        "--timeout",
        type=duration_s,
        default="60s",
        metavar="TIME",
        help="how long to wait for its end; 0 is without end (default: %(default)s)",
    )
    return parser


def add_status(commands: Subparsers) -> CommandParser:
    return commands.add_parser(
        "status",
        help="tell whether a node runs, and as which process",
        description="Tell whether a node runs on the root. The exit code is 0 if one does and 1 if none does.",
    )


def add_enclose(commands: Subparsers) -> CommandParser:
    return commands.add_parser(
        "enclose",
        takes_command=True,
        help="run a program to which the node is the kubelet at /var/lib/kubelet",
        description="Run a program, such as a plugin with /var/lib/kubelet compiled in, with the node's root there. "
        "Only the program sees that, in a mount namespace of its own; without root rights it is in a user namespace as "
        "well. A kubelet that lives at /var/lib/kubelet is out of its sight. It takes the place of this command: "
        "signals and its exit code are its own, and nothing is left when it has ended.",
        usage="%(prog)s [-h] [--root DIR] -- PROGRAM [ARGUMENT ...]",
        examples=("plugbay node enclose -- ./my-plugin --verbose",),
    )


def add_get(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "get",
        help="list the node and its resources",
        description="List the node, with a row for each extended resource of which it has devices; -o wide also shows "
        "resources whose devices are gone.",
        examples=(
            "plugbay node get -w",
            "plugbay node get n1 -o jsonpath='{.status.allocatable}'",
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=node_name, help="only these")
    add_selector(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every change")
    add_output_or_template(parser)
    return parser


def add_describe(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "describe",
        help="show all about the node: devices, plugins, events",
        description="Show the node's capacity and what of it is allocatable, each device with its health and holder, "
        "the plugins with their states, and what happened. With -o, the members are node, devices and events.",
        examples=("plugbay node describe", "plugbay node describe -o json"),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=node_name, help="only these")
    add_page_output(parser)
    return parser


def add_devices(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "devices",
        help="list the node's devices, with their health and the containers that hold them",
        description="List the devices that plugins have offered to the node, with their health and which container "
        "holds each; -o wide shows the state of their plugins too. `plugbay devices` asks a plugin instead.",
        examples=(
            "plugbay node devices",
            "plugbay node devices example.com/gopher -o json",
            "plugbay node devices -o jsonpath='{.items[*].id}'",
        ),
    )
    parser.add_argument("resources", nargs="*", metavar="RESOURCE", help="only devices of these resources")
    add_output_or_template(parser)
    return parser


def add_wait(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "wait",
        help="wait until the node has so many devices, or a value in a field",
        description="Wait until the node is as --for says; exits with 1 if it is not in time.",
        examples=(
            "plugbay node wait --for=resource=example.com/gopher=2",
            "plugbay node wait --for='resource=example.com/gopher>=1' --timeout 5m",
            "plugbay node wait --for=condition=Ready n1",
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=node_name, help="only these")
    parser.add_argument(
        "--for",
        dest="condition",
        required=True,
        metavar="WHAT",
        help="resource=R=N: N devices of resource R can be allocated, exactly so many; resource=R>=N: at least N; "
        "resource=R: at least 1; capacity=R=N: counting unhealthy devices too; "
        "condition=NAME[=STATUS] or jsonpath='{.PATH}'[=VALUE]",
    )
    add_timeout(parser)
    return parser
