"""The writer of a request: ``fieldManager``, ``force``, and the name that the client goes by. Pure.

Source: apimachinery 1.36 ``pkg/apis/meta/v1/validation/validation.go``; apiserver 1.36
``pkg/endpoints/handlers/create.go`` (managerOrUserAgent).
"""

from __future__ import annotations

from typing import Final

from plugbay.node.api.applying.field_manager import FieldWriter
from plugbay.node.api.parameters import is_set
from plugbay.ops.routing import HttpError, Request

APPLY_PATCH: Final = "application/apply-patch+yaml"
MAX_MANAGER_BYTES: Final = 128
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def is_apply(request: Request) -> bool:
    media = request.headers.get("content-type", "").partition(";")[0].strip()
    return request.method == "PATCH" and media == APPLY_PATCH


def is_forced(request: Request) -> bool:
    return is_set(request, "force")


def writer_of(request: Request) -> FieldWriter:
    """The client that sends a request: the field manager that it names, else the first part of its user agent.

    Raises:
        HttpError: 422, the field manager cannot be one, or it applies without one, or forces something else.
    """
    name = request.query.get("fieldManager", "")
    problems = list(_problems(request, name))
    if problems:
        text = problems[0][1] if len(problems) == 1 else f"[{', '.join(text for _, text in problems)}]"
        kind = _OPTIONS.get(request.method, "PatchOptions")
        causes = [
            {"reason": reason, "message": text.partition(": ")[2], "field": text.partition(":")[0]}
            for reason, text in problems
        ]
        details = {"group": "meta.k8s.io", "kind": kind, "causes": causes}
        raise HttpError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {text}', details=details)
    return FieldWriter(
        name or _from_user_agent(request.headers.get("user-agent", "")), request.params.get("subresource", "")
    )


def _problems(request: Request, name: str) -> list[tuple[str, str]]:
    """The cause and the text of each problem."""
    found: list[tuple[str, str]] = []
    if is_apply(request) and not name:
        found.append(("FieldValueRequired", "fieldManager: Required value: is required for apply patch"))
    if request.method == "PATCH" and not is_apply(request) and "force" in request.query:
        found.append(("FieldValueForbidden", "force: Forbidden: may not be specified for non-apply patch"))
    if len(name.encode()) > MAX_MANAGER_BYTES:
        found.append(("FieldValueTooLong", f"fieldManager: Too long: may not be more than {MAX_MANAGER_BYTES} bytes"))
    for index, character in enumerate(name):
        if not character.isprintable():
            position = len(name[:index].encode())
            rule = f"invalid character U+{ord(character):04X} (at position {position})"
            found.append(("FieldValueInvalid", f'fieldManager: Invalid value: "{_escaped(name)}": {rule}'))
    return found


def _escaped(text: str) -> str:
    return "".join(each if each.isprintable() else _SHORT.get(each, f"\\u{ord(each):04x}") for each in text)


def _from_user_agent(agent: str) -> str:
    name = ""
    for character in agent.partition("/")[0]:
        if character.isprintable():
            if len((name + character).encode()) > MAX_MANAGER_BYTES:
                break
            name += character
    return name
