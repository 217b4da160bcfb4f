from hypothesis import given
from hypothesis import strategies as st

from plugbay.cli.printing.table import Columns, Description, cell
from plugbay.errors.wording import printable


def test_columns_are_three_spaces_apart_and_the_last_one_is_not_padded() -> None:
    table = Columns(("NAME", "AGE")).table([("a-long-name", "5s"), ("b", "12m")])
    assert table == "NAME          AGE\na-long-name   5s\nb             12m\n"


def test_later_rows_line_up_with_earlier_ones() -> None:
    columns = Columns(("NAME", "AGE"))
    columns.table([("a-long-name", "5s")])
    assert columns.rows([("b", "1s")]) == "b             1s\n"


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_every_row_is_one_line(rows: list[tuple[str, str]]) -> None:
    assert len(Columns(("A", "B")).table(rows).splitlines()) == 1 + len(rows)


def test_a_cell_shows_that_lines_were_cut_away() -> None:
    assert cell("first\nsecond") == "first..."
    assert cell("one\ttab") == "one tab"


def test_terminal_escapes_are_made_visible() -> None:
    assert printable("\x1b[31mred\x07 \udcff") == "\\x1b[31mred\\x07 \\udcff"


def test_fields_line_up_until_something_else_stands_between_them() -> None:
    page = Description()
    page.field("Name", "a")
    page.field("Namespace", "b")
    page.line("Containers:")
    page.field("Image", "c", depth=1)
    assert str(page) == "Name:       a\nNamespace:  b\nContainers:\n  Image:  c\n"


def test_further_lines_of_a_value_stand_under_the_first() -> None:
    page = Description()
    page.field("Labels", "a=1\nb=2")
    assert str(page) == "Labels:  a=1\n         b=2\n"


def test_what_is_empty_is_called_none() -> None:
    page = Description()
    page.fields("Environment", [])
    page.items("Mounts", [])
    page.table("Events", ("A", "B"), [])
    assert str(page) == "Environment:  <none>\nMounts:       <none>\nEvents:       <none>\n"


def test_a_table_on_a_page_has_a_rule_under_its_header() -> None:
    page = Description()
    page.table("Conditions", ("Type", "Status"), [("Ready", "True")])
    assert str(page) == "Conditions:\n  Type   Status\n  ----   ------\n  Ready  True\n"
