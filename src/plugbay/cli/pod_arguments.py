"""The arguments of the ``plugbay pod`` commands."""

from __future__ import annotations

from plugbay.cli.command_parser import CommandParser, Subparsers
from plugbay.cli.names import pod_name
from plugbay.cli.parsing import (
    add_all_namespaces,
    add_namespace,
    add_output,
    add_output_or_template,
    add_page_output,
    add_selector,
    add_timeout,
    at_least,
    duration_s,
    file_of,
    name_of,
    namespace_of,
)


def add_run(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "run",
        help="create pods from a manifest, or one from a command line",
        usage="plugbay pod run -f FILE|DIR|- [options]\n"
        "       plugbay pod run NAME [--resource R=N] [--env K=V] [options] -- CMD ...\n"
        "       plugbay pod run NAME --image IMAGE [options] [-- CMD ...]",
        description="Create the pods of manifests (-f), or one pod with a single container that runs CMD.",
        takes_command=True,
        examples=(
            "plugbay pod run -f pod.yaml",
            "plugbay pod run job --restart Never --resource example.com/gopher=1 -- sh -c 'echo $Gopher'",
        ),
    )
    parser.add_argument("name", nargs="?", metavar="NAME", type=name_of, help="name of the pod, and of its container")
    _add_filename(parser)
    parser.add_argument(
        "--resource",
        action="append",
        default=[],
        metavar="R=N",
        help="give the container N of resource R, such as example.com/gopher=1; may be repeated",
    )
    parser.add_argument("--image", help="for a node with --runtime cri; CMD takes the place of its entrypoint")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="set a variable; may be repeated")
    parser.add_argument(
        "--restart",
        choices=("Always", "OnFailure", "Never"),
        help="restart policy (default: Always); not with -f",
    )
    _add_lenient(parser)
    parser.add_argument(
        "--dry-run",
        nargs="?",
        choices=("none", "client", "server"),
        default="none",
        const="client",
        help="check the manifest here and create nothing (client, which --dry-run alone means); the node cannot be "
        "asked to check (server)",
    )
    _add_manifest_namespace(parser)
    add_output(parser)
    return parser


def add_apply(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "apply",
        help="create or change pods to be as their manifests say",
        description="Create the pods that do not exist, and change the pods that do; a pod that fits stays. "
        "All manifests are checked before anything is sent. Of a pod that exists only some fields can change: "
        "the node says which.",
        examples=("plugbay pod apply -f pods/", "generate-pods | plugbay pod apply -f -"),
    )
    _add_filename(parser, required=True)
    _add_lenient(parser)
    _add_manifest_namespace(parser)
    add_output(parser)
    return parser


