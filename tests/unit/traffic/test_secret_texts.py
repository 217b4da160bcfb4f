"""Secrets are found in every form in which a text may hold them, and nothing else is."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugbay.traffic.secret_texts import looks_secret, masked_text

NAMES = st.sampled_from(
    [
        "password",
        "DB_PASSWORD",
        "api-key",
        "secret",
        "Authorization",
        "X-Auth-Token",
        "SSHKEY",
        "clientSecret",
        "pgpass",
    ]
)
ONE_LINE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f\x85\xa0"), min_size=3)
SECRETS = ONE_LINE.map(lambda text: f"geh{text}eim")
WORDS = st.from_regex(r"[A-Za-z0-9_/+.~-]{1,20}", fullmatch=True).map(lambda text: f"geh{text}eim")
IDS = st.sampled_from(["GPU-8f3e1d2c", "/dev/nvidia0", "0000:3b:00.0", "example.com/gopher=g1", "0-3,8"])

QUOTED: Mapping[str, Callable[[str, str, str], str]] = {
    "JSON": lambda name, secret, other: json.dumps({"a": [{name: secret, "device": other}]}),
    "JSON in JSON": lambda name, secret, other: json.dumps({"a": json.dumps({name: secret, "device": other})}),
    "JSON in a text": lambda name, secret, other: f"not {json.dumps({name: secret}, indent=2)} for {other}",
    "a list below a name": lambda name, secret, other: json.dumps({name: [secret, {"b": secret}], "device": other}),
    "name and value": lambda name, secret, other: json.dumps([{"name": name, "value": secret}, {"name": "b"}, other]),
    "an option": lambda name, secret, other: shlex.join(["run", f"--{name}", f"x {secret}", "--device", other]),
    "a list of options": lambda name, secret, other: json.dumps(["run", f"--{name}", secret, "--device", other]),
    "an option with =": lambda name, secret, other: f"run --{name}={shlex.quote('x ' + secret)} --device {other}",
    "a header": lambda name, secret, other: f"Device: {other}\r\n{name}: Bearer {secret}\r\nAccept: */*",
    "a line": lambda name, secret, other: f"DEVICE={other}\n{name}={shlex.quote('x ' + secret)}\nB=1",
    "JSON behind a name": lambda name, secret, other: (
        f"a b, {name}={json.dumps({'a': 1, 'b': [secret, {}]})}, device={other}"
    ),
    "YAML": lambda name, secret, other: f"a:\n  {name}: |\n    {secret}\n    {secret}\n  device: {other}",
    "YAML of Windows": lambda name, secret, other: f"a:\r\n  {name}: |\r\n    {secret}\r\n  device: {other}",
    "YAML in two lines": lambda name, secret, other: f"a:\r\n  {name}:\r\n    {secret}\r\n  device: {other}",
}
BARE: Mapping[str, Callable[[str, str, str], str]] = {
    "a setting": lambda name, secret, other: f"cannot log in: {name}={secret}; device={other}",
    "a setting of two words": lambda name, secret, other: f"{name}={secret} {secret}, device={other}",
    "an address": lambda name, secret, other: f"GET https://host/x?{name}={secret}&device={other}",
    "an option": lambda name, secret, other: f"run --{name} {secret} {other}",
    "an option with =": lambda name, secret, other: f'["run", "--{name}={secret}", "{other}"]',
    "a value of Go": lambda name, secret, other: f"map[{name}:{secret} device:{other}]",
    "a pair of Go": lambda name, secret, other: f"[{{Name:{name},Value:{secret},From:nil}} {{Name:b,Value:{other}}}]",
    "YAML": lambda name, secret, other: f"- {name}: {secret}\n  device: {other}",
    "pairs in YAML": lambda name, secret, other: f"- name: {name}\n  value: {secret}\n- name: b\n  value: {other}",
    "XML": lambda name, secret, other: f"<a><{name}>{secret}</{name}><device>{other}</device></a>",
    "a URL": lambda name, secret, other: f"https://user:{secret.replace('/', '.')}@host/{other}",
}


@pytest.mark.parametrize("form", QUOTED)
@given(name=NAMES, secret=SECRETS, other=IDS)
@example(name="password", secret='geh"\\eim', other="0-3,8")
@example(name="password", secret="geh'\"'eim", other="0-3,8")
@example(name="password", secret="geh} ,b=1]eim", other="0-3,8")
def test_any_secret_in_quotes_or_on_its_line_is_masked_and_the_rest_stays(
    form: str, name: str, secret: str, other: str
) -> None:
    _check(QUOTED[form](name, secret, other), other)


@pytest.mark.parametrize("form", BARE)
@given(name=NAMES, secret=WORDS, other=IDS)
def test_word_behind_a_name_is_masked_and_the_rest_stays(form: str, name: str, secret: str, other: str) -> None:
    _check(BARE[form](name, secret, other), other)


def _check(text: str, other: str) -> None:
    shown = masked_text(text)
    assert "geh" not in shown, text
    assert "eim" not in shown, text
    assert other in shown, text
    assert masked_text(shown) == shown


PIECES = st.sampled_from(
    [
        "password",
        "token",
        "name",
        "value",
        "key",
        "a",
        "x=1",
        "b: c",
        "abc123",
        "***",
        "Bearer ",
        "eyJhbGciOi.a.b",
        "-----BEGIN PRIVATE KEY-----",
        "://",
        "--",
        '\\"',
        "  ",
        *"-=: \n\"'{}[],;&@|></",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
@example('password\\"=password\\"')
def test_what_is_masked_stays_as_it_is(text: str) -> None:
    shown = masked_text(text)
    assert masked_text(shown) == shown


HARMLESS_NAMES = st.sampled_from(
    ["PATH", "NVIDIA_VISIBLE_DEVICES", "COMPASS", "AUTHOR", "TOKENIZERS_PARALLELISM", "PASSTHROUGH", "device"]
)


@given(st.dictionaries(HARMLESS_NAMES, st.one_of(ONE_LINE.filter(lambda text: masked_text(text) == text), IDS)))
def test_texts_without_names_of_secrets_stay(settings: dict[str, str]) -> None:
    for text in (json.dumps(settings), " ".join(f"{name}={value}" for name, value in settings.items())):
        assert masked_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "/usr/local/nvidia/bin:/usr/local/token:/bin",
        "/run/secrets/token:/token:ro",
        "vendor.com/yubikey=serial1",
        '{"password": null, "hasToken": true, "secret": ""}',
        "the option --token",
        "invalid token",
        "secret://vault/x",
    ],
)
def test_texts_that_hold_no_secret(text: str) -> None:
    assert masked_text(text) == text


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF0123456789abcd",
        "hf_abcDEF0123456789",
        "xoxb-1234567890-abcdef",
        "ghp_abcDEF0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "nvapi-abcDEF0123456789",
        "glpat-abcDEF0123456789",
        "npm_abcDEF0123456789",
        "Bearer hunter5",
        "Basic aHVudGVyNQ==",
    ],
)
def test_keys_of_known_services(secret: str) -> None:
    word = secret.rpartition(" ")[2]
    for text in (secret, f"refused: {secret}.", f'X="{secret}" B=1'):
        assert word not in masked_text(text)


@pytest.mark.parametrize(
    "name", ["SSHKEY", "KEY_1", "API_KEY_PEM", "Authorization", "PGPASS", "HF_TOKEN", "WEBHOOK_URL", "DSN"]
)
def test_further_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["BYPASS", "MONKEY", "TOKENIZERS_PARALLELISM", "AUTHORITY", "OLDPWD", "KEYMAP", "YUBIKEY"]
)
def test_further_names_that_are_harmless(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    "piece",
    [
        '"',
        "password=",
        'password="',
        "password: ",
        "token:\n ",
        '{"secret":[',
        "--token ",
        "name:token value:",
        "}",
        "\\",
        " ",
        "a:",
        "'token: ",
        "<token>",
        "bearer ",
    ],
)
@pytest.mark.timeout(20)
def test_time_for_long_texts_is_linear(piece: str) -> None:
    for text in (piece, f"password={piece}", f"{piece}password="):
        masked_text(text * (300_000 // len(text)))
    masked_text("password=" + piece * (300_000 // len(piece)))
