"""Applied configurations as requests bring them, and the answers to those that cannot be applied. Pure.

Source: apiserver 1.36 ``pkg/endpoints/handlers/patch.go`` (applyPatcher); apimachinery 1.36
``pkg/util/managedfields/internal`` (structuredmerge, versioncheck, conflict).
"""

from __future__ import annotations

import json

from plugbay.documents import Json
from plugbay.documents.sound_json import UnsoundJson, check_json
from plugbay.errors import InvalidDocument
from plugbay.node.api.applying.elements import path_text
from plugbay.node.api.applying.field_manager import FieldWriter, applied
from plugbay.node.api.applying.options import is_forced
from plugbay.node.api.applying.typed.types import VersionedType
from plugbay.node.api.applying.typed.walking import MistypedValue
from plugbay.node.api.applying.updating import ApplyConflicts, FieldConflict
from plugbay.ops.routing import HttpError, Request
from plugbay.printers import v1


def configuration_of(request: Request, kind: str, api_version: str) -> Json:
    """The configuration in the body of a request: one object of this kind, as YAML or JSON.

    Raises:
        HttpError: 400, the body is not such an object.
    """
    config = _read(request)
    try:
        check_json(config)
    except UnsoundJson as error:
        raise HttpError(400, "BadRequest", f"error decoding patch: {error}") from None
    if not isinstance(config, dict):
        raise HttpError(400, "BadRequest", "error decoding patch: the body must be one object")
    if (config.get("apiVersion"), config.get("kind")) != (api_version, kind):
        raise HttpError(400, "BadRequest", f"invalid object type: {_type_text(config)}")
    metadata = config.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise HttpError(400, "BadRequest", "error decoding patch: metadata must be an object")
    if v1.at(config, "metadata", "managedFields") is not None:
        raise HttpError(400, "BadRequest", "metadata.managedFields must be nil")
    name = request.params["name"]
    if not v1.name(config):
        problem = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        raise HttpError(400, "BadRequest", problem)
    if v1.name(config) != name:
        problem = f"the name of the object ({v1.name(config)}) does not match the name on the URL ({name})"
        raise HttpError(400, "BadRequest", problem)
    return config


def apply_configuration(
    live: Json | None, config: Json, request: Request, writer: FieldWriter, kind: VersionedType, *, now: str
) -> Json:
    """The object that the configuration of a request makes of ``live``; see `applied`.

    Raises:
        HttpError: 409, it takes fields from others; 400, it cannot be merged (an API server answers 500 there).
    """
    try:
        return applied(live, config, writer, kind, is_forced=is_forced(request), now=now)
    except ApplyConflicts as error:
        raise conflict_error(error.conflicts) from None
    except MistypedValue as error:
        raise unmergeable(request, config, str(error)) from None


def unmatched_uid(qualified: str, config: Json) -> HttpError:
    """The answer to a configuration for one object, which is not there."""
    why = f"uid mismatch: the provided object specified uid {v1.uid(config)}, and no existing object was found"
    problem = f'Operation cannot be fulfilled on {qualified} "{v1.name(config)}": {why}'
    return HttpError(409, "Conflict", problem)


def unmergeable(request: Request, config: Json, why: str) -> HttpError:
    """The answer to a configuration that is not of its type."""
    place = "/".join(filter(None, (request.params.get("namespace", ""), v1.name(config))))
    return HttpError(400, "BadRequest", f"failed to create typed patch object ({place}; {_type_text(config)}): {why}")


def conflict_error(conflicts: list[FieldConflict]) -> HttpError:
    """The answer to a configuration that would take fields from others."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {each.manager}", "field": path_text(each.path)}
        for each in conflicts
    ]
    return HttpError(409, "Conflict", _message(conflicts), details={"causes": causes})


def _message(conflicts: list[FieldConflict]) -> str:
    if len(conflicts) == 1:
        [only] = conflicts
        return f"Apply failed with 1 conflict: conflict with {only.manager}: {path_text(only.path)}"
    lines: list[str] = []
    for who in dict.fromkeys(each.manager for each in conflicts):
        lines.append(f"conflicts with {who}:")
        lines += (f"- {path_text(each.path)}" for each in conflicts if each.manager == who)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _read(request: Request) -> object:
    """Keys that stand twice are refused only where the client asks for it."""
    try:
        text = request.body.decode()
        try:
            # Most clients send JSON, which is read much faster as such, and without PyYAML.
            return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_refused)
        except ValueError:
            from plugbay.documents.texts import RepeatedKeys, read_documents

            is_strict = request.query.get("fieldValidation") == "Strict"
            repeated = RepeatedKeys.REFUSED if is_strict else RepeatedKeys.LAST_COUNTS
            documents = list(read_documents(text, source="patch", repeated_keys=repeated))
    except (UnicodeDecodeError, InvalidDocument, RecursionError) as error:
        why = error.problem if isinstance(error, InvalidDocument) else "it is not UTF-8, or nested too deep"
        raise HttpError(400, "BadRequest", f"error decoding patch: {why}") from None
    if len(documents) > 1:
        raise HttpError(400, "BadRequest", "error decoding patch: the body must be one object")
    return documents[0].value if documents else None


def _unrepeated(pairs: list[tuple[str, object]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refused(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _type_text(config: Json) -> str:
    """Kind and version as Go writes them: ``apps/v1, Kind=Deployment``, and ``/v1, Kind=Pod`` for the core group."""
    group, _, version = v1.text(config, "apiVersion").rpartition("/")
    return f"{group}/{version}, Kind={v1.text(config, 'kind')}"