def add_get(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "get",
        help="list pods",
        description="List pods; -o wide shows their devices too.",
        examples=(
            "plugbay pod get -A -o wide",
            "plugbay pod get web -w",
            "plugbay pod get -l app=web",
            "plugbay pod get web -o jsonpath='{.status.phase}'",
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="only these")
    add_selector(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every change")
    add_namespace(parser)
    add_all_namespaces(parser)
    add_output_or_template(parser)
    return parser


def add_describe(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "describe",
        help="show all about pods: devices, states, events",
        description="Show all about pods: the states of their containers, which devices each holds, how these are and "
        "what came with them, and what happened. With -o, the members are pod, devices and events.",
        examples=("plugbay pod describe web", "plugbay pod describe web -o json"),
    )
    add_page_output(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="only these")
    add_selector(parser)
    add_namespace(parser)
    add_all_namespaces(parser)
    return parser


def add_wait(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "wait",
        help="wait until pods are ready, gone, or have a value in a field",
        description="Wait until each pod is as --for says; exits with 1 if one is not in time, or not there.",
        examples=(
            "plugbay pod wait --for=condition=Ready web",
            "plugbay pod wait --for=jsonpath='{.status.phase}'=Succeeded job --timeout=5m",
            "plugbay pod wait --for=delete --all",
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="the pods")
    parser.add_argument("--all", action="store_true", help="all pods of the namespace")
    add_selector(parser)
    parser.add_argument(
        "--for",
        dest="condition",
        required=True,
        metavar="WHAT",
        help="condition=NAME[=STATUS] (STATUS is True by default), delete, or jsonpath='{.PATH}'[=VALUE]",
    )
    add_timeout(parser)
    add_namespace(parser)
    return parser


def add_exec(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "exec",
        help="run a command in a container, with its environment",
        usage="plugbay pod exec NAME [-i] [-t] [-c CONTAINER] [-n NS] -- CMD ...",
        description="Run a command in a container, with its environment; exits with the command's exit code.",
        takes_command=True,
        examples=(
            "plugbay pod exec web -- env",
            "plugbay pod exec -it web -- sh",
            "plugbay pod exec -i web -- sh -c 'cat > /tmp/note' < note",
        ),
    )
    parser.add_argument("name", metavar="NAME", type=pod_name, help="the pod")
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on to the command")
    parser.add_argument("-t", "--tty", action="store_true", help="give the command a terminal; with -i")
    _add_container(parser)
    add_namespace(parser)
    return parser


def add_logs(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "logs",
        help="show what a container printed",
        description="Show what a container printed, on standard output and standard error.",
        examples=(
            "plugbay pod logs -f web",
            "plugbay pod logs web sidecar",
            "plugbay pod logs --previous --tail 20 web",
        ),
    )
    parser.add_argument("name", metavar="NAME", type=pod_name, help="the pod")
    parser.add_argument("inline", nargs="?", metavar="CONTAINER", help="the same as --container")
    _add_container(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as long as the container runs")
    parser.add_argument("--tail", type=at_least(-1), default=-1, metavar="N", help="the last N lines only; -1 is all")
    parser.add_argument(
        "--since",
        type=duration_s,
        default="0",
        metavar="TIME",
        help="what is not older than TIME, such as 5s or 1h30m; only the cri runtime knows (default: all)",
    )
    parser.add_argument(
        "--timestamps", action="store_true", help="with the time before each line; only the cri runtime knows"
    )
    parser.add_argument("-p", "--previous", action="store_true", help="of the instance before the last restart")
    add_namespace(parser)
    return parser


def add_delete(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "delete",
        help="stop pods and forget them",
        description="Stop pods, wait until they have ended, and forget them.",
        examples=("plugbay pod delete web", "plugbay pod delete -f pods/ --now", "plugbay pod delete -l app=web"),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="the pods")
    parser.add_argument("--all", action="store_true", help="all pods of the namespace")
    add_selector(parser)
    _add_filename(parser)
    parser.add_argument(
        "--grace-period",
        type=int,
        metavar="SECONDS",
        help="time to stop by itself (default: the pod's own); 0 without --force is taken as 1",
    )
    parser.add_argument("--now", action="store_true", help="the same as --grace-period=1")
    parser.add_argument("--force", action="store_true", help="kill at once; the same with --grace-period=0")
    parser.add_argument(
        "--wait",
        nargs="?",
        choices=("true", "false"),
        default="true",
        const="true",
        help="wait until they are gone (default: true)",
    )
    parser.add_argument("--ignore-not-found", action="store_true", help="a pod that is not there is not an error")
    _add_manifest_namespace(parser)
    return parser


def _add_container(parser: CommandParser) -> None:
    parser.add_argument("-c", "--container", metavar="CONTAINER", help="container (default: the first one)")


def _add_filename(parser: CommandParser, *, required: bool = False) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        required=required,
        metavar="FILE",
        type=file_of,
        help="manifest with pods, a directory with manifests (*.yaml, *.yml, *.json), or - for standard input; "
        "10 MiB each at most; may be repeated",
    )


def _add_lenient(parser: CommandParser) -> None:
    parser.add_argument(
        "--lenient", action="store_true", help="warn about fields that are unknown or unsupported, and go on"
    )


def _add_manifest_namespace(parser: CommandParser) -> None:
    parser.add_argument(
        "-n", "--namespace", metavar="NS", type=namespace_of, help="namespace (default: the manifest's, else default)"
    )
