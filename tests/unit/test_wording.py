"""Names in errors are quoted as Go quotes them; the expected texts were printed by Go 1.27."""

import pytest

from plugbay.errors.wording import quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("example.com/gopher", '"example.com/gopher"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("v\x00\x1f\x7f", r'"v\x00\x1f\x7f"'),
        ("\u00ad\u200b\u2028\ufeff", r'"\u00ad\u200b\u2028\ufeff"'),
        ("\U000e0001\U0010ffff", r'"\U000e0001\U0010ffff"'),
        ("\u00e9\u4e16\U0001f439<&>'", '"\u00e9\u4e16\U0001f439<&>\'"'),
        ("\u00a0\u3000", r'"\u00a0\u3000"'),
        (b"a\xff\xc3".decode(errors="surrogateescape"), r'"a\xff\xc3"'),
        ("\ufffd", '"\ufffd"'),
    ],
)
def test_quotes_as_go(text: str, quoted: str) -> None:
    assert quote(text) == quoted
