"""Secrets, found by the name they are given and by their form, in whatever text they are. Pure.

A text is read as what it may be a part of: settings (``password=x``), options of a command line (``--token x``),
header lines (``Authorization: Bearer x``), YAML, and JSON or the like, also where that is quoted once more. The value
of a name that looks secret is replaced up to its certain end: the closing quote or bracket, the end of an option's
word, the end of a header line, or else the next setting. Where the end is in doubt, too much is replaced rather than
too little.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
"""Stands in the place of a value."""
_NAMES: Final = re.compile(
    r"password|passwd|passphrase|passcode|secret|token(?!i[sz])|credential|cookie|jwt|bearer|signature|webhook|authori[sz]|"
    r"(?<!com)(?<!by)(?<!tres)(?<!sur)(?<!under)(?<!over)pass(?:es)?(?![a-z])|auth(?![a-z])|(?<!old)pwd(?![a-z])|"
    r"(?<![a-z])(?:creds?|dsn|sig)(?![a-z])|session[^a-z]?id|"
    r"(?:api|private|access|account|encryption|signing|master|ssh|session|auth)[^a-z]?key|"
    r"key[^a-z]?(?:data|pem|value|material|content|base64|b64)|"
    r"(?<!mon)(?<!don)(?<!tur)(?<!hoc)(?<!joc)(?<!whis)(?<!hot)(?<!yubi)(?<!nitro)(?<!solo)keys?(?=[^a-z]*\Z)",
    re.IGNORECASE,
)
_FORMS: Final = re.compile(
    r"(?<=://)[^\s/]+(?=@)|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)|"
    r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|"
    r"(?<![\w-])(?:gh[pousr]_[A-Za-z0-9]{12,}|github_pat_\w{12,}|glpat-[\w-]{12,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|"
    r"(?:sk|rk)-[\w-]{16,}|(?:sk|rk)_(?:live|test)_\w{8,}|hf_[A-Za-z0-9]{12,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|"
    r"nvapi-[\w-]{12,}|npm_[A-Za-z0-9]{12,}|pypi-\w[\w-]{12,}|dckr_pat_[\w-]{12,}|AIza[\w-]{16,}|ya29\.[\w.-]{8,}|"
    r"hv[sb]\.[\w-]{8,}|AGE-SECRET-KEY-1\w{8,})(?![\w-])|"
    r"(?:(?<=[Bb]earer )|(?<=[Bb]asic ))(?=[\w.~+/-]*(?:[\d=]|[a-z][A-Z]))[\w.~+/=-]{6,}",
    re.DOTALL,
)
"""Secrets by their form: user and password in a URL, private keys in PEM, JSON web tokens, keys of known services, and
what follows the word Bearer or Basic and is not a plain word."""

_QUOTE: Final = r"\\{0,7}[\"']"
_NAMED: Final = re.compile(
    rf"(?<![\w.-])(?P<dashes>-{{0,2}})(?P<word>(?P<name>[\w.-]++))(?P<close>(?:{_QUOTE})?)\]?"
    r"(?P<separator>[ \t]*+(?::=?(?!//)|={1,2}>?)[ \t]*+|>|(?:,\s*+|\s++)(?:-\s++)?)"
)
"""A name, and what separates it from its value; white space and a comma do that for options only."""
_PAIR: Final = re.compile(
    rf"(?<![\w.-])(?P<dashes>)(?:name|key)(?:{_QUOTE})?\s{{0,9}}[:=]\s{{0,9}}(?:{_QUOTE})?(?P<name>[\w./-]++)"
    rf"(?:{_QUOTE})?(?:,\s{{0,40}}|\s{{1,40}})(?:{_QUOTE})?(?P<word>value)(?P<close>(?:{_QUOTE})?)"
    r"(?P<separator>\s{0,9}[:=]\s{0,9})",
    re.IGNORECASE,
)
"""A name and a value as members of their own, as Kubernetes has variables: ``{"name": "TOKEN", "value": "x"}``."""
_QUOTED: Final = re.compile(r"(?P<slashes>\\*+)(?P<quote>[\"'])")
_QUOTED_IN_LINE: Final = re.compile(rf"{_QUOTED.pattern}|[\n\r]")
_TOKEN: Final = re.compile(rf"{_QUOTED.pattern}|[{{}}\[\]]")
_END: Final = rf"(?:{_QUOTE}(?=[\s,;:&<)}}\]]|\Z)|[\n\r]|\Z)"
_QUOTED_END: Final = re.compile(rf"(?=[\s,;:&<)}}\]]|{_END})")
_PART_END: Final = re.compile(rf"{_QUOTED_END.pattern}|(?={_QUOTE})")
_WORD_END: Final = re.compile(rf"(?=\s|[)}}\]]{{0,8}}{_END})")
_SETTING_END: Final = re.compile(
    rf"(?=[)}}\]]{{0,8}}(?:{_END}|[\s,;&]{{1,8}}[\[{{(]{{0,4}}(?:{_QUOTE})?"
    rf"(?:-{{0,2}}[\w.*-]{{1,64}}(?:{_QUOTE})?[ \t]?(?:=|:(?!//))|(?<=\s)--?[A-Za-z])))"
)
_LINE_END: Final = re.compile(r"(?=[\n\r]|\Z)")
_BLOCK: Final = re.compile(r"[|>]?[-+\d]{0,3}[ \t]*+\r?\n")
"""The rest of a line in YAML whose value is in the lines below."""
_AFTER_PATH: Final = re.compile(r"/|(?:ro|rw|[zZ])(?!\w)")
_PASSES: Final = 5
"""A pass can leave what only the next one finds, as names may stand in names; it ends after two or three."""
_HARMLESS: Final = frozenset({"", "true", "false", "null", "None", "nil", MASK})


def looks_secret(name: str) -> bool:
    """Whether the value of a variable, an annotation or a setting of this name is masked."""
    return _NAMES.search(name) is not None


def masked_text(text: str) -> str:
    """A text without the values of settings whose names look secret, and without what is a secret by its form.

    A masked text stays as it is when it is masked again.
    """
    for _ in range(_PASSES):
        shown = _without_values(_NAMED, _without_values(_PAIR, _FORMS.sub(MASK, text)))
        if shown == text:
            break
        text = shown
    return text


def _without_values(names: re.Pattern[str], text: str) -> str:
    """The text without the values that follow the names; every character is looked at a few times at most."""
    parts: list[str] = []
    done = at = 0
    while found := names.search(text, at):
        at = found.end("name")
        if looks_secret(found["name"]) and (span := _value(text, found)) is not None:
            start, at, shown = span
            parts += (text[done:start], shown)
            done = at
    return "".join(parts) + text[done:]


def _value(text: str, found: re.Match[str]) -> tuple[int, int, str] | None:
    """The start and the end of the value, and what is shown in its place; None if there is none."""
    start, separator = found.end(), found["separator"].strip()
    if found["close"]:
        start = _past_space(text, start)
    if separator == ">":
        return _of_element(text, found)
    if separator[:1] not in (":", "=") and (not found["dashes"] or text[start : start + 1] in ("-", "")):
        return None
    if (opened := _QUOTED.match(text, start)) is not None:
        return _of_quoted(text, opened)
    if found["close"] and text[start : start + 1] in ("{", "["):
        end = _joined_end(text, _bracket_end(text, start), found["close"])
        return start, end, _quoted_mask(found["close"])
    if separator == ":" and not found["close"]:
        if _is_of_path(text, found):
            return None
        if (line := _of_line(text, found)) is not None:
            return line
    is_bracketed = text.startswith(("{", "["), start) and not found["dashes"]
    past = _bracket_end(text, start) if is_bracketed else start
    end = _end(_WORD_END if found["dashes"] else _SETTING_END, text, past)
    if text[start:end].strip() in _HARMLESS:
        return None
    return start, end, MASK if text.startswith(found["close"], end) else _quoted_mask(found["close"])


def _of_quoted(text: str, opened: re.Match[str]) -> tuple[int, int, str] | None:
    mark = opened[0]
    closing = _closing(_QUOTED, text, opened.end(), mark)
    if closing is None:
        return opened.end(), len(text), MASK
    end = _joined_end(text, closing, mark)
    is_empty = end == opened.end() + len(mark)
    return None if is_empty else (opened.start(), end, _quoted_mask(mark))


def _joined_end(text: str, at: int | None, mark: str) -> int:
    """The end of what stands right behind a value that began with ``mark``, as a shell joins it."""
    while at is not None and (text.startswith(mark, at) or not _QUOTED_END.match(text, at)):
        further = _QUOTED.match(text, at)
        at = _end(_PART_END, text, at + 1) if further is None else _closing(_QUOTED, text, further.end(), further[0])
    return len(text) if at is None else at


def _of_line(text: str, found: re.Match[str]) -> tuple[int, int, str] | None:
    """The value of a line ``NAME: VALUE``, or of a text in quotes that is such a line; None for a name elsewhere."""
    start, mark = found.end(), _mark_before(text, found.start())
    column = None if mark else _column(text, found.start("word"))
    if not mark and column is None:
        return None
    if column is not None and (below := _BLOCK.match(text, start)) is not None:
        end = _block_end(text, below.end(), column)
        space = "" if found["separator"][-1].isspace() else " "
        return None if end == below.end() else (start, end, f"{space}{MASK}\n")
    closing = _closing(_QUOTED_IN_LINE, text, start, mark) if mark else None
    end = _end(_LINE_END, text, start) if closing is None else closing - len(mark)
    return None if text[start:end].strip() in _HARMLESS else (start, end, MASK)


def _of_element(text: str, found: re.Match[str]) -> tuple[int, int, str] | None:
    """The text of an XML element."""
    if found["close"] or text[found.start() - 1 : found.start()] != "<":
        return None
    end = text.find("<", found.end())
    end = len(text) if end < 0 else end
    return None if not text[found.end() : end].strip() else (found.end(), end, MASK)


def _closing(marks: re.Pattern[str], text: str, at: int, mark: str) -> int | None:
    """The end of the closing mark that belongs to an opening ``mark``: it is escaped as often, and no oftener."""
    depth = len(mark) - 1
    for found in marks.finditer(text, at):
        if found["quote"] is None:
            return None
        if found["quote"] == mark[-1] and len(found["slashes"]) % (2 * depth + 2) == depth:
            return found.end()
    return None


def _bracket_end(text: str, start: int) -> int:
    """The end of the object or list in JSON that begins at ``start``; the end of the text if it is not whole."""
    depth, at = 0, start
    while (found := _TOKEN.search(text, at)) is not None:
        at = found.end()
        if found["quote"] is not None:
            closing = _closing(_QUOTED, text, at, found[0])
            if closing is None:
                return len(text)
            at = closing
            continue
        depth += 1 if found[0] in "{[" else -1
        if depth == 0:
            return at
    return len(text)


def _block_end(text: str, at: int, column: int) -> int:
    """The end of the lines that are indented further than ``column``, or are a list there."""
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end + 1
        line = text[at:line_end]
        content = line.lstrip(" \t")
        indent = len(line) - len(content)
        if content.strip() and indent <= column and not (indent == column and content.startswith("- ")):
            break
        at = line_end
    return at


def _column(text: str, at: int) -> int | None:
    """The column of a word that is the first of its line, behind white space and marks of lists and quotations."""
    start = at
    while start and text[start - 1] in " \t-><*":
        start -= 1
    return at - start if not start or text[start - 1] in "\n\r" else None


def _mark_before(text: str, at: int) -> str:
    """The quotation mark that stands right before, with its backslashes."""
    if not at or text[at - 1] not in "\"'":
        return ""
    start = at - 1
    while start and text[start - 1] == "\\":
        start -= 1
    return text[start:at]


def _is_of_path(text: str, found: re.Match[str]) -> bool:
    """Whether the name is the end of a path in a mount: ``/run/token:/token:ro``."""
    return text[found.start() - 1 : found.start()] == "/" and _AFTER_PATH.match(text, found.end()) is not None


def _past_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.search(text, at)
    return len(text) if found is None else found.start()


def _quoted_mask(mark: str) -> str:
    return f"{mark}{MASK}{mark}"
