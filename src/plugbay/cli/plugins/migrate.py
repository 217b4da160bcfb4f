"""``plugbay migrate``: from the files of other device plugins to a manifest of ours."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plugbay.cli.arguments.inputs import input_name, read_input
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_note
from plugbay.documents.texts import Document, read_documents
from plugbay.errors import OperatorError, PathUnusable, UsageError
from plugbay.model.dns import is_subdomain
from plugbay.plugins.nvidia.migrating import manifests as nvidia
from plugbay.sdk.author.needs import Need, Variable
from plugbay.sdk.deploying.deployment import FILES, Deployment, default_name, is_file_name
from plugbay.sdk.deploying.migrating import squat
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, Migration
from plugbay.sdk.deploying.migrating.squat_devices import CONFIG
from plugbay.sdk.deploying.needs import needs_now
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.process.sources import Member

_ORIGINS: Final = {"squat": squat.is_squat, "nvidia": nvidia.is_nvidia}
_IMAGE: Final = "--image registry.example.com/plugbay:1"
_ROOT: Final = Path("/")
_POD_FIELDS: Final = ("node_selector", "affinity", "tolerations", "runtime_class", "priority_class")


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Print a manifest of ours for what another device plugin was set to: squat's generic-device-plugin (its "
        "manifests, config file or flags), or NVIDIA's (values of its chart, manifests, configuration file or flags). "
        "Comments at the top say what becomes of every setting; what is not taken over is on standard error too. Flags "
        "come last, after `--`.",
        examples=(
            f"plugbay migrate values.yaml {_IMAGE}",
            f"plugbay migrate generic-device-plugin.yaml {_IMAGE} -o values",
            f"plugbay migrate --from nvidia {_IMAGE} -- --mig-strategy=mixed",
        ),
        run=run,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="YAML or JSON; - is standard input")
    parser.add_argument(
        "--from", dest="origin", choices=tuple(_ORIGINS), help="the plugin (default: as the files show)"
    )
    parser.add_argument("--image", required=True, metavar="IMAGE", help="a container image with plugbay[metrics]")
    parser.add_argument("--name", metavar="NAME", help="of the objects (default: as before)")
    parser.add_argument("--namespace", metavar="NAMESPACE", help="of the objects (default: as before, or kube-system)")
    parser.add_argument("--domain", default="", metavar="DOMAIN", help="of squat's resources, if the files name none")
    parser.add_argument(
        "-o",
        "--output",
        choices=("yaml", "values"),
        default="yaml",
        help="a manifest, or values for our chart (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the manifest, or nothing if none can be made; returns 0."""
    configure_logs("error", sys.stderr)
    at = next((at for at, each in enumerate(args.files) if each.startswith("-") and each != "-"), len(args.files))
    files, words = args.files[:at], args.files[at:]
    migration = _migrated(list(_documents(files)), words, args)
    for note in migration.left:
        show_note(note)
    if migration.origin == squat.ORIGIN and not migration.files:
        raise UsageError("nothing of it can be served by plugbay today, so nothing is printed")
    deployment = _deployment(migration, args)
    show("".join(f"# {note}\n" for note in migration.notes) + _text(deployment, args.output))
    return 0


def _documents(files: Sequence[str]) -> Iterator[ForeignSettings]:
    for file in files:
        name = input_name(file)
        try:
            text = read_input(file).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PathUnusable(name, "is not UTF-8 text") from error
        documents = list(read_documents(text, source=name)) or [Document({}, {})]  # as Helm prints values that are none
        for document in documents:
            yield from (ForeignSettings(each, name) for each in _objects(document))


def _objects(document: Document) -> Iterator[Document]:
    """The objects in a list, as ``kubectl get`` prints several, or the document itself."""
    value = document.value
    if not (isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list)):
        yield document
        return
    for index, item in enumerate(value["items"]):
        place = ("items", index)
        yield Document(item, {path[2:]: line for path, line in document.lines.items() if path[:2] == place})


def _migrated(documents: Sequence[ForeignSettings], words: Sequence[str], args: argparse.Namespace) -> Migration:
    if not documents and not words:
        raise UsageError("`migrate` needs a FILE, or --from and flags after `--`; see 'plugbay migrate --help'")
    seen = [name for name, is_its in _ORIGINS.items() if any(map(is_its, documents))]
    if args.origin is None and len(seen) != 1:
        problem = f"the files are for {' and '.join(seen)}" if seen else "it does not show of which plugin this is"
        raise UsageError(f"{problem}: say --from {' or --from '.join(_ORIGINS)}")
    match args.origin or seen[0]:
        case squat.ORIGIN:
            if args.domain and not is_subdomain(args.domain):
                raise UsageError(f"--domain {args.domain}: a domain has lower-case letters, digits, - and . only")
            return squat.migrate_squat(documents, words, args.domain)
        case _:
            return nvidia.migrate_nvidia(documents, words)


def _deployment(migration: Migration, args: argparse.Namespace) -> Deployment:
    files = dict(migration.files)
    also: list[Need] = [Variable(name, value, "as before") for name, value in migration.variables.items()]
    with _laid_out(files) as directory, contextlib.redirect_stdout(sys.stderr):
        try:
            members, words = _members(migration, directory)
            needs = asyncio.run(needs_now(members, also))
        except OperatorError as error:
            raise UsageError(str(error).replace(f"{directory}/", "")) from error
    pod: Mapping[str, Any] = migration.pod
    return Deployment(
        name=args.name or pod.get("name") or default_name(needs),
        namespace=args.namespace or pod.get("namespace") or "kube-system",
        image=args.image,
        needs=needs,
        targets=tuple(words),
        files=files,
        **{field: pod[field] for field in _POD_FIELDS if field in pod},
    )


def _members(migration: Migration, directory: Path) -> tuple[Sequence[Member], Sequence[str]]:
    """The plugins, with the files where they are on this machine, and the words for them in a pod."""
    if migration.origin == squat.ORIGIN:
        from plugbay.plugins.generic.answers.needs import root_in_pod
        from plugbay.plugins.generic.serving.arguments import GenericArguments, load_rules
        from plugbay.plugins.generic.serving.settings import GenericSettings
        from plugbay.plugins.generic.serving.source import GenericSource

        file = directory / CONFIG
        rules = load_rules(GenericArguments(file), file)
        root = root_in_pod(rules)
        words = migration.words if root == _ROOT else (*migration.words, f"--machine-root={root}")
        return [GenericSource(GenericSettings(lambda: rules, file, root))], words
    from plugbay.plugins.nvidia.config.arguments import parse_arguments
    from plugbay.plugins.nvidia.config.places import ConfigPlace, Given
    from plugbay.plugins.nvidia.serving.settings import NodeSettings
    from plugbay.plugins.nvidia.serving.source import NvidiaSource

    parsed = parse_arguments([word.replace(f"={FILES}", f"={directory}") for word in migration.words[1:]])
    places = {key: ConfigPlace(place) for key, place in migration.places.items()}
    arguments = {key: Given(given.value, places.get(key, given.place)) for key, given in parsed.items()}
    return [NvidiaSource(NodeSettings(arguments, elsewhere=True))], migration.words


@contextlib.contextmanager
def _laid_out(files: Mapping[str, str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        for file, text in files.items():
            if not is_file_name(file):
                raise UsageError(f"{file!r} is not the name of a file in a ConfigMap")
            (Path(name) / file).write_text(text, encoding="utf-8")
        yield Path(name)


def _text(deployment: Deployment, form: str) -> str:
    if form == "values":
        from plugbay.sdk.deploying.chart_values import values_of

        return values_of(deployment)
    from plugbay.sdk.deploying.objects import manifest

    return noted_yaml(manifest(deployment))
